//! Describes a call, for messages.

use std::fmt;

/// Number of tries of a change of the version just read, if other clients change the object too. The kubelet writes its
/// Node every few seconds, so one conflict is chance and ten in a row are not.
pub(crate) const TRIES: u32 = 10;

/// A verb on a resource, in the words of Kubernetes' RBAC rules, so that a person knows which right to grant after a
/// refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    /// The verb, such as `get`.
    pub(crate) verb: &'static str,
    /// The resource, such as `pods/eviction`.
    pub(crate) resource: &'static str,
    /// The namespace; empty for resources without one.
    pub(crate) namespace: &'a str,
    /// The object's name; empty for a whole collection.
    pub(crate) name: &'a str,
}

impl<'a> Operation<'a> {
    /// An operation on a resource without namespace.
    pub(crate) fn on_cluster(verb: &'static str, resource: &'static str, name: &'a str) -> Self {
        Self { verb, resource, namespace: "", name }
    }
}

impl fmt::Display for Operation<'_> {
    /// Writes `get nodes edge-a`, `create pods/eviction default/web-1`, `list pods`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        match (self.namespace, self.name) {
            (_, "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

/// Whether the server only checks a change and discards it (`dryRun=All`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryRun {
    Yes,
    No,
}

/// True if the text can be a name in a URL: the API server accepts only lower case letters, digits, `-` and `.` in names
/// of nodes, namespaces and pods. Any other text would lead to another path.
pub(crate) fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    text.len() <= 253
        && text.bytes().all(inner)
        && text.bytes().next().is_some_and(|byte| byte != b'.' && byte != b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_ask_for_another_path_are_refused() {
        let cases = [
            ("edge-a", true),
            ("10.0.0.1", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("a?x=1", false),
            ("Edge", false),
            ("a b", false),
            ("ä", false),
        ];
        for (name, expected) in cases {
            assert_eq!(is_name(name), expected, "{name}");
        }
        assert!(!is_name(&"a".repeat(254)));
    }
}
