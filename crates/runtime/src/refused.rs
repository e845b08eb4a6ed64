//! Refused input files in a status, so that an operator finds them where the state is shown.

use std::fmt::Display;

use text::one_line;

/// Limit for the refused files that a status names; the log names all of them.
const MOST_NAMED: usize = 3;
/// Limit in bytes for one refusal: a path, a reason, the accepted values.
const MOST_BYTES: usize = 512;

/// The reason why an operation is held (`words`, may be empty), followed by the refused input files.
pub fn with_refused(words: String, refused: &[impl Display]) -> String {
    let named = refused.iter().take(MOST_NAMED).map(|refusal| one_line(&refusal.to_string(), MOST_BYTES));
    let more = refused.len().saturating_sub(MOST_NAMED);
    let more = (more != 0).then(|| format!("and {more} more files are refused"));
    let all: Vec<String> =
        Some(words).filter(|words| !words.is_empty()).into_iter().chain(named).chain(more).collect();
    all.join("; ")
}

/// The refusals of the last snapshot, so that the log has each refusal once.
#[derive(Debug, Default)]
pub struct ToldRefusals(Vec<String>);

impl ToldRefusals {
    /// Logs the refusals that the last snapshot did not have.
    pub fn tell(&mut self, refused: &[String]) {
        for line in refused.iter().filter(|line| !self.0.contains(line)) {
            tracing::warn!("{line}");
        }
        self.0 = refused.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_comes_first_and_the_rest_is_bounded() {
        for (words, refused, shown) in [
            ("", &[][..], ""),
            ("waits", &[], "waits"),
            ("", &["refused a"], "refused a"),
            ("waits", &["refused a", "refused b"], "waits; refused a; refused b"),
            ("waits", &["a", "b", "c", "d", "e"], "waits; a; b; c; and 2 more files are refused"),
        ] {
            assert_eq!(with_refused(words.to_owned(), refused), shown);
        }
        let long = vec!["x".repeat(1_000_000); 1000];
        assert!(with_refused(String::new(), &long).len() < 2000);
    }
}
