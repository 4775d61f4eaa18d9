//! One way and back of a message between two processes, over DDS:
//!
//! ```text
//! cargo run --release -p keeptime-ros --example latency -- [BYTES] [COUNT] [DOMAIN]
//! ```
//!
//! Starts itself as the process that sends each message back. Prints half of the round trip, the
//! processor time of both while they idle for two seconds, and their threads.

use ros::{Bell, Context, Message, Options, Publisher, Qos, Subscription};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(serde::Serialize, serde::Deserialize)]
struct Blob {
    number: u64,
    #[serde(with = "ros::cdr::bytes")]
    data: Vec<u8>,
}

impl Message for Blob {
    const TYPE: &'static str = "keeptime_msgs/msg/Blob";
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (bytes, count, domain) = (number(0, 4096)?, number(1, 2000)?, number(2, 77)?);
    let domain = u16::try_from(domain)?;
    if arguments.get(3).is_some() {
        return echo(domain);
    }
    let mut peer = Command::new(std::env::current_exe()?)
        .args([bytes, count, usize::from(domain)].map(|n| n.to_string()))
        .arg("echo")
        .stdin(Stdio::piped())
        .spawn()?;
    let outcome = measure(domain, bytes, count, peer.id());
    peer.kill()?;
    peer.wait()?;
    outcome
}

type Ends = (Context, Publisher<Blob>, Subscription<Blob>, Arc<Bell>);

fn ends(domain: u16, name: &str, to: &str, from: &str) -> Outcome<Ends> {
    let interfaces = vec!["127.0.0.1".parse()?];
    let context = Context::new(&Options { domain, interfaces, ..Options::default() })?;
    let node = context.node("/", name)?;
    let publisher = node.publisher(to, Qos::default())?;
    let subscription = node.subscription(from, Qos::default())?;
    let bell = Arc::new(Bell::new()?);
    let ring = Arc::clone(&bell);
    subscription.on_message(move || ring.ring());
    Ok((context, publisher, subscription, bell))
}

fn echo(domain: u16) -> Outcome<()> {
    let (_context, publisher, subscription, bell) = ends(domain, "echo", "back", "forth")?;
    loop {
        while let Some(sample) = subscription.take()? {
            publisher.publish(&sample.message)?;
        }
        bell.wait(None)?;
    }
}

fn measure(domain: u16, bytes: usize, count: usize, peer: u32) -> Outcome<()> {
    let start = Instant::now();
    let (_context, publisher, subscription, bell) = ends(domain, "caller", "forth", "back")?;
    let mut halves = Vec::with_capacity(count);
    let mut lost = 0;
    let mut number = 0;
    let mut first = None;
    while halves.len() < count {
        number += 1;
        let sent = Instant::now();
        publisher.publish(&Blob { number, data: vec![7; bytes] })?;
        loop {
            let got = subscription.take()?;
            if got.is_some_and(|sample| sample.message.number == number) {
                first.get_or_insert(start.elapsed());
                halves.push(sent.elapsed() / 2);
                break;
            }
            if !bell.wait(Some(Duration::from_millis(500)))? && sent.elapsed().as_millis() > 450 {
                lost += u32::from(first.is_some());
                break;
            }
        }
    }
    halves.sort();
    let at = |share: f64| halves[((count - 1) as f64 * share) as usize];
    println!("{bytes} bytes, {count} round trips, first after {:?}, lost {lost}", first.unwrap());
    println!("one way: median {:?}, p99 {:?}, max {:?}", at(0.5), at(0.99), at(1.0));
    let before = [ticks(std::process::id())?, ticks(peer)?];
    std::thread::sleep(Duration::from_secs(2));
    let after = [ticks(std::process::id())?, ticks(peer)?];
    for (who, i) in [("caller", 0), ("echo", 1)] {
        println!("{who}: {} ticks of 10 ms while idle for 2 s", after[i] - before[i]);
    }
    for task in std::fs::read_dir("/proc/self/task")? {
        print!("thread {}", std::fs::read_to_string(task?.path().join("comm"))?);
    }
    Ok(())
}

/// User and system time of a process, in clock ticks (proc(5)).
fn ticks(process: u32) -> Outcome<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = behind.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}
