//! Names of ROS 2 and what they are on the wire.
//!
//! | ROS 2 | DDS |
//! |---|---|
//! | topic `/a/b` | topic `rt/a/b` |
//! | service `/a/b` | topics `rq/a/bRequest` and `rr/a/bReply` |
//! | type `std_msgs/msg/String` | type `std_msgs::msg::dds_::String_` |
//!
//! The rules are those of design.ros2.org, "Topic and Service name mapping to DDS".

use crate::Error;

/// The longest name on the wire: what rmw allows for topics (RMW_TOPIC_MAX_NAME_LENGTH).
const LONGEST: usize = 247;

/// A node's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    namespace: String,
    name: String,
}

impl NodeName {
    /// Checks a namespace (`/` or `/a/b`) and a name.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn new(namespace: &str, name: &str) -> Result<NodeName, Error> {
        let expected = "expected \"/\", or tokens of letters, digits and _ with a / before each";
        let bad = || Error::Name { what: "namespace", name: namespace.to_owned(), expected };
        let tokens = namespace.strip_prefix('/').ok_or_else(bad)?;
        if !(tokens.is_empty() || tokens.split('/').all(is_token)) || namespace.len() > LONGEST {
            return Err(bad());
        }
        if !is_token(name) || name.len() > LONGEST {
            let expected = "expected letters, digits and _, with no digit first";
            return Err(Error::Name { what: "node name", name: name.to_owned(), expected });
        }
        Ok(NodeName { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The namespace, `/` if it is the root.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name without its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Expands a topic's or service's name: `/a` is absolute, `a` lies in the namespace, `~/a`
    /// below the node.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn resolve(&self, name: &str) -> Result<String, Error> {
        let full = match (name.strip_prefix("~/"), name.strip_prefix('/')) {
            (Some(rest), _) => format!("{self}/{rest}"),
            (None, Some(_)) => name.to_owned(),
            (None, None) => format!("{}/{name}", self.namespace.trim_end_matches('/')),
        };
        let tokens = full.strip_prefix('/').unwrap_or(&full);
        if tokens.split('/').all(|token| is_token(token) && !token.contains("__"))
            && full.len() <= LONGEST
        {
            return Ok(full);
        }
        let expected = "expected tokens of letters, digits and single _, with / between them";
        Err(Error::Name { what: "topic or service", name: name.to_owned(), expected })
    }
}

impl std::fmt::Display for NodeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace.trim_end_matches('/'), self.name)
    }
}

/// The type's name on the wire.
pub(crate) fn wire_type(ros: &str) -> Result<String, Error> {
    let parts: Vec<_> = ros.split('/').collect();
    match parts[..] {
        [package, kind, name] if [package, kind, name].into_iter().all(is_token) => {
            Ok(format!("{package}::{kind}::dds_::{name}_"))
        }
        _ => {
            let expected = "expected PACKAGE/msg/TYPE or PACKAGE/srv/TYPE";
            Err(Error::Name { what: "type", name: ros.to_owned(), expected })
        }
    }
}

fn is_token(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && token.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_expand_as_in_ros_2() {
        let node = NodeName::new("/robot/arm", "driver").unwrap();
        assert_eq!(node.to_string(), "/robot/arm/driver");
        assert_eq!(node.resolve("/tf").unwrap(), "/tf");
        assert_eq!(node.resolve("joints").unwrap(), "/robot/arm/joints");
        assert_eq!(node.resolve("~/status").unwrap(), "/robot/arm/driver/status");
        let root = NodeName::new("/", "driver").unwrap();
        assert_eq!(root.to_string(), "/driver");
        assert_eq!(root.resolve("a/b").unwrap(), "/a/b");
        assert_eq!(root.resolve("~/a").unwrap(), "/driver/a");
    }

    #[test]
    fn names_that_ros_2_refuses_are_refused() {
        for namespace in ["", "a", "/a/", "//a", "/1a", "/a-b", "/a b"] {
            assert!(NodeName::new(namespace, "node").is_err(), "{namespace}");
        }
        for name in ["", "1", "a/b", "a b", "ü", "a\0"] {
            assert!(NodeName::new("/", name).is_err(), "{name}");
        }
        let node = NodeName::new("/", "node").unwrap();
        for name in ["", "/", "a/", "a//b", "/1", "a__b", "~", "~a", "a b"] {
            assert!(node.resolve(name).is_err(), "{name}");
        }
        assert!(node.resolve(&"a".repeat(300)).is_err());
    }

    #[test]
    fn types_have_the_names_that_ros_2_generates() {
        assert_eq!(wire_type("std_msgs/msg/String").unwrap(), "std_msgs::msg::dds_::String_");
        let request = wire_type("keeptime_msgs/srv/ListChains_Request").unwrap();
        assert_eq!(request, "keeptime_msgs::srv::dds_::ListChains_Request_");
        assert!(wire_type("String").is_err());
        assert!(wire_type("std_msgs/String").is_err());
    }
}
