//! Errors between a node and the graph.

/// Error of creating a node, an endpoint or a message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name breaks the rules of ROS 2.
    #[error("{what} {name:?}: {expected}")]
    Name {
        /// Kind of the name: a node, a namespace, a topic, a type.
        what: &'static str,
        /// The name as given.
        name: String,
        /// Expected form.
        expected: &'static str,
    },
    /// The domain has no ports of its own.
    #[error("domain {0}: expected 0 to 232")]
    Domain(u16),
    /// A file of an enclave is not what security needs.
    #[error("{file}: {found}, expected {expected}")]
    Enclave {
        /// The file, or the variable that should name it.
        file: String,
        /// Content that was found.
        found: String,
        /// Content that was expected.
        expected: String,
    },
    /// Security is asked for, and this program cannot do it.
    #[error(
        "{folder}: DDS security is asked for, but this program was built without it, expected a \
         build with --features dds-security (crate ros: security)"
    )]
    NoSecurity {
        /// The enclave.
        folder: String,
    },
    /// DDS refused to make an entity.
    #[error("DDS cannot create {what}: {reason}")]
    Create {
        /// The entity.
        what: String,
        /// The reason that DDS gives.
        reason: String,
    },
    /// A message was not taken by DDS: readers that acknowledge are too far behind.
    #[error("{topic}: not sent, the window of unacknowledged messages is full")]
    WouldBlock {
        /// The topic's name on the wire.
        topic: String,
    },
    /// A message cannot be written.
    #[error("{topic}: cannot write: {reason}")]
    Write {
        /// The topic's name on the wire.
        topic: String,
        /// The reason.
        reason: String,
    },
    /// A message came that is not one of the topic's type, or is too large. The next `take` goes on
    /// with the message after it.
    #[error("{topic}: bad message: {reason}")]
    Malformed {
        /// The topic's name on the wire.
        topic: String,
        /// Fault of the message.
        reason: String,
    },
    /// The kernel refused an event descriptor.
    #[error("event descriptor: {0}")]
    Event(#[from] rustix::io::Errno),
}

impl Error {
    pub(crate) fn create(what: impl Into<String>, reason: impl std::fmt::Display) -> Error {
        Error::Create { what: what.into(), reason: reason.to_string() }
    }

    pub(crate) fn malformed(topic: &str, reason: impl std::fmt::Display) -> Error {
        Error::Malformed { topic: topic.to_owned(), reason: reason.to_string() }
    }
}
