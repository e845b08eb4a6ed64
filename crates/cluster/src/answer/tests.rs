use super::*;

/// The answers of a server of version 1.34, as measured (M1 in `docs/reference/measured.md`).
const J1: &str = r#"{"status":"Success","code":201}"#;
const J2: &str = r#"{"status":"Failure","message":"pods \"b\" is forbidden: User \"nobody\" cannot create resource \"pods/eviction\" in API group \"\" in the namespace \"facts\"","reason":"Forbidden","details":{"name":"b","kind":"pods"},"code":403}"#;
const J3: &str = r#"{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget p needs 1 healthy pods and has 1 currently"}]},"code":429}"#;
const J4: &str = r#"{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget p is still being processed by the server."}],"retryAfterSeconds":10},"code":429}"#;
const J5: &str = r#"{"status":"Failure","message":"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.","code":500}"#;
const J6: &str = r#"{"status":"Failure","message":"Operation cannot be fulfilled on Pod \"a\": the UID in the precondition (00000000-0000-0000-0000-000000000000) does not match the UID in record (9394ef92-693c-4f6a-b675-a74994f153cd). The object might have been deleted and then recreated","reason":"Conflict","details":{"name":"a","kind":"Pod"},"code":409}"#;
const J7: &str = r#"{"status":"Failure","message":"pods \"a\" is forbidden: unable to create new content in namespace going because it is being terminated","reason":"Forbidden","details":{"name":"a","kind":"pods","causes":[{"reason":"NamespaceTerminating","message":"namespace going is being terminated","field":"metadata.namespace"}]},"code":403}"#;
const J8: &str = r#"{"status":"Failure","message":"pods \"b\" is forbidden: ValidatingAdmissionPolicy 'facts' with binding 'facts' denied request: not this pod","reason":"Forbidden","details":{"name":"b","kind":"pods","causes":[{"message":"ValidatingAdmissionPolicy 'facts' with binding 'facts' denied request: not this pod"}]},"code":403}"#;
const J9: &str = r#"{"status":"Failure","message":"Timeout: request did not complete within requested timeout - context deadline exceeded","reason":"Timeout","details":{},"code":504}"#;

const NO_POD: &str = r#"{"message":"pods \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}"#;
const NO_NAMESPACE: &str = r#"{"message":"namespaces \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"namespaces"},"code":404}"#;
const NO_RESOURCE: &str = r#"{"message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#;
const NO_BUDGET: &str = r#"{"message":"poddisruptionbudgets.policy \"p\" not found","reason":"NotFound","details":{"name":"p","group":"policy","kind":"poddisruptionbudgets"},"code":404}"#;
const BUSY: &str = "Too many requests, please try again later.\n";
const STRICT: &str = r#"{"message":"strict decoding error: unknown field \"delete_options\"","reason":"BadRequest","code":400}"#;
const CONFLICTS: &str = r#"{"message":"couldn't update PodDisruptionBudget \"p\" due to conflicts","reason":"Timeout","details":{"retryAfterSeconds":10},"code":504}"#;
const NEGATIVE: &str = r#"{"message":"pods \"a\" is forbidden: pdb disruptions allowed is negative","reason":"Forbidden","details":{"name":"a","kind":"pods"},"code":403}"#;
const TOO_MANY: &str = r#"{"message":"pods \"a\" is forbidden: x","reason":"Forbidden","details":{"causes":[{"reason":"DisruptionBudgetTooManyDisruptedPods","message":"y"}]},"code":403}"#;
const WEBHOOK: &str = r#"{"message":"admission webhook \"guard.example.org\" denied the request: VMI x is not live-migratable"}"#;
const WEBHOOK_DOWN: &str = r#"{"message":"Internal error occurred: failed calling webhook \"guard.example.org\": connection refused","reason":"InternalError","code":500}"#;

/// The kind of an answer and its pause in seconds, without the texts.
fn kind(answer: &Answer) -> (&'static str, Option<u64>) {
    let seconds = |after: Option<Duration>| after.map(|after| after.as_secs());
    match answer {
        Answer::Accepted => ("accepted", None),
        Answer::Gone => ("gone", None),
        Answer::Budget(refusal) => ("budget", seconds(refusal.after)),
        Answer::TwoBudgets => ("two budgets", None),
        Answer::Webhook { .. } => ("webhook", None),
        Answer::NamespaceTerminating => ("namespace", None),
        Answer::NoEvictions => ("no evictions", None),
        Answer::NotSent => ("not sent", None),
        Answer::Throttled { after, .. } => ("throttled", seconds(*after)),
        Answer::Retry { .. } => ("retry", None),
        Answer::Denied { .. } => ("denied", None),
        Answer::Rejected { .. } => ("final", None),
    }
}

#[test]
fn each_measured_answer() {
    let cases = [
        (201, None, J1, "accepted", None),
        (403, None, J2, "denied", None),
        (429, None, J3, "budget", None),
        (429, Some(10), J4, "budget", Some(10)),
        (429, None, J4, "budget", Some(10)),
        (500, None, J5, "two budgets", None),
        (409, None, J6, "retry", None),
        (403, None, J7, "namespace", None),
        (403, None, J8, "webhook", None),
        (422, None, J8, "webhook", None),
        (504, None, J9, "throttled", None),
        (429, Some(1), BUSY, "throttled", Some(1)),
        (400, None, STRICT, "final", None),
    ];
    check(&cases);
}

#[test]
fn each_answer_of_the_table() {
    let cases = [
        (200, None, "", "accepted", None),
        (299, None, "anything", "accepted", None),
        (429, Some(7), "{}", "throttled", Some(7)),
        (429, None, WEBHOOK, "webhook", None),
        (400, None, WEBHOOK, "webhook", None),
        (500, None, WEBHOOK_DOWN, "retry", None),
        (502, None, "Bad Gateway", "throttled", None),
        (504, None, CONFLICTS, "throttled", Some(10)),
        (501, None, "", "retry", None),
        (403, None, NEGATIVE, "retry", None),
        (403, None, TOO_MANY, "retry", None),
        (403, None, "", "denied", None),
        (401, None, "Unauthorized", "denied", None),
        (407, None, "", "final", None),
        (408, None, "", "retry", None),
        (410, None, "", "retry", None),
        (411, None, "{\"message\":\"Invalid\"}", "final", None),
        (302, None, WEBHOOK, "retry", None),
        (999, None, "[1, 2", "retry", None),
    ];
    check(&cases);
}

#[test]
fn a_404_that_names_no_object_is_about_evictions_as_such() {
    let cases = [
        (NO_POD, "gone", "gone"),
        (NO_NAMESPACE, "gone", "gone"),
        (NO_RESOURCE, "no evictions", "final"),
        ("404 page not found\n", "no evictions", "final"),
        (r#"{"message":"x","details":null,"code":404}"#, "no evictions", "final"),
        // Another client deleted a budget in the middle of the eviction.
        (NO_BUDGET, "retry", "final"),
    ];
    for (body, eviction, deletion) in cases {
        assert_eq!(kind(&classify(Asked::Eviction, 404, None, body)).0, eviction, "{body}");
        assert_eq!(kind(&classify(Asked::Deletion, 404, None, body)).0, deletion, "{body}");
    }
}

type Case = (u16, Option<u64>, &'static str, &'static str, Option<u64>);

fn check(cases: &[Case]) {
    for &(code, retry_after, body, expected, after) in cases {
        for asked in [Asked::Eviction, Asked::Deletion] {
            let answer = classify(asked, code, retry_after.map(Duration::from_secs), body);
            assert_eq!(kind(&answer), (expected, after), "{asked:?} {code} {body}: {answer:?}");
        }
    }
}

#[test]
fn texts_say_what_is_wrong() {
    let text = "the API server answered 403; needs the right to `delete` `pods`".to_owned();
    assert_eq!(classify(Asked::Deletion, 403, None, ""), Answer::Denied { text });
    let text = "the API server answered 503".to_owned();
    assert_eq!(classify(Asked::Eviction, 503, None, ""), Answer::Throttled { after: None, text });
}
