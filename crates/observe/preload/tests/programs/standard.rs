//! The locks of Rust's standard library, which are not the C library's: all works, nothing is seen.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Condvar, LazyLock, Mutex, Once, RwLock};
use std::thread;
use std::time::Duration;

const THREADS: u32 = 4;
const ROUNDS: u32 = 500;

static LAZY: LazyLock<u32> = LazyLock::new(|| ROUNDS * 2);

fn main() {
    let (mutex, lock, once) = (Mutex::new(0), RwLock::new(0), Once::new());
    let (barrier, ran) = (Barrier::new(THREADS as usize), AtomicU32::new(0));
    let leaders = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    *mutex.lock().unwrap() += round;
                    if round % 4 == 0 {
                        *lock.write().unwrap() += 1;
                    } else {
                        assert!(*lock.read().unwrap() <= THREADS * ROUNDS);
                    }
                    once.call_once(|| _ = ran.fetch_add(1, Ordering::Relaxed));
                }
                leaders.fetch_add(u32::from(barrier.wait().is_leader()), Ordering::Relaxed);
            });
        }
    });
    println!("{} {}", mutex.lock().unwrap(), lock.read().unwrap());
    println!("{} {} {}", ran.load(Ordering::Relaxed), leaders.load(Ordering::Relaxed), *LAZY);

    let (sender, receiver) = channel();
    let producer = thread::spawn(move || (0..ROUNDS).for_each(|item| sender.send(item).unwrap()));
    println!("{}", receiver.iter().sum::<u32>());
    producer.join().unwrap();

    let poisoned = thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let _guard = mutex.lock().unwrap();
            std::panic::resume_unwind(Box::new(7));
        });
        panics.join().unwrap_err().downcast_ref::<i32>() == Some(&7) && mutex.is_poisoned()
    });
    println!("{poisoned}");

    let (flag, condition) = (Mutex::new(false), Condvar::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            *flag.lock().unwrap() = true;
            condition.notify_all();
        });
        drop(condition.wait_while(flag.lock().unwrap(), |flag| !*flag).unwrap());
    });
    let guard = flag.lock().unwrap();
    let (guard, result) = condition.wait_timeout(guard, Duration::from_millis(5)).unwrap();
    drop(guard);
    println!("{}", result.timed_out());
}
