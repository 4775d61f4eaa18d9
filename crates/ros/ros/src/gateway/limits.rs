//! Limits of clients on the graph, and the checks of their requests.

use crate::message::keeptime::{Outcome, RegisterRequest, SubmitRequest};
use std::time::Duration;

/// The longest name of a chain: with `ros/`, six characters of the client and `/` before it, it
/// fits the server's 64 bytes.
const LONGEST_CHAIN: usize = 48;

/// The most arguments of a request.
const ARGUMENTS: usize = 4;

/// The output begins at a multiple of this many bytes.
const ALIGNMENT: u64 = 64;

/// Largest amounts that clients on the graph may take together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at the same time.
    pub clients: u32,
    /// Registrations at the same time, of all clients together.
    pub registrations: u32,
    /// Memory of one registration, and with it the largest request and the largest answer.
    pub request_bytes: u64,
    /// Requests that may wait for one registration, and answers that are kept for it.
    pub in_flight: u16,
    /// The highest chain priority.
    pub priority: u32,
    /// The services that may be asked for; none means all.
    pub services: Vec<String>,
    /// Longest time for which a client may be silent.
    pub lease: Duration,
}

impl Limits {
    /// Checks a request to register, but for how many there are already.
    ///
    /// # Errors
    /// The outcome to answer.
    pub fn check(&self, request: &RegisterRequest) -> Result<(), Outcome> {
        let malformed = |text: String| Err(Outcome::new(Outcome::MALFORMED, text));
        let refused = |text: String| Err(Outcome::new(Outcome::REFUSED, text));
        if request.client == [0; 16] {
            return malformed("client: expected 16 random bytes, found zeros".into());
        }
        if !is_name(&request.chain, LONGEST_CHAIN) {
            let expected = "bytes of visible characters";
            return malformed(format!("chain: expected 1 to {LONGEST_CHAIN} {expected}"));
        }
        if !is_name(&request.service, 64) {
            return malformed("service: expected 1 to 64 bytes of visible characters".into());
        }
        if !request.accelerator.is_empty() && !is_name(&request.accelerator, 64) {
            return malformed(
                "accelerator: expected at most 64 bytes of visible characters".into(),
            );
        }
        if !self.services.is_empty() && !self.services.contains(&request.service) {
            let allowed = self.services.join(", ");
            return refused(format!("service: remote clients may use {allowed}"));
        }
        if request.priority > self.priority {
            let (found, most) = (request.priority, self.priority);
            return refused(format!(
                "priority: {found}, remote clients may ask for {most} at most"
            ));
        }
        if request.memory_bytes > self.request_bytes {
            let (found, most) = (request.memory_bytes, self.request_bytes);
            return refused(format!("memory_bytes: {found}, expected at most {most}"));
        }
        Ok(())
    }
}

fn is_name(name: &str, longest: usize) -> bool {
    name.len() <= longest && name::check(name).is_ok()
}

/// Returns the offset and the length of a request's output in memory of this number of bytes.
///
/// # Errors
/// The outcome to answer when it does not fit, or has too many arguments.
pub(super) fn output(request: &SubmitRequest, memory: u64) -> Result<(usize, usize), Outcome> {
    let malformed = |text: String| Err(Outcome::new(Outcome::MALFORMED, text));
    if request.arguments.len() > ARGUMENTS {
        let found = request.arguments.len();
        return malformed(format!("arguments: {found}, expected at most {ARGUMENTS}"));
    }
    let input = request.input.len() as u64;
    let offset = match request.output_bytes {
        0 => 0,
        _ => input.next_multiple_of(ALIGNMENT),
    };
    let end = offset.checked_add(request.output_bytes);
    if input > memory || end.is_none_or(|end| end > memory) {
        let wanted = request.output_bytes;
        let found = format!("{input} bytes of input and {wanted} of output");
        return malformed(format!("{found}, the registration has {memory} bytes of memory"));
    }
    // Both are below the memory's size, which is that of a mapping.
    Ok((offset as usize, request.output_bytes as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            clients: 2,
            registrations: 4,
            request_bytes: 1000,
            in_flight: 4,
            priority: 50,
            services: vec!["vecadd".into()],
            lease: Duration::from_secs(1),
        }
    }

    fn request() -> RegisterRequest {
        RegisterRequest {
            client: [1; 16],
            chain: "perception".into(),
            service: "vecadd".into(),
            priority: 50,
            memory_bytes: 1000,
            ..RegisterRequest::default()
        }
    }

    #[test]
    fn each_field_is_checked_and_named() {
        let limits = limits();
        assert_eq!(limits.check(&request()), Ok(()));
        type Change = fn(&mut RegisterRequest);
        let cases: [(Change, u8, &str); 8] = [
            (|r| r.client = [0; 16], Outcome::MALFORMED, "client"),
            (|r| r.chain.clear(), Outcome::MALFORMED, "chain"),
            (|r| r.chain = "a\nb".into(), Outcome::MALFORMED, "chain"),
            (|r| r.chain = "a".repeat(49), Outcome::MALFORMED, "chain"),
            (|r| r.service = "matmul".into(), Outcome::REFUSED, "service"),
            (|r| r.accelerator = " ".into(), Outcome::MALFORMED, "accelerator"),
            (|r| r.priority = 51, Outcome::REFUSED, "priority"),
            (|r| r.memory_bytes = u64::MAX, Outcome::REFUSED, "memory_bytes"),
        ];
        for (change, code, field) in cases {
            let mut request = request();
            change(&mut request);
            let outcome = limits.check(&request).unwrap_err();
            assert_eq!(outcome.code, code, "{outcome:?}");
            assert!(outcome.reason.starts_with(field), "{outcome:?}");
        }
    }

    #[test]
    fn output_lies_behind_the_input_and_within_the_memory() {
        let request = |input, output_bytes, arguments| SubmitRequest {
            input: vec![0; input],
            output_bytes,
            arguments: vec![0; arguments],
            ..SubmitRequest::default()
        };
        assert_eq!(output(&request(65, 10, 4), 138), Ok((128, 10)));
        assert_eq!(output(&request(0, 10, 0), 10), Ok((0, 10)));
        assert_eq!(output(&request(100, 0, 0), 100), Ok((0, 0)));
        for (input, bytes, arguments) in [(65, 11, 4), (139, 0, 0), (1, u64::MAX, 0), (0, 0, 5)] {
            let outcome = output(&request(input, bytes, arguments), 138).unwrap_err();
            assert_eq!(outcome.code, Outcome::MALFORMED);
        }
    }
}
