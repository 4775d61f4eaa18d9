//! Account of one managed thread.

use super::policy::{SCHED_EXT, Scheduling, give_back};
use super::roster::Seen;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A thread that was asleep comes back at most so far behind the others, as in the kernel's own
/// rule, so that it does not have the core to itself for as long as it slept.
const CREDIT_NS: f64 = 5e6;

/// Statistics of a managed thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadStatistics {
    /// The kernel's number of the thread.
    pub thread: i32,
    /// The kernel's number of its process.
    pub process: i32,
    /// Its name.
    pub name: String,
    /// Time that it has run since it became managed, in nanoseconds.
    pub run_ns: u64,
    /// Time for which cores were stopped because of it, in nanoseconds.
    pub charged_ns: u64,
    /// Periods that it had: it ran, or its core was stopped because of it. One that several had
    /// counts for each by how long it had the core.
    pub periods: f64,
    /// Its virtual run time: run time, and rho times the stopped time, over its weight relative to
    /// nice 0, in nanoseconds.
    pub virtual_ns: u64,
}

/// The account of a thread.
pub struct Account {
    pub thread: i32,
    pub process: i32,
    name: String,
    /// `/proc/PID/task/TID/schedstat` and `stat`, which fail when the thread has ended, whichever
    /// thread has its number then.
    schedstat: File,
    stat: File,
    /// Run time of nice 0 in a nanosecond of its own.
    per_weight: f64,
    /// Its run time when it was first and when it was last looked at.
    first_ns: u64,
    last_ns: u64,
    /// Run time since the last look.
    ran_ns: u64,
    /// Stopped time of the period.
    stopped_ns: u64,
    charged_ns: u64,
    periods: f64,
    pub virtual_ns: f64,
    /// True if it could run, and shares its core by weight.
    pub is_runnable: bool,
    /// A scheduler in BPF runs it.
    pub is_in_bpf: bool,
    /// True if it was not runnable at the look before.
    pub has_slept: bool,
    /// Scheduling that it had before it was set back.
    before: Option<Scheduling>,
}

impl Account {
    /// Opens one.
    ///
    /// # Errors
    /// The kernel's, when the thread has ended.
    pub fn open(seen: &Seen) -> io::Result<Account> {
        let folder = format!("/proc/{}/task/{}", seen.process, seen.thread);
        let open = |name: &str| File::open(format!("{folder}/{name}"));
        let name = std::fs::read_to_string(format!("{folder}/comm"))?;
        let mut account = Account {
            thread: seen.thread,
            process: seen.process,
            name: name.trim_end().into(),
            schedstat: open("schedstat")?,
            stat: open("stat")?,
            per_weight: per_weight(Scheduling::of(seen.thread)?.nice()),
            first_ns: 0,
            last_ns: 0,
            ran_ns: 0,
            stopped_ns: 0,
            charged_ns: 0,
            periods: 0.0,
            virtual_ns: 0.0,
            is_runnable: false,
            is_in_bpf: false,
            has_slept: false,
            before: None,
        };
        account.last_ns = account.run_ns()?;
        account.first_ns = account.last_ns;
        Ok(account)
    }

    /// Looks at it: what it has run since the last time, and whether it would run now.
    ///
    /// # Errors
    /// The kernel's, when the thread has ended.
    pub fn look(&mut self) -> io::Result<()> {
        let now_ns = self.run_ns()?;
        self.ran_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        self.virtual_ns += self.ran_ns as f64 * self.per_weight;
        let is_running = self.is_running()?;
        if self.before.is_some() {
            (self.is_runnable, self.is_in_bpf) = (is_running, false);
            return Ok(());
        }
        // One that is real-time meanwhile is not the rule's business.
        let now = Scheduling::of(self.thread)?;
        self.is_in_bpf = now.policy() == SCHED_EXT;
        self.is_runnable = is_running && (now.is_shared() || self.is_in_bpf);
        Ok(())
    }

    /// Books stopped time.
    pub fn charge(&mut self, stopped_ns: u64, rho: f64) {
        self.stopped_ns += stopped_ns;
        self.charged_ns += stopped_ns;
        self.virtual_ns += rho * stopped_ns as f64 * self.per_weight;
    }

    /// Returns the time for which it had the core in the period: it ran, or stopped the core.
    pub fn had_ns(&self) -> u64 {
        self.ran_ns + self.stopped_ns
    }

    /// Returns its run time since the last look at it; 0 if it has ended.
    pub fn ran_since_ns(&self) -> u64 {
        self.run_ns().map_or(0, |now_ns| now_ns.saturating_sub(self.last_ns))
    }

    /// Returns true if the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.run_ns().is_err()
    }

    /// Books its part of the period.
    pub fn book_period(&mut self, all_ns: u64) {
        if all_ns > 0 {
            self.periods += self.had_ns() as f64 / all_ns as f64;
        }
        self.stopped_ns = 0;
    }

    /// Does not let it be further behind than a sleeper may.
    pub fn catch_up(&mut self, least_ns: f64) {
        self.virtual_ns = self.virtual_ns.max(least_ns - CREDIT_NS);
    }

    /// Sets it back behind all others of its core, if it shares the core by weight.
    pub fn set_back(&mut self) {
        if self.before.is_some() {
            return;
        }
        let shared = Scheduling::of(self.thread).ok().filter(Scheduling::is_shared);
        if let Some(before) = shared {
            if before.idle().give(self.thread).is_ok() {
                self.per_weight = per_weight(before.nice());
                self.before = Some(before);
            }
        }
    }

    /// Gives it back what it had.
    pub fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            give_back(self.thread, before);
        }
    }

    pub fn statistics(&self) -> ThreadStatistics {
        // It may have run since it was looked at.
        let now_ns = self.run_ns().unwrap_or(self.last_ns);
        ThreadStatistics {
            thread: self.thread,
            process: self.process,
            name: self.name.clone(),
            run_ns: now_ns.saturating_sub(self.first_ns),
            charged_ns: self.charged_ns,
            periods: self.periods,
            virtual_ns: self.virtual_ns as u64,
        }
    }

    fn run_ns(&self) -> io::Result<u64> {
        let mut text = [0; 64];
        let length = self.schedstat.read_at(&mut text, 0)?;
        let first = text[..length].split(|byte| !byte.is_ascii_digit()).next();
        let number = first.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        number.ok_or_else(|| io::Error::other("schedstat without a run time"))
    }

    fn is_running(&self) -> io::Result<bool> {
        let mut text = [0; 128];
        let length = self.stat.read_at(&mut text, 0)?;
        // The name may have any bytes in it; what follows its last parenthesis has none.
        let end = text[..length].iter().rposition(|byte| *byte == b')');
        Ok(end.and_then(|end| text.get(end + 2)) == Some(&b'R'))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.restore();
    }
}

/// The kernel's weights: each step of the nice value is a quarter more or less.
fn per_weight(nice: i32) -> f64 {
    1.25_f64.powi(nice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Account {
        let thread = realtime::thread::id() as i32;
        let process = std::process::id() as i32;
        Account::open(&Seen { thread, process, core: 0 }).unwrap()
    }

    #[test]
    fn equation_2_adds_run_time_and_rho_times_the_stopped_time_by_weight() {
        let mut account = own();
        account.per_weight = 1.0;
        account.charge(1000, 3.0);
        assert_eq!((account.virtual_ns, account.charged_ns), (3000.0, 1000));
        let until = realtime::clock::thread_cpu_ns() + 5_000_000;
        while realtime::clock::thread_cpu_ns() < until {}
        account.per_weight = 0.5;
        account.charge(1000, 3.0);
        account.look().unwrap();
        assert!(account.is_runnable && account.ran_ns >= 4_000_000, "{}", account.ran_ns);
        assert_eq!(account.virtual_ns, 4500.0 + 0.5 * account.ran_ns as f64);
    }

    #[test]
    fn period_is_shared_by_how_long_each_had_the_core() {
        let mut account = own();
        (account.ran_ns, account.stopped_ns) = (250, 500);
        account.book_period(1000);
        assert_eq!((account.periods, account.had_ns()), (0.75, 250));
        account.book_period(0);
        assert_eq!(account.periods, 0.75);
    }

    #[test]
    fn sleeper_is_at_most_five_milliseconds_behind() {
        let mut account = own();
        account.catch_up(10e6);
        assert_eq!(account.virtual_ns, 5e6);
        account.catch_up(8e6);
        assert_eq!(account.virtual_ns, 5e6);
    }

    #[test]
    fn thread_that_was_set_back_gets_back_exactly_what_it_had_also_when_its_account_goes() {
        std::thread::spawn(|| {
            let parameter = libc::sched_param { sched_priority: 0 };
            // SAFETY: the parameter is initialised; thread 0 is the caller.
            let batch = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameter) };
            assert_eq!(batch, 0);
            realtime::thread::set_nice(5).unwrap();
            let facts = || {
                let now = Scheduling::of(0).unwrap();
                (now.policy(), now.nice(), now.flags())
            };
            let before = facts();
            let mut account = own();
            account.set_back();
            assert_eq!(facts().0, libc::SCHED_IDLE);
            account.restore();
            assert_eq!(facts(), before);
            account.set_back();
            assert_eq!(facts().0, libc::SCHED_IDLE);
            drop(account);
            assert_eq!(facts(), before);
            assert_eq!(before.0, libc::SCHED_BATCH);
        })
        .join()
        .unwrap();
    }
}
