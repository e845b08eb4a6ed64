//! What the API server's answer to an eviction or a deletion means: the one classifier.
//!
//! The code alone says little: 429 has three meanings, 403 four, and "two budgets" is a 500 that only its message
//! tells apart (M1 in `docs/reference/measured.md`).

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

/// Causes of a 403 that is about a budget's numbers and passes; older servers only write the texts.
const PASSING: [&str; 4] = [
    "DisruptionBudgetNegativeAllowedDisruptions",
    "DisruptionBudgetTooManyDisruptedPods",
    "disruptions allowed is negative",
    "DisruptedPods map too big",
];

/// What was asked for: the same codes, other rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// POST of `pods/eviction`.
    Eviction,
    /// DELETE of the pod.
    Deletion,
}

impl Asked {
    /// The right that it needs, as a message names it.
    fn right(self) -> &'static str {
        match self {
            Self::Eviction => "needs the right to `create` `pods/eviction`",
            Self::Deletion => "needs the right to `delete` `pods`",
        }
    }
}

/// What this answer means. `status` is the HTTP code, `retry_after` the header's value, `body` whatever came, JSON or
/// not. A 409 is [`Answer::Retry`] here; [`crate::evict`] looks whether the pod has been replaced. Nor is
/// [`Answer::NoEvictions`] the last word: any proxy can say 404.
pub fn classify(asked: Asked, status: u16, retry_after: Option<Duration>, body: &str) -> Answer {
    if (200..300).contains(&status) {
        return Answer::Accepted;
    }
    let said = Said::read(body);
    if status >= 400
        && let Some(text) = said.denial()
    {
        return Answer::Webhook { text };
    }
    let after = retry_after.or_else(|| said.retry_after());
    let text = said.text(status);
    match status {
        404 => missing(asked, &said, text),
        429 if said.has_cause(BUDGET) => Answer::Budget(BudgetRefusal { text: said.cause(BUDGET), after }),
        429 | 502..=504 => Answer::Throttled { after, text },
        403 => forbidden(asked, &said, text),
        500 if said.message().contains("more than one PodDisruptionBudget") => Answer::TwoBudgets,
        401 => Answer::Denied { text: format!("the API server does not accept our credentials: {text}") },
        408..=410 | 500..=599 => Answer::Retry { text },
        400..=499 => Answer::Final { text },
        _ => Answer::Retry { text },
    }
}

/// 404: the pod is gone; or the path itself is unknown, and then no object is named. What else may be missing (a budget
/// that somebody deleted just now) says nothing about evictions: taken for "no evictions", it would have pods deleted
/// past all budgets.
fn missing(asked: Asked, said: &Said<'_>, text: String) -> Answer {
    match (said.kind(), asked) {
        ("pods" | "namespaces", _) => Answer::Gone,
        ("", Asked::Eviction) => Answer::NoEvictions,
        (_, Asked::Eviction) => Answer::Retry { text },
        (_, Asked::Deletion) => Answer::Final { text },
    }
}

fn forbidden(asked: Asked, said: &Said<'_>, text: String) -> Answer {
    if said.has_cause(NAMESPACE) {
        return Answer::NamespaceTerminating;
    }
    if PASSING.iter().any(|sign| said.has_cause(sign) || said.message().contains(sign)) {
        return Answer::Retry { text };
    }
    Answer::Denied { text: format!("{text}; {}", asked.right()) }
}

/// The body of an answer: a Status, or only a text.
struct Said<'a> {
    status: Option<Status>,
    body: &'a str,
}

impl<'a> Said<'a> {
    fn read(body: &'a str) -> Self {
        Self { status: serde_json::from_str(body).ok(), body }
    }

    fn message(&self) -> &str {
        self.status.as_ref().map_or(self.body, |status| &status.message)
    }

    /// For people; never empty.
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

    /// The words of this cause, else the message.
    fn cause(&self, reason: &str) -> String {
        let causes = self.details().map(|details| details.causes.as_slice()).unwrap_or_default();
        let texts: Vec<_> =
            causes.iter().filter(|cause| cause.reason == reason).map(|cause| words(&cause.message)).collect();
        let text = texts.join("; ");
        if text.is_empty() { words(self.message()) } else { text }
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// A webhook or a ValidatingAdmissionPolicy says no. They choose the code themselves, and only the words tell.
    fn denial(&self) -> Option<String> {
        let message = self.message();
        let webhook = message.contains("admission webhook \"") && message.contains("denied the request");
        let policy = message.contains("ValidatingAdmissionPolicy '") && message.contains("denied request");
        (webhook || policy).then(|| words(message))
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
