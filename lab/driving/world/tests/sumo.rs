//! Traffic from SUMO: from the real one, and from a recording of it.
//!
//! `recorded/sumo.txt` is what one run of the first test said, line by line: `>` what Keeptime sent,
//! `<` what SUMO 1.28 answered, in hexadecimal.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use world::sumo::{Error, Sumo};
use world::{Body, Kind, Pose};

const TIMEOUT: Duration = Duration::from_secs(60);
const RECORDING: &str = include_str!("recorded/sumo.txt");

/// Lorries and cars from the west to the east and to the south; the ego vehicle comes from the south.
const ROUTES: &str = r#"<routes>
  <vType id="car" length="4.6" width="1.8" sigma="0"/>
  <vType id="lorry" vClass="truck" length="9" width="2.5" sigma="0"/>
  <vehicle id="ego" type="car" depart="0" departSpeed="5"><route edges="south east"/></vehicle>
  <flow id="straight" type="lorry" begin="0" end="60" period="9" departSpeed="10"><route edges="-west east"/></flow>
  <flow id="right" type="car" begin="4" end="60" period="9" departSpeed="10"><route edges="-west -south"/></flow>
</routes>"#;

/// The same commands to the real SUMO and to the recording: 12 s in steps of 0.1 s, with the ego
/// vehicle put aside after ten of them. All that was seen, step by step.
fn session(address: SocketAddr) -> Result<Vec<Vec<Body>>, Error> {
    let mut sumo = Sumo::connect(address, "ego", TIMEOUT)?;
    assert!(sumo.version().starts_with("SUMO"), "{}", sumo.version());
    let mut seen = Vec::new();
    for step in 0..120 {
        seen.push(sumo.step()?.to_vec());
        if step == 9 {
            sumo.place(&Body { pose: parked(), ..*ego(&seen[9]) })?;
        }
    }
    sumo.close()?;
    Ok(seen)
}

fn parked() -> Pose {
    Pose::new(1.75, -40.0, std::f64::consts::FRAC_PI_2)
}

fn ego(bodies: &[Body]) -> &Body {
    assert_eq!(bodies[0].id, 0, "{bodies:?}");
    &bodies[0]
}

/// Checks the bodies of such a session, whoever answered.
fn check(seen: &[Vec<Body>]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/drive/junction.xodr");
    let road = world::opendrive::read(&path).unwrap().road;
    let before = ego(&seen[9]);
    assert_eq!((before.kind, before.length, before.width), (Kind::Car, 4.6, 1.8));
    let after = ego(&seen[10]);
    assert!(after.pose.position.distance(parked().position) < 1.5, "{after:?}");
    assert!((after.pose.heading - parked().heading).abs() < 0.01, "{after:?}");
    let all = || seen.iter().flatten();
    for kind in [Kind::Car, Kind::Truck] {
        assert!(all().any(|body| body.id != 0 && body.kind == kind), "{kind:?}");
    }
    assert!(all().any(|body| body.speed > 8.0) && all().any(|body| body.acceleration.abs() > 0.5));
    // SUMO was given the lanes that we read ourselves: what it moves stays on them.
    let on_the_way = all().filter(|body| body.id != 0 && body.pose.position.x > -80.0);
    let (mut on, mut beside) = (0, 0);
    for body in on_the_way {
        match road.find(body.pose) {
            Some((_, offset)) if offset.left.abs() < 0.5 => on += 1,
            _ => beside += 1,
        }
    }
    assert!(on > 200 && beside * 20 < on, "{on} on lanes, {beside} beside");
    // One number, one vehicle: nobody jumps.
    for pair in seen.windows(2) {
        for body in pair[0].iter().filter(|body| body.id != 0) {
            let Some(later) = pair[1].iter().find(|later| later.id == body.id) else { continue };
            let way = body.pose.position.distance(later.pose.position);
            assert!(way < 2.0 && later.kind == body.kind, "{body:?} {later:?}");
        }
    }
}

#[test]
fn real_sumo_moves_traffic_over_the_lanes_of_an_opendrive_file() {
    let Some(sumo) = std::env::var_os("KEEPTIME_SUMO").map(PathBuf::from) else {
        eprintln!("SKIP: KEEPTIME_SUMO is not set to the program `sumo`");
        return;
    };
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sumo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("routes.xml"), ROUTES).unwrap();
    let roads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/drive/junction.xodr");
    let convert = Command::new(sumo.with_file_name("netconvert"))
        .args(["--offset.disable-normalization", "true", "-o", "net.xml", "--opendrive-files"])
        .arg(roads.canonicalize().unwrap())
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(convert.status.success(), "{}", String::from_utf8_lossy(&convert.stderr));
    // A port that was free a moment ago.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut child = Command::new(&sumo)
        .args(["-n", "net.xml", "-r", "routes.xml", "--step-length", "0.1", "--seed", "1"])
        .args(["--no-step-log", "--remote-port", &free.port().to_string()])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let seen = session(free);
    if seen.is_err() {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    check(&seen.unwrap());
    assert!(status.success(), "{status}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The messages of the recording: what is expected, and what is answered.
fn recording() -> Vec<(Vec<u8>, Vec<u8>)> {
    let bytes = |line: &str, sign: char| -> Vec<u8> {
        let digits = line.strip_prefix(sign).unwrap().trim();
        let pairs = (0..digits.len()).step_by(2);
        pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    };
    let lines: Vec<&str> = RECORDING.lines().collect();
    lines.chunks(2).map(|pair| (bytes(pair[0], '>'), bytes(pair[1], '<'))).collect()
}

/// Answers each message as the pairs say; ends at the first that is another one.
fn replay(pairs: Vec<(Vec<u8>, Vec<u8>)>) -> (SocketAddr, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |mut stream: TcpStream| {
        let mut of = |(expected, answer): &(Vec<u8>, Vec<u8>)| {
            let mut asked = vec![0; expected.len()];
            stream.read_exact(&mut asked).is_ok()
                && asked == *expected
                && stream.write_all(answer).is_ok()
        };
        pairs.iter().take_while(|pair| of(pair)).count()
    };
    (address, std::thread::spawn(move || answer(listener.accept().unwrap().0)))
}

#[test]
fn recorded_sumo_is_understood_and_asked_the_same() {
    let pairs = recording();
    let count = pairs.len();
    let (address, answered) = replay(pairs);
    let seen = session(address).unwrap();
    assert_eq!(answered.join().unwrap(), count, "messages as recorded");
    check(&seen);
}

#[test]
fn answers_with_one_changed_byte_end_in_an_error_or_in_numbers() {
    let recorded = recording();
    // The first step after which a vehicle was there: a long answer with all types.
    let long = (0..recorded.len()).max_by_key(|at| recorded[*at].1.len()).unwrap();
    let (_, answer) = &recorded[long];
    let (mut refused, mut changed) = (0, 0);
    for at in (0..answer.len()).step_by(answer.len() / 60) {
        let mut pairs = recorded[..=long].to_vec();
        let broken = &mut pairs[long].1;
        broken[at] ^= 0xFF;
        let (address, answered) = replay(pairs);
        let result = session(address);
        // The other side hangs up after this answer: whatever it meant, the session ends.
        assert!(result.is_err());
        refused += u32::from(matches!(result, Err(Error::Message { .. } | Error::Refused { .. })));
        changed += 1;
        answered.join().unwrap();
    }
    // Most bytes of such an answer are digits of numbers.
    assert!(refused * 8 > changed, "{refused} of {changed} were refused as messages");
}

#[test]
fn silence_is_an_error_after_the_timeout() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let error = Sumo::connect(address, "ego", Duration::from_millis(50)).err().unwrap();
    let text = error.to_string();
    assert!(text.starts_with(&format!("SUMO at {address}: receive: ")), "{text}");
}

#[test]
fn nobody_there_is_an_error_with_the_address() {
    // A port that the kernel gives to nobody by itself: not to another test either.
    let free = (Ipv4Addr::LOCALHOST, 1).into();
    let error = Sumo::connect(free, "ego", Duration::from_millis(50)).err().unwrap();
    let text = error.to_string();
    assert!(text.starts_with(&format!("SUMO at {free}: connect: ")), "{text}");
}
