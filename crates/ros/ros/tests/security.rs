//! Participants with DDS security, on loopback: who gets what, and what stands on the wire.
#![cfg(feature = "security")]

mod keystore;
mod sniffer;

use keystore::{EVERYTHING, Keystore, USUAL};
use ros::{Bell, Context, Error, Message, Node, Options, Publisher, Qos, Subscription};
use sniffer::Sniffer;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Text {
    data: String,
}

impl Message for Text {
    const TYPE: &'static str = "std_msgs/msg/String";
}

const SECRET: &str = "the robot turns left at the third corner";

fn options(domain: u16, enclave: Option<&Path>) -> Options {
    let interfaces = vec!["127.0.0.1".parse().unwrap()];
    Options { domain, interfaces, security: enclave.map(PathBuf::from), ..Options::default() }
}

fn domain(offset: u32) -> u16 {
    1 + ((std::process::id() + offset * 19) % 100) as u16
}

/// A participant with a node that says and hears `/chatter`.
struct Peer {
    context: Context,
    _node: Node,
    chatter: Publisher<Text>,
    heard: Subscription<Text>,
}

impl Peer {
    fn new(domain: u16, name: &str, enclave: Option<&Path>) -> Peer {
        let context = Context::new(&options(domain, enclave)).unwrap();
        let node = context.node("/", name).unwrap();
        let qos = Qos { max_bytes: 2 << 20, ..Qos::default().depth(10) };
        let chatter = node.publisher("/chatter", qos).unwrap();
        let heard = node.subscription("/chatter", qos).unwrap();
        Peer { context, _node: node, chatter, heard }
    }

    /// Takes all texts that have arrived at this peer.
    fn hears(&self) -> Vec<Text> {
        std::iter::from_fn(|| self.heard.take().unwrap()).map(|sample| sample.message).collect()
    }
}

/// Says a text until another one hears it; the limit only ends a test that has failed.
fn until_heard(from: &Peer, to: &Peer, text: &Text) {
    let bell = Bell::new().unwrap();
    let start = Instant::now();
    while !to.hears().contains(text) {
        assert!(start.elapsed() < Duration::from_secs(60), "not heard: {} B", text.data.len());
        // Nobody listens yet, or the window is full: it is said again.
        let _ = from.chatter.publish(text);
        bell.wait(Some(Duration::from_millis(200))).unwrap();
    }
}

fn text(size: usize) -> Text {
    Text { data: SECRET.chars().cycle().take(size).collect() }
}

#[test]
fn peers_of_one_keystore_talk_and_outsiders_get_and_do_nothing() {
    let (Some(ours), Some(theirs)) = (Keystore::new(), Keystore::new()) else { return };
    let domain = domain(0);
    let enclaves = ["here", "there"].map(|name| ours.enclave(name, &EVERYTHING));
    let stranger = theirs.enclave("stranger", &EVERYTHING);
    let plain = Peer::new(domain, "plain", None);
    let stranger = Peer::new(domain, "stranger", Some(&stranger));
    let here = Peer::new(domain, "here", Some(&enclaves[0]));
    let there = Peer::new(domain, "there", Some(&enclaves[1]));
    for size in [40, 1000, 65_537, 1_000_000] {
        until_heard(&here, &there, &text(size));
        until_heard(&there, &here, &text(size));
        for outsider in [&plain, &stranger] {
            let _ = outsider.chatter.publish(&text(7));
            assert_eq!(outsider.hears(), []);
        }
    }
    let names = |peer: &Peer| -> Vec<String> {
        peer.context.nodes().iter().map(|node| node.name.to_string()).collect()
    };
    assert_eq!((names(&here), names(&there)), (vec!["/there".into()], vec!["/here".into()]));
    assert!(names(&plain).is_empty() && names(&stranger).is_empty());
    // Each may find its own reader, too.
    assert!(here.chatter.subscribers() <= 2 && plain.chatter.subscribers() <= 1);
    assert!(there.chatter.subscribers() <= 2 && stranger.chatter.subscribers() <= 1);
    // The texts that the outsiders sent meanwhile reached neither of the two.
    assert!(!here.hears().contains(&text(7)) && !there.hears().contains(&text(7)));
}

#[test]
fn wire_shows_the_text_without_security_and_not_with_it() {
    let Some(keystore) = Keystore::new() else { return };
    let enclaves = ["here", "there"].map(|name| keystore.enclave(name, &EVERYTHING));
    let enclaves = [[None, None], [Some(&enclaves[0]), Some(&enclaves[1])]];
    for (i, [from, to]) in enclaves.into_iter().enumerate() {
        let domain = domain(1 + i as u32);
        let Some(sniffer) = Sniffer::start(domain) else { return };
        let here = Peer::new(domain, "here", from.map(PathBuf::as_path));
        let there = Peer::new(domain, "there", to.map(PathBuf::as_path));
        for size in [40, 100_000] {
            until_heard(&here, &there, &text(size));
        }
        drop((here, there));
        let (packets, clear) = sniffer.count(SECRET);
        let is_secured = from.is_some();
        assert!(packets > 10 && (clear > 0) != is_secured, "{is_secured}: {clear} of {packets}");
    }
}

#[test]
fn permissions_decide_who_says_and_hears_a_topic() {
    let Some(keystore) = Keystore::new() else { return };
    let domain = domain(3);
    let own = keystore.enclave("here", &EVERYTHING);
    let other = keystore.enclave("other", &["ros_discovery_info", "rt/other"]);
    let allowed = keystore.enclave("there", &EVERYTHING);
    let here = Peer::new(domain, "here", Some(&own));
    let there = Peer::new(domain, "there", Some(&allowed));
    let context = Context::new(&options(domain, Some(&other))).unwrap();
    let node = context.node("/", "other").unwrap();
    let qos = Qos::default().depth(10);
    // Its own DDS refuses already; who has another one is refused by the others' copy of its
    // permissions, which its authority has signed.
    assert!(matches!(node.publisher::<Text>("/chatter", qos), Err(Error::Create { .. })));
    assert!(matches!(node.subscription::<Text>("/chatter", qos), Err(Error::Create { .. })));
    assert!(node.publisher::<Text>("/other", qos).is_ok());
    until_heard(&here, &there, &text(100));
}

#[test]
fn bad_files_are_named_before_anything_is_sent() {
    let Some(keystore) = Keystore::new() else { return };
    let Some(other) = Keystore::new() else { return };
    let Some(payload) = Keystore::with(["SIGN", "ENCRYPT", "ENCRYPT"]) else { return };
    let Some(signed) = Keystore::with(["SIGN", "SIGN", "NONE"]) else { return };
    let origin = ["ENCRYPT_WITH_ORIGIN_AUTHENTICATION", "ENCRYPT", "NONE"];
    let Some(origin) = Keystore::with(origin) else { return };
    let [signed, origin] = [&signed, &origin].map(|of| of.enclave("robot", &EVERYTHING));
    let foreign = other.enclave("robot", &EVERYTHING);
    let payload = payload.enclave("robot", &EVERYTHING);
    let good = keystore.enclave("robot", &EVERYTHING);
    let twin = keystore.enclave("twin", &EVERYTHING);
    let check = |folder: &Path, domain| options(domain, Some(folder)).check();
    check(&good, 0).unwrap();
    let said = |folder: &Path, domain| match check(folder, domain) {
        Ok(()) => panic!("{}: taken", folder.display()),
        Err(error) => error.to_string(),
    };
    let names = ["identity_ca.cert.pem", "cert.pem", "key.pem", "permissions_ca.cert.pem"];
    for name in names.into_iter().chain(["governance.p7s", "permissions.p7s"]) {
        let file = good.join(name);
        let bytes = std::fs::read(&file).unwrap();
        let foreign = std::fs::read(foreign.join(name)).unwrap();
        std::fs::remove_file(&file).unwrap();
        let missing = said(&good, 0);
        assert!(missing.contains(name) && missing.contains("No such file"), "{missing}");
        let mut changed = bytes.clone();
        let middle = bytes.len() / 3;
        // An authority is trusted as it is: nobody vouches for its certificate.
        changed[middle] ^= u8::from(!name.contains("_ca"));
        for wrong in [b"".as_slice(), b"nothing", &changed, &foreign] {
            if wrong == bytes {
                continue;
            }
            std::fs::write(&file, wrong).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            let wrong = said(&good, 0);
            assert!(wrong.contains(".pem: ") || wrong.contains(".p7s: "), "{name}: {wrong}");
            assert!(wrong.contains("expected"), "{name}: {wrong}");
        }
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        check(&good, 0).unwrap();
    }
    assert!(said(&good, 201).contains("governance.p7s: no domain_rule for domain 201"));
    assert!(said(&payload, 0).contains("governance.p7s: data_protection_kind ENCRYPT"));
    let signed = said(&signed, 0);
    assert!(signed.contains("governance.p7s: metadata_protection_kind SIGN"), "{signed}");
    assert!(said(&origin, 0).contains("rtps_protection_kind ENCRYPT_WITH_ORIGIN_AUTHENTICATION"));
    std::fs::copy(twin.join("permissions.p7s"), good.join("permissions.p7s")).unwrap();
    assert!(said(&good, 0).contains("permissions.p7s: no grant for CN=robot"));
    std::fs::set_permissions(twin.join("key.pem"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = said(&twin, 0);
    assert!(open.contains("key.pem: mode 0644") && open.contains("chmod 600"), "{open}");
    assert!(Context::new(&options(domain(4), Some(&twin))).is_err());
    assert_eq!(USUAL[2], "NONE");
}
