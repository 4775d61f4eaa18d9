//! Two participants on loopback: topics, services, and who sees whom.

mod interfaces;
mod sniffer;

use ros::{Bell, Context, Error, Mapping, Message, Neighbours, Qos, Service};
use std::sync::Arc;
use std::time::{Duration, Instant};

use interfaces::{Add, Pair, Sum, Text, domain};
use sniffer::Sniffer;

/// The same bytes as [`Text`] under another name: what a sender of another type does.
#[derive(serde::Serialize, serde::Deserialize)]
struct Bytes {
    #[serde(with = "ros::cdr::bytes")]
    data: Vec<u8>,
}

impl Message for Bytes {
    const TYPE: &'static str = "std_msgs/msg/String";
}

fn context(offset: u32) -> Context {
    interfaces::context(domain(offset))
}

/// Asks until there is an answer, woken by the bell; the limit only ends a test that has failed.
fn until<T>(bell: &Bell, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: nothing came");
        bell.wait(Some(Duration::from_millis(100))).unwrap();
    }
}

#[test]
fn messages_arrive_in_order_and_bad_ones_are_reported_and_skipped() {
    let (here, there) = (context(0), context(0));
    let talker = here.node("/", "talker").unwrap();
    let listener = there.node("/robot", "listener").unwrap();
    let bell = Arc::new(Bell::new().unwrap());
    let ring = Arc::clone(&bell);
    let qos = Qos { max_bytes: 64, ..Qos::default().depth(100) };
    let chatter = listener.subscription::<Text>("/chatter", qos).unwrap();
    chatter.on_message(move || ring.ring());
    let text = talker.publisher::<Text>("chatter", qos).unwrap();
    let bytes = talker.publisher::<Bytes>("/chatter", qos).unwrap();
    until(&bell, "a reader", || {
        (text.subscribers() == 1 && bytes.subscribers() == 1).then_some(())
    });
    // Discovery goes both ways; what is sent before the reader knows the writers is not kept.
    let warm = Text { data: "warm".into() };
    let mut got = until(&bell, "the first message", || {
        text.publish(&warm).unwrap();
        chatter.take().unwrap()
    });
    while got.message == warm {
        text.publish(&Text { data: "0".into() }).unwrap();
        got = until(&bell, "the marker", || chatter.take().unwrap());
    }
    for i in 1..50 {
        text.publish(&Text { data: i.to_string() }).unwrap();
    }
    for i in 1..50 {
        let next = || loop {
            match chatter.take().unwrap() {
                Some(sample) if sample.message.data == "0" => {}
                other => return other,
            }
        };
        let sample = until(&bell, "a message", next);
        assert_eq!(sample.message.data, i.to_string());
        assert!(sample.sent.unwrap().elapsed().unwrap() < Duration::from_secs(600));
    }
    // No text: not UTF-8, and too long. Each is reported, and the next is there.
    let mut errors = Vec::new();
    until(&bell, "the bad ones", || {
        if errors.is_empty() {
            bytes.publish(&Bytes { data: vec![0xff, 0xfe, 0] }).unwrap();
            bytes.publish(&Bytes { data: vec![b'a'; 65] }).unwrap();
        }
        loop {
            match chatter.take() {
                Ok(None) => break,
                Ok(Some(sample)) => panic!("{sample:?}"),
                Err(Error::Malformed { reason, .. }) => errors.push(reason),
                Err(other) => panic!("{other}"),
            }
        }
        let long = errors.iter().any(|reason| reason.contains("expected at most 64"));
        (long && errors.len() >= 2).then_some(())
    });
}

#[test]
fn each_message_after_an_empty_take_rings() {
    let (here, there) = (context(3), context(3));
    let talker = here.node("/", "talker").unwrap();
    let listener = there.node("/", "listener").unwrap();
    let text = talker.publisher::<Text>("chatter", Qos::default()).unwrap();
    let chatter = listener.subscription::<Text>("chatter", Qos::default()).unwrap();
    let bell = Arc::new(Bell::new().unwrap());
    let ring = Arc::clone(&bell);
    chatter.on_message(move || ring.ring());
    let message = |number: usize| Text { data: number.to_string() };
    until(&bell, "the first message", || {
        text.publish(&message(0)).unwrap();
        chatter.take().unwrap()
    });
    for number in 1..20 {
        text.publish(&message(number)).unwrap();
        let mut got = None;
        while got != Some(message(number)) {
            match chatter.take().unwrap() {
                Some(sample) => got = Some(sample.message),
                // Nothing else is looked at: without a ring this waits in vain.
                None => assert!(bell.wait(Some(Duration::from_secs(60))).unwrap(), "no ring"),
            }
        }
    }
    assert_eq!(chatter.take().unwrap().map(|sample| sample.message), None);
}

#[test]
fn subscription_keeps_the_last_messages_and_counts_the_others() {
    let (here, there) = (context(4), context(4));
    let talker = here.node("/", "talker").unwrap();
    let listener = there.node("/", "listener").unwrap();
    let text = talker.publisher::<Text>("chatter", Qos::default()).unwrap();
    let narrow = listener.subscription::<Text>("chatter", Qos::default().depth(3)).unwrap();
    let wide = listener.subscription::<Text>("chatter", Qos::default().depth(100)).unwrap();
    let bell = Bell::new().unwrap();
    let warm = Text { data: "warm".into() };
    until(&bell, "both readers", || {
        text.publish(&warm).unwrap();
        bell.wait(Some(Duration::from_millis(20))).unwrap();
        let both = narrow.take().unwrap().is_some() & wide.take().unwrap().is_some();
        both.then_some(())
    });
    for number in 0..20 {
        text.publish(&Text { data: number.to_string() }).unwrap();
    }
    let mut came = 0;
    let mut count = || {
        while let Some(sample) = wide.take().unwrap() {
            came += u32::from(sample.message != warm);
        }
        (came == 20).then_some(())
    };
    until(&bell, "all of them", &mut count);
    let dropped = narrow.overwritten();
    let mut last = None;
    let mut taken = 0;
    until(&bell, "the last of them", || {
        while let Some(sample) = narrow.take().unwrap() {
            taken += u64::from(sample.message != warm);
            last = Some(sample.message);
        }
        (last == Some(Text { data: "19".into() })).then_some(())
    });
    let dropped = narrow.overwritten() - dropped;
    assert!(dropped > 0 && (20..=30).contains(&(taken + dropped)), "{taken} and {dropped}");
}

/// Returns the number of submessages `GAP` that a message of RTPS has with a destination before
/// them, and the number without (DDSI-RTPS 2.5, 8.3.3 and 9.4.5).
fn gaps(message: &[u8]) -> [usize; 2] {
    const GAP: u8 = 0x08;
    const INFO_DST: u8 = 0x0e;
    let (mut has_destination, mut counts) = (false, [0; 2]);
    let mut rest = if message.starts_with(b"RTPS") { &message[20..] } else { &[] };
    while let [kind, flags, low, high, ..] = rest {
        let length = [*low, *high];
        let is_little = flags & 1 == 1;
        let bytes = if is_little { u16::from_le_bytes(length) } else { u16::from_be_bytes(length) };
        match *kind {
            INFO_DST => has_destination = true,
            GAP => counts[usize::from(!has_destination)] += 1,
            _ => {}
        }
        // The last one may say 0: it goes to the end.
        rest = if bytes == 0 { &[] } else { rest.get(4 + usize::from(bytes)..).unwrap_or(&[]) };
    }
    counts
}

/// Cyclone DDS drops a gap that does not say whom it is for, and then never gets what comes after
/// it.
#[test]
fn reader_that_comes_late_is_told_by_name_what_it_missed() {
    let Some(sniffer) = Sniffer::start(domain(8)) else { return };
    let (here, early, late) = (context(8), context(8), context(8));
    let talker = here.node("/", "talker").unwrap();
    let text = talker.publisher::<Text>("chatter", Qos::default()).unwrap();
    let bell = Bell::new().unwrap();
    let hears = |context: &Context, number: usize| {
        let listener = context.node("/", "listener").unwrap();
        let chatter = listener.subscription::<Text>("chatter", Qos::default()).unwrap();
        until(&bell, "a message", || {
            text.publish(&Text { data: number.to_string() }).unwrap();
            bell.wait(Some(Duration::from_millis(20))).unwrap();
            chatter.take().unwrap()
        });
    };
    hears(&early, 0);
    hears(&late, 1);
    drop((here, early, late));
    let found = sniffer
        .end()
        .iter()
        .map(|packet| gaps(packet))
        .fold([0; 2], |all, found| [all[0] + found[0], all[1] + found[1]]);
    assert!(found[0] > 0 && found[1] == 0, "gaps with and without a destination: {found:?}");
}

#[test]
fn services_answer_in_both_mappings_and_only_who_asked() {
    let (here, there) = (context(1), context(1));
    let server_node = here.node("/math", "server").unwrap();
    let client_node = there.node("/math", "client").unwrap();
    for mapping in [Mapping::Cyclone, Mapping::Enhanced] {
        let name = format!("add_{mapping:?}").to_lowercase();
        let server = server_node.server::<Add>(&name, mapping, Qos::default()).unwrap();
        let clients: Vec<_> = (0..2)
            .map(|_| client_node.client::<Add>(&name, mapping, Qos::default()).unwrap())
            .collect();
        let bell = Arc::new(Bell::new().unwrap());
        let ring = || {
            let bell = Arc::clone(&bell);
            move || bell.ring()
        };
        server.on_request(ring());
        clients.iter().for_each(|client| client.on_response(ring()));
        let served = || clients.iter().all(|client| client.is_served()).then_some(());
        until(&bell, "the server", served);
        let serve = || {
            while let Some((id, Pair { a, b })) = server.take().unwrap() {
                server.respond(&id, &Sum { sum: a + b }).unwrap();
            }
        };
        for (i, client) in clients.iter().enumerate() {
            let a = 100 * (i as i64 + 1);
            let mut sent = Vec::new();
            let (number, Sum { sum }) = until(&bell, "a response", || {
                // A request that overtakes discovery is lost: it is sent again.
                sent.push(client.send(&Pair { a, b: 1 }).unwrap());
                serve();
                bell.wait(Some(Duration::from_millis(200))).unwrap();
                serve();
                client.take().unwrap()
            });
            assert!(sent.contains(&number), "{mapping:?}: {number} is none of {sent:?}");
            assert_eq!(sum, a + 1, "{mapping:?}");
        }
        // The first client was quiet while the second was answered.
        while let Some((_, Sum { sum })) = clients[0].take().unwrap() {
            assert_eq!(sum, 101, "{mapping:?}");
        }
    }
}

struct Echo;

impl Service for Echo {
    const TYPE: &'static str = "keeptime_test/srv/Echo";
    type Request = Text;
    type Response = Text;
}

#[test]
fn long_requests_and_responses_arrive_in_both_mappings() {
    let (here, there) = (context(4), context(4));
    let server_node = here.node("/echo", "server").unwrap();
    let client_node = there.node("/echo", "client").unwrap();
    let bell = Bell::new().unwrap();
    for mapping in [Mapping::Cyclone, Mapping::Enhanced] {
        let name = format!("echo_{mapping:?}").to_lowercase();
        let qos = Qos { max_bytes: 2 << 20, ..Qos::default() };
        let server = server_node.server::<Echo>(&name, mapping, qos).unwrap();
        let client = client_node.client::<Echo>(&name, mapping, qos).unwrap();
        until(&bell, "the server", || (client.is_served() && server.is_heard()).then_some(()));
        // One packet, just more, and many.
        for length in [1000, 1500, 4000, 1_000_000] {
            let text = Text { data: "?!".repeat(length / 2) };
            let number = client.send(&text).unwrap();
            let (id, request) = until(&bell, "the request", || server.take().unwrap());
            assert_eq!(request, text, "{mapping:?}");
            server.respond(&id, &request).unwrap();
            let (answered, response) = until(&bell, "the response", || client.take().unwrap());
            assert_eq!(answered, number, "{mapping:?}, {length}");
            assert_eq!(response, text, "{mapping:?}");
        }
    }
}

#[test]
fn nodes_are_seen_with_their_endpoints_and_leave_with_them() {
    let (here, there) = (context(2), context(2));
    let bell = Bell::new().unwrap();
    let node = here.node("/robot/arm", "driver").unwrap();
    assert!(matches!(here.node("/robot/arm", "driver"), Err(Error::Name { .. })));
    let joints = node.publisher::<Text>("joints", Qos::default()).unwrap();
    let add = node.server::<Add>("~/add", Mapping::Cyclone, Qos::default()).unwrap();
    let seen = |readers, writers| {
        let nodes = there.nodes();
        let node = nodes.iter().find(|node| node.name.to_string() == "/robot/arm/driver")?;
        ((node.readers.len(), node.writers.len()) == (readers, writers)).then_some(())
    };
    until(&bell, "the node", || seen(1, 2));
    let service = ("/robot/arm/driver/add".to_owned(), Add::TYPE.to_owned());
    until(&bell, "the service", || there.services().contains(&service).then_some(()));
    drop(add);
    until(&bell, "the node without its service", || seen(0, 1));
    drop(node);
    until(&bell, "the node that its publisher keeps", || seen(0, 1));
    drop(joints);
    until(&bell, "nobody", || there.nodes().is_empty().then_some(()));
}

#[test]
fn many_participants_of_a_machine_find_each_other() {
    const COUNT: usize = Neighbours::NOT_NEEDED + 3;
    let domain = domain(9);
    let _neighbours = Neighbours::new(domain).unwrap();
    let contexts: Vec<Context> = (0..COUNT).map(|_| context(9)).collect();
    let join = |(number, context): (usize, &Context)| context.node("/many", &format!("n{number}"));
    let _nodes: Vec<_> = contexts.iter().enumerate().map(|one| join(one).unwrap()).collect();
    let bell = Bell::new().unwrap();
    for (number, context) in contexts.iter().enumerate() {
        until(&bell, &format!("all others, at participant {number}"), || {
            let seen = context.nodes();
            let seen = seen.iter().filter(|entry| entry.name.namespace() == "/many").count();
            (seen == COUNT - 1).then_some(())
        });
    }
}
