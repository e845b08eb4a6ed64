//! Meaning of the API server's answer to an eviction or a deletion. No other module decides it.
//!
//! The status code alone is not enough: 429 has three meanings, 403 four, and a pod with two budgets gets a 500 that
//! only its message distinguishes (M1 in `docs/reference/measured.md`).

use std::time::Duration;

use drain::Answer;
use drain::answer::BudgetRefusal;
use kube::core::Status;
use kube::core::response::StatusDetails;

use crate::failure::words;

/// Cause of a refusal by a PodDisruptionBudget.
const BUDGET: &str = "DisruptionBudget";

/// Cause of a refusal because the namespace is being deleted.
const NAMESPACE: &str = "NamespaceTerminating";

/// Causes of a 403 that is about a budget's numbers and goes away by itself; older servers only write the texts.
const PASSING: [&str; 4] = [
    "DisruptionBudgetNegativeAllowedDisruptions",
    "DisruptionBudgetTooManyDisruptedPods",
    "disruptions allowed is negative",
    "DisruptedPods map too big",
];

/// The request that was answered: both have the same codes, but need different rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// POST of `pods/eviction`.
    Eviction,
    /// DELETE of the pod.
    Deletion,
}

impl Asked {
    /// The right that the request needs, for messages.
    fn right(self) -> &'static str {
        match self {
            Self::Eviction => "needs the right to `create` `pods/eviction`",
            Self::Deletion => "needs the right to `delete` `pods`",
        }
    }
}

/// Returns the meaning of an answer. `status` is the HTTP code, `retry_after` the header's value, `body` the whole
/// body, JSON or not. Two results are checked further in [`crate::evict`]: after a 409, here [`Answer::Retry`], it
/// checks whether the pod has been replaced; and [`Answer::NoEvictions`] counts only if the server's own list agrees,
/// because any proxy can answer 404.
pub fn classify(asked: Asked, status: u16, retry_after: Option<Duration>, body: &str) -> Answer {
    if (200..300).contains(&status) {
        return Answer::Accepted;
    }
    let error = ErrorBody::read(body);
    if status >= 400
        && let Some(text) = error.denial()
    {
        return Answer::Webhook { text };
    }
    let after = retry_after.or_else(|| error.retry_after());
    let text = error.text(status);
    match status {
        404 => missing(asked, &error, text),
        429 if error.has_cause(BUDGET) => Answer::Budget(BudgetRefusal { text: error.budget(), after }),
        429 | 502..=504 => Answer::Throttled { after, text },
        403 => forbidden(asked, &error, text),
        500 if error.message().contains("more than one PodDisruptionBudget") => Answer::TwoBudgets,
        401 => Answer::Denied { text: format!("the API server does not accept our credentials: {text}") },
        408..=410 | 500..=599 => Answer::Retry { text },
        400..=499 => Answer::Rejected { text },
        _ => Answer::Retry { text },
    }
}

/// 404: the pod or its namespace is gone; or the path itself is unknown, then no object is named. Another missing object
/// (such as a budget that was deleted just now) does not mean that the server has no evictions: if it did, pods would be
/// deleted past all budgets.
fn missing(asked: Asked, error: &ErrorBody<'_>, text: String) -> Answer {
    match (error.kind(), asked) {
        ("pods" | "namespaces", _) => Answer::Gone,
        ("", Asked::Eviction) => Answer::NoEvictions,
        (_, Asked::Eviction) => Answer::Retry { text },
        (_, Asked::Deletion) => Answer::Rejected { text },
    }
}

fn forbidden(asked: Asked, error: &ErrorBody<'_>, text: String) -> Answer {
    if error.has_cause(NAMESPACE) {
        return Answer::NamespaceTerminating;
    }
    if PASSING.iter().any(|sign| error.has_cause(sign) || error.message().contains(sign)) {
        return Answer::Retry { text };
    }
    Answer::Denied { text: format!("{text}; {}", asked.right()) }
}

/// The body of an answer: a Status, or plain text.
struct ErrorBody<'a> {
    status: Option<Status>,
    body: &'a str,
}

impl<'a> ErrorBody<'a> {
    fn read(body: &'a str) -> Self {
        Self { status: serde_json::from_str(body).ok(), body }
    }

    fn message(&self) -> &str {
        self.status.as_ref().map_or(self.body, |status| &status.message)
    }

    /// The text for people; never empty.
    fn text(&self, code: u16) -> String {
        let message = words(self.message());
        if message.is_empty() { format!("the API server answered {code}") } else { message }
    }

    fn details(&self) -> Option<&StatusDetails> {
        self.status.as_ref().and_then(|status| status.details.as_ref())
    }

    fn kind(&self) -> &str {
        self.details().map_or("", |details| &details.kind)
    }

    fn has_cause(&self, reason: &str) -> bool {
        self.details().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// The message of a budget's refusal, for which people search, and behind it the budget's numbers.
    fn budget(&self) -> String {
        let causes = self.details().map(|details| details.causes.as_slice()).unwrap_or_default();
        let numbers = causes.iter().filter(|cause| cause.reason == BUDGET).map(|cause| words(&cause.message));
        let texts = std::iter::once(words(self.message())).chain(numbers);
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// The text, if a webhook or a ValidatingAdmissionPolicy has refused. They choose the code themselves, so only the
    /// message shows it.
    fn denial(&self) -> Option<String> {
        let message = self.message();
        let webhook = message.contains("admission webhook \"") && message.contains("denied the request");
        let policy = message.contains("ValidatingAdmissionPolicy '") && message.contains("denied request");
        (webhook || policy).then(|| words(message))
    }
}

#[cfg(test)]
mod tests;
