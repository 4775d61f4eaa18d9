//! Messages that another process could have sent, by the pipe of a mailbox.

use executor::{Error, Executor, ExecutorPolicy, Sender, Settings, Thread};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

fn executor() -> Executor {
    Executor::new(ExecutorPolicy::ChainAware, vec![Thread::default()]).unwrap()
}

#[test]
fn messages_of_several_senders_arrive_whole_and_those_of_each_in_order() {
    const COUNT: u64 = 3000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mailbox");
    // Before there is a receiver.
    let early = Sender::open(&path).unwrap();
    early.send(&[0_u64, 0, 7]).unwrap();
    let mut executor = executor();
    let mailbox = executor.mailbox::<[u64; 3]>(&path).unwrap();
    let seen = Arc::new(Mutex::new(vec![Vec::new(); 3]));
    let log = seen.clone();
    let mut left = 1 + 2 * COUNT;
    executor.subscription(Settings::new("read", 1), mailbox, move |context, message| {
        let [sender, number, check] = message;
        assert_eq!(check, sender * number + 7, "two messages in one");
        log.lock().unwrap()[sender as usize].push(number);
        left -= 1;
        if left == 0 {
            context.stop();
        }
    });
    std::thread::scope(|scope| {
        for sender in [1, 2] {
            let path = &path;
            scope.spawn(move || {
                let pipe = Sender::open(path).unwrap();
                (0..COUNT)
                    .for_each(|number| pipe.send(&[sender, number, sender * number + 7]).unwrap());
            });
        }
        executor.run(u64::MAX).unwrap();
    });
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], [0]);
    assert!(seen[1..].iter().all(|numbers| numbers.iter().copied().eq(0..COUNT)));
}

#[test]
fn sender_never_waits_for_a_receiver_that_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = Sender::open(&folder.path().join("mailbox")).unwrap();
    let full = (0_u64..).find_map(|number| pipe.send(&number).err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
}

#[test]
fn executor_that_stops_does_not_wait_for_messages() {
    let folder = tempfile::tempdir().unwrap();
    let mut executor = executor();
    let mailbox = executor.mailbox::<u64>(&folder.path().join("mailbox")).unwrap();
    executor.subscription(Settings::new("read", 1), mailbox, |_, _| unreachable!());
    executor.stop().stop();
    executor.run(u64::MAX).unwrap();
}

#[test]
fn path_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("file"), folder.path().join("no/folder")] {
        let _ = std::fs::write(&path, "text");
        let error = executor().mailbox::<u64>(&path).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        assert!(matches!(error, Error::Mailbox { .. }));
    }
}
