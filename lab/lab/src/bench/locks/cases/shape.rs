//! Task of one run of a measured program, as the words that both programs take.

use anyhow::{Context, bail};

/// Kind of the locks that threads take. The numbers are those of `contend.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// One mutex.
    #[default]
    Mutex = 0,
    /// Two mutexes, one inside the other; every other acquisition takes only the inner one.
    Nested = 1,
    /// A read-write lock.
    Rwlock = 2,
    /// Concurrency Kit's phase-fair lock.
    Ck = 3,
}

/// Quantity that is measured of the locks. The numbers are those of `contend.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// Waits, by the clock.
    #[default]
    Waits = 0,
    /// Processor time of each call.
    ProcessorTime = 1,
    /// Time of calls on locks that nobody else wants.
    FreeLocks = 2,
}

/// One run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub kind: Kind,
    /// True if the program makes its mutexes inheritance mutexes.
    pub inherit: bool,
    pub threads: u32,
    /// SCHED_FIFO priority, 0 for none: of all threads, or of the launching one only.
    pub fifo: u8,
    /// True if the first thread launches.
    pub launch: bool,
    /// True if each thread stays on a core of its own.
    pub pin: bool,
    pub section_ns: u64,
    pub think_ns: u64,
    /// Of 100 sections of a read-write lock.
    pub reads: u32,
    pub calls: Calls,
    pub warm_up_ms: u64,
    pub measured_ms: u64,
}

impl Shape {
    /// The words of a program's command line.
    pub fn words(&self) -> Vec<String> {
        let numbers = [
            ("lock", self.kind as u64),
            ("inherit", self.inherit.into()),
            ("threads", self.threads.into()),
            ("fifo", self.fifo.into()),
            ("launch", self.launch.into()),
            ("pin", self.pin.into()),
            ("section_ns", self.section_ns),
            ("think_ns", self.think_ns),
            ("reads", self.reads.into()),
            ("calls", self.calls as u64),
            ("warm_up_ms", self.warm_up_ms),
            ("measured_ms", self.measured_ms),
        ];
        numbers.iter().map(|(name, number)| format!("{name}={number}")).collect()
    }

    /// Reads them back. Only what the program in Rust does: waits for mutexes and read-write locks.
    pub fn parse(words: &[String]) -> anyhow::Result<Shape> {
        let mut shape = Shape { threads: 1, measured_ms: 100, ..Shape::default() };
        for word in words {
            let (name, number) = word.split_once('=').with_context(|| wrong(word))?;
            let number: u64 = number.parse().with_context(|| wrong(word))?;
            let narrow = || u32::try_from(number).with_context(|| wrong(word));
            match name {
                "lock" => {
                    let kinds = [Kind::Mutex, Kind::Nested, Kind::Rwlock];
                    let kind = kinds.into_iter().find(|kind| *kind as u64 == number);
                    shape.kind = kind.with_context(|| wrong(word))?;
                }
                "threads" => shape.threads = narrow()?,
                "fifo" => shape.fifo = u8::try_from(number).with_context(|| wrong(word))?,
                "launch" => shape.launch = number != 0,
                "pin" => shape.pin = number != 0,
                "section_ns" => shape.section_ns = number,
                "think_ns" => shape.think_ns = number,
                "reads" => shape.reads = narrow()?,
                "warm_up_ms" => shape.warm_up_ms = number,
                "measured_ms" => shape.measured_ms = number,
                "inherit" | "calls" if number == 0 => {}
                _ => bail!(wrong(word)),
            }
        }
        Ok(shape)
    }
}

fn wrong(word: &str) -> String {
    format!("{word}: expected NAME=NUMBER with a name and a number that this program knows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_the_whole_shape() {
        let shape = Shape {
            kind: Kind::Rwlock,
            threads: 16,
            fifo: 50,
            launch: true,
            pin: true,
            section_ns: 1000,
            think_ns: 2000,
            reads: 90,
            warm_up_ms: 3,
            measured_ms: 4,
            ..Shape::default()
        };
        assert_eq!(Shape::parse(&shape.words()).unwrap(), shape);
        for wrong in ["lock=3", "calls=1", "inherit=1", "fifo=300", "speed=1", "threads"] {
            let error = Shape::parse(&[wrong.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
