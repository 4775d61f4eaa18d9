//! Errors as C sees them: a negative number, and a text that is kept for later.
//!
//! The text of the last error is kept twice: in the client, and in the thread for callers that
//! have no client (yet).

use accel::Error;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

/// `enum keeptime_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// `KEEPTIME_NO_SERVER`
    NoServer = -1,
    /// `KEEPTIME_SERVER_LOST`
    ServerLost = -2,
    /// `KEEPTIME_REFUSED`
    Refused = -3,
    /// `KEEPTIME_FAILED`
    Failed = -4,
    /// `KEEPTIME_FULL`
    Full = -5,
    /// `KEEPTIME_TIMED_OUT`
    TimedOut = -6,
    /// `KEEPTIME_INVALID`
    Invalid = -7,
    /// `KEEPTIME_PROTOCOL`
    Protocol = -8,
    /// `KEEPTIME_SYSTEM`
    System = -9,
    /// `KEEPTIME_BUSY`
    Busy = -10,
    /// `KEEPTIME_INTERNAL`
    Internal = -11,
}

/// `KEEPTIME_OK`
pub const OK: c_int = 0;
/// `KEEPTIME_PENDING`
pub const PENDING: c_int = 1;
/// `KEEPTIME_TOO_LATE`
pub const TOO_LATE: c_int = 2;

/// `KEEPTIME_REFUSAL_OTHER`
const REFUSAL_OTHER: c_int = 65535;

/// Reason for which a function fails.
#[derive(Debug)]
pub struct Fault {
    /// Code that it returns.
    pub code: Code,
    text: String,
    refusal: c_int,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(code: Code, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into(), refusal: 0 }
    }

    /// The caller's fault.
    pub fn invalid(text: impl Into<String>) -> Fault {
        Fault::new(Code::Invalid, text)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let code = match &error {
            Error::NoServer { .. } | Error::Stranger { .. } => Code::NoServer,
            Error::ServerLost { .. } => Code::ServerLost,
            Error::Refused(_) => Code::Refused,
            Error::Failed { .. } => Code::Failed,
            Error::Full { .. } => Code::Full,
            Error::TimedOut { .. } => Code::TimedOut,
            Error::UnknownCallback(_) | Error::BadName { .. } => Code::Invalid,
            Error::Protocol(_) | Error::Unsettled { .. } => Code::Protocol,
            Error::Memory(error) => memory_code(error),
            Error::System { .. } => Code::System,
        };
        let text = match &error {
            // The numbers of C begin at 1.
            Error::UnknownCallback(index) => {
                let number = index.wrapping_add(1);
                format!("callback {number} is not registered with this client")
            }
            error => error.to_string(),
        };
        let refusal = match &error {
            Error::Refused(refusal) => refusal.code.map_or(REFUSAL_OTHER, |code| code as c_int),
            _ => 0,
        };
        Fault { code, text, refusal }
    }
}

fn memory_code(error: &shm::Error) -> Code {
    match error {
        shm::Error::System { .. } => Code::System,
        shm::Error::OutOfBounds { .. } | shm::Error::BadSize { .. } => Code::Invalid,
        // Memory or a ring from the server that does not keep the rules.
        shm::Error::SegmentTooSmall { .. }
        | shm::Error::NotSealed { .. }
        | shm::Error::OtherMemory { .. }
        | shm::Error::RingCorrupt { .. } => Code::Protocol,
    }
}

/// The last error, kept for `keeptime_last_error`.
#[derive(Debug, Default)]
pub struct Last {
    text: CString,
    refusal: c_int,
}

impl Last {
    /// Keeps a fault's text.
    pub fn keep(&mut self, fault: &Fault) {
        let text: String = fault.text.chars().filter(|&c| c != '\0').collect();
        self.text = CString::new(text).unwrap_or_default();
        self.refusal = fault.refusal;
    }

    /// The text; valid until the next fault is kept.
    pub fn text(&self) -> *const c_char {
        self.text.as_ptr()
    }

    /// The kind of refusal, 0 for none.
    pub fn refusal(&self) -> c_int {
        self.refusal
    }
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Keeps a fault as this thread's last one, and returns its number.
pub fn keep_for_thread(fault: &Fault) -> c_int {
    // In a thread that is ending no code is left to ask.
    let _ = LAST.try_with(|last| last.borrow_mut().keep(fault));
    fault.code as c_int
}

/// The text of this thread's last fault.
pub fn thread_text() -> *const c_char {
    LAST.try_with(|last| last.borrow().text()).unwrap_or(c"".as_ptr())
}

/// The kind of refusal of this thread's last fault.
pub fn thread_refusal() -> c_int {
    LAST.try_with(|last| last.borrow().refusal()).unwrap_or(0)
}

/// See `keeptime_error_name` in the header.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn keeptime_error_name(error: c_int) -> *const c_char {
    name_of_error(error).as_ptr()
}

/// See `keeptime_status_name` in the header.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn keeptime_status_name(status: u32) -> *const c_char {
    name_of_status(status).as_ptr()
}

fn name_of_error(error: c_int) -> &'static CStr {
    match error {
        OK => c"KEEPTIME_OK",
        PENDING => c"KEEPTIME_PENDING",
        TOO_LATE => c"KEEPTIME_TOO_LATE",
        -1 => c"KEEPTIME_NO_SERVER",
        -2 => c"KEEPTIME_SERVER_LOST",
        -3 => c"KEEPTIME_REFUSED",
        -4 => c"KEEPTIME_FAILED",
        -5 => c"KEEPTIME_FULL",
        -6 => c"KEEPTIME_TIMED_OUT",
        -7 => c"KEEPTIME_INVALID",
        -8 => c"KEEPTIME_PROTOCOL",
        -9 => c"KEEPTIME_SYSTEM",
        -10 => c"KEEPTIME_BUSY",
        -11 => c"KEEPTIME_INTERNAL",
        _ => c"unknown",
    }
}

fn name_of_status(status: u32) -> &'static CStr {
    match status {
        1 => c"done",
        2 => c"cancelled",
        3 => c"device failed",
        4 => c"unknown registration",
        5 => c"out of range",
        6 => c"bad arguments",
        7 => c"too late",
        8 => c"device lost",
        _ => c"unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accel::control::{Code as Why, Refusal};

    #[test]
    fn refusals_keep_their_kind_until_the_next_fault() {
        let mut last = Last::default();
        let refusal = Refusal { code: Some(Why::Limit), text: "full".into() };
        last.keep(&Fault::from(Error::Refused(refusal)));
        assert_eq!(last.refusal(), Why::Limit as c_int);
        last.keep(&Fault::from(Error::Refused(Refusal { code: None, text: "new".into() })));
        assert_eq!(last.refusal(), REFUSAL_OTHER);
        last.keep(&Fault::invalid("a\0b"));
        assert_eq!((last.refusal(), last.text.as_c_str()), (0, c"ab"));
    }

    #[test]
    fn every_status_has_a_name() {
        for word in 0..=u32::from(u16::MAX) {
            let is_named = name_of_status(word) != c"unknown";
            assert_eq!(is_named, accel::Status::from_word(word).is_some(), "{word}");
        }
    }

    #[test]
    fn unknown_callbacks_are_named_by_the_number_that_the_caller_used() {
        let fault = Fault::from(Error::UnknownCallback(6));
        assert_eq!(fault.code, Code::Invalid);
        assert_eq!(fault.text, "callback 7 is not registered with this client");
        assert!(Fault::from(Error::UnknownCallback(usize::MAX)).text.starts_with("callback 0 "));
    }
}
