//! What the tables of several benchmarks have in common.

use control_plane::AuditedRequest;

/// The three numbers that describe a few runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The smallest number.
    pub(crate) min: f64,
    /// The number in the middle; of an even count the lower of the two.
    pub(crate) median: f64,
    /// The largest number.
    pub(crate) max: f64,
}

impl Summary {
    /// The summary of these numbers; zeros if there are none.
    pub(crate) fn of(numbers: &[f64]) -> Self {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let last = sorted.len().saturating_sub(1);
        Self { min: at(0), median: at(last / 2), max: at(last) }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:9.2} {:9.2} {:9.2}", self.min, self.median, self.max)
    }
}

/// Verb and resource of a request, for example `create pods/eviction`.
pub(crate) fn kind(request: &AuditedRequest) -> String {
    let slash = if request.subresource.is_empty() { "" } else { "/" };
    let resource = if request.resource.is_empty() { "other" } else { &request.resource };
    format!("{} {resource}{slash}{}", request.verb, request.subresource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries() {
        for (numbers, min, median, max) in
            [(vec![], 0.0, 0.0, 0.0), (vec![3.0, 1.0, 2.0], 1.0, 2.0, 3.0), (vec![4.0, 1.0], 1.0, 1.0, 4.0)]
        {
            assert_eq!(Summary::of(&numbers), Summary { min, median, max }, "{numbers:?}");
        }
    }
}
