//! The allowed forms of label keys and label values. Source: apimachinery, `pkg/api/validate/content`.

/// The greatest length of a label's name and of a label's value.
const LONGEST_NAME: usize = 63;
/// The greatest length of the prefix of a label's key, which is a DNS subdomain.
const LONGEST_PREFIX: usize = 253;

/// True if `text` can be a label's key: a name of 1 to 63 letters, digits, `-`, `_`, `.` that begins and ends with a
/// letter or digit; before it, optionally, a DNS subdomain and `/`.
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// True if `text` can be a label's value: empty, or of the same form as the name in a key.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_name(text: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    is_bounded(text, LONGEST_NAME, inner, u8::is_ascii_alphanumeric)
}

fn is_dns_subdomain(text: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |text: &str| is_bounded(text, LONGEST_PREFIX, |byte| outer(byte) || *byte == b'-', outer);
    text.len() <= LONGEST_PREFIX && text.split('.').all(label)
}

fn is_bounded(text: &str, longest: usize, inner: impl Fn(&u8) -> bool, outer: impl Fn(&u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= longest
        && bytes.iter().all(inner)
        && bytes.first().is_some_and(&outer)
        && bytes.last().is_some_and(&outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_follow_kubernetes() {
        let (name63, name64) = ("a".repeat(63), "a".repeat(64));
        let (prefix253, prefix254) = ("a".repeat(253), format!("{}b", "a.".repeat(126) + "a"));
        for (text, key, value) in [
            ("a", true, true),
            ("A.b-c_9", true, true),
            ("9", true, true),
            ("", false, true),
            (name63.as_str(), true, true),
            (name64.as_str(), false, false),
            ("-a", false, false),
            ("a.", false, false),
            ("_", false, false),
            ("a b", false, false),
            ("ä", false, false),
            ("a\0", false, false),
            ("a\n", false, false),
            ("example.com/Name", true, false),
            ("9.example/a", true, false),
            ("/a", false, false),
            ("a/", false, false),
            ("a/b/c", false, false),
            ("Example.com/a", false, false),
            ("a..b/c", false, false),
            ("-a.b/c", false, false),
            ("a-.b/c", false, false),
            ("a_b/c", false, false),
            (&format!("{prefix253}/{name63}"), true, false),
            (&format!("{prefix253}/{name64}"), false, false),
            (&format!("{prefix254}/a"), false, false),
        ] {
            assert_eq!(is_label_key(text), key, "{text:?} as a key");
            assert_eq!(is_label_value(text), value, "{text:?} as a value");
        }
        assert_eq!((prefix253.len(), prefix254.len()), (253, 254));
    }
}
