//! Every answer of the eviction subresource, byte for byte as measured on version 1.34.2.

use serde_json::{Value, json};

use super::{call, passive};
use crate::object::{number, set, text};
use crate::{Effect, FakeCluster, Fault, Reply};

/// Start of all measured bodies, which the constants below leave out.
const PREFIX: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"#;

const J1: &str = r#"{"status":"Success","code":201}"#;
const J2: &str = r#"{"status":"Failure","message":"pods \"b\" is forbidden: User \"nobody\" cannot create resource \"pods/eviction\" in API group \"\" in the namespace \"facts\"","reason":"Forbidden","details":{"name":"b","kind":"pods"},"code":403}"#;
const J3: &str = r#"{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget p needs 1 healthy pods and has 1 currently"}]},"code":429}"#;
const J4: &str = r#"{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget p is still being processed by the server."}],"retryAfterSeconds":10},"code":429}"#;
const J5: &str = r#"{"status":"Failure","message":"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.","code":500}"#;
const J6: &str = r#"{"status":"Failure","message":"Operation cannot be fulfilled on Pod \"a\": the UID in the precondition (00000000-0000-0000-0000-000000000000) does not match the UID in record (UID-OF-A). The object might have been deleted and then recreated","reason":"Conflict","details":{"name":"a","kind":"Pod"},"code":409}"#;
const J6_VERSION: &str = r#"{"status":"Failure","message":"Operation cannot be fulfilled on Pod \"a\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (VERSION-OF-A). The object might have been modified","reason":"Conflict","details":{"name":"a","kind":"Pod"},"code":409}"#;
const J7: &str = r#"{"status":"Failure","message":"pods \"a\" is forbidden: unable to create new content in namespace going because it is being terminated","reason":"Forbidden","details":{"name":"a","kind":"pods","causes":[{"reason":"NamespaceTerminating","message":"namespace going is being terminated","field":"metadata.namespace"}]},"code":403}"#;
const J8: &str = r#"{"status":"Failure","message":"pods \"b\" is forbidden: ValidatingAdmissionPolicy 'facts' with binding 'facts' denied request: not this pod","reason":"Forbidden","details":{"name":"b","kind":"pods","causes":[{"message":"ValidatingAdmissionPolicy 'facts' with binding 'facts' denied request: not this pod"}]},"code":403}"#;
const J9: &str = r#"{"status":"Failure","message":"Timeout: request did not complete within requested timeout - context deadline exceeded","reason":"Timeout","details":{},"code":504}"#;
const NO_BUDGET_LEFT: &str = r#"{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget p needs NUMBERS currently"}]},"code":429}"#;
const NAME_MISMATCH: &str = r#"{"status":"Failure","message":"name in URL does not match name in Eviction object","reason":"BadRequest","code":400}"#;
const STRICT: &str = r#"{"status":"Failure","message":"Eviction in version \"v1\" cannot be handled as a Eviction: strict decoding error: unknown field \"delete_options\"","reason":"BadRequest","code":400}"#;
const NOT_FOUND: &str = r#"{"status":"Failure","message":"pods \"missing\" not found","reason":"NotFound","details":{"name":"missing","kind":"pods"},"code":404}"#;

const WRONG_UID: &str = r#""preconditions":{"uid":"00000000-0000-0000-0000-000000000000"}"#;
const WRONG_VERSION: &str = r#""preconditions":{"resourceVersion":"1"}"#;

/// A budget `p` over all pods with the label `app: x`.
#[derive(Clone, Copy, Debug)]
struct Budget {
    allowed: i64,
    healthy: i64,
    desired: i64,
    is_observed: bool,
    policy: &'static str,
}

const EXHAUSTED: Budget = Budget { allowed: 0, healthy: 1, desired: 1, is_observed: true, policy: "" };
/// With this budget not even unready pods may be evicted.
const UNMET: Budget = Budget { desired: 2, ..EXHAUSTED };
const ONE_LEFT: Budget = Budget { allowed: 1, healthy: 2, ..EXHAUSTED };
const UNOBSERVED: Budget = Budget { is_observed: false, ..ONE_LEFT };

fn apply_budget(cluster: &FakeCluster, name: &str, budget: Budget) {
    let mut object = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "facts"},
        "spec": {"minAvailable": budget.desired, "selector": {"matchLabels": {"app": "x"}}},
        "status": {
            "observedGeneration": i64::from(budget.is_observed), "expectedPods": 3,
            "currentHealthy": budget.healthy, "desiredHealthy": budget.desired,
            "disruptionsAllowed": budget.allowed,
        },
    });
    if !budget.policy.is_empty() {
        set(&mut object, &["spec", "unhealthyPodEvictionPolicy"], budget.policy);
    }
    cluster.apply(object).expect("the budget is taken");
}

/// A pod with the label `app: x`; `state` is a phase, `Ready`, or `Unbound`.
fn apply_pod(cluster: &FakeCluster, namespace: &str, name: &str, state: &str) {
    let phase = if state == "Ready" { "Running" } else { state.replace("Unbound", "Pending").leak() };
    let ready = if state == "Ready" { "True" } else { "False" };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "x"}},
        "spec": {"nodeName": "edge-a", "containers": [{"name": "main"}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    });
    if state == "Unbound" {
        crate::object::remove(&mut pod, &["spec", "nodeName"]);
    }
    cluster.apply(pod).expect("the pod is taken");
}

/// One measured case: the objects, the request and the answer.
#[derive(Clone, Copy, Debug)]
struct Case {
    what: &'static str,
    pod: &'static str,
    budgets: &'static [Budget],
    /// Content of `deleteOptions` without its braces; if it begins with a colon, another key of the body.
    options: &'static str,
    query: &'static str,
    code: u16,
    retry_after: Option<&'static str>,
    body: &'static str,
}

const PLAIN: Case = Case {
    what: "no budget",
    pod: "Ready",
    budgets: &[],
    options: "",
    query: "",
    code: 201,
    retry_after: None,
    body: J1,
};

const CASES: &[Case] = &[
    PLAIN,
    Case { what: "the budget allows it", budgets: &[ONE_LEFT], ..PLAIN },
    Case { what: "the budget refuses", budgets: &[EXHAUSTED], code: 429, body: J3, ..PLAIN },
    Case {
        what: "the same, dry run",
        budgets: &[EXHAUSTED],
        query: "?dryRun=All",
        code: 429,
        body: J3,
        ..PLAIN
    },
    Case {
        what: "not observed yet",
        budgets: &[UNOBSERVED],
        code: 429,
        retry_after: Some("10"),
        body: J4,
        ..PLAIN
    },
    Case { what: "two budgets", budgets: &[ONE_LEFT, ONE_LEFT], code: 500, body: J5, ..PLAIN },
    Case {
        what: "two budgets, unready",
        pod: "Running",
        budgets: &[ONE_LEFT, ONE_LEFT],
        code: 500,
        body: J5,
        ..PLAIN
    },
    Case {
        what: "two, dry run",
        budgets: &[ONE_LEFT, ONE_LEFT],
        query: "?dryRun=All",
        code: 500,
        body: J5,
        ..PLAIN
    },
    Case { what: "wrong uid", options: WRONG_UID, code: 409, body: J6, ..PLAIN },
    Case {
        what: "wrong uid, one left",
        budgets: &[ONE_LEFT],
        options: WRONG_UID,
        code: 409,
        body: J6,
        ..PLAIN
    },
    Case {
        what: "wrong uid, one left, dry run",
        budgets: &[ONE_LEFT],
        options: WRONG_UID,
        query: "?dryRun=All",
        code: 409,
        body: J6,
        ..PLAIN
    },
    Case {
        what: "wrong version",
        budgets: &[ONE_LEFT],
        options: WRONG_VERSION,
        code: 409,
        body: J6_VERSION,
        ..PLAIN
    },
    Case { what: "unbound pod, exhausted", pod: "Unbound", budgets: &[UNMET], ..PLAIN },
    Case { what: "pending pod, exhausted", pod: "Pending", budgets: &[UNMET], ..PLAIN },
    Case { what: "finished pod, exhausted", pod: "Succeeded", budgets: &[UNMET], ..PLAIN },
    Case { what: "failed pod, exhausted", pod: "Failed", budgets: &[UNMET], ..PLAIN },
    Case { what: "unready, the budget is met", pod: "Running", budgets: &[EXHAUSTED], ..PLAIN },
    Case {
        what: "unready, the budget is not met",
        pod: "Running",
        budgets: &[UNMET],
        code: 429,
        body: "2 healthy pods and has 1",
        ..PLAIN
    },
    Case {
        what: "unready, always allowed",
        pod: "Running",
        budgets: &[Budget { desired: 2, policy: "AlwaysAllow", ..EXHAUSTED }],
        ..PLAIN
    },
    Case {
        what: "ready, always allowed for unready ones",
        budgets: &[Budget { desired: 2, policy: "AlwaysAllow", ..EXHAUSTED }],
        code: 429,
        body: "2 healthy pods and has 1",
        ..PLAIN
    },
    Case {
        what: "an unknown policy allows nothing",
        pod: "Running",
        budgets: &[Budget { policy: "Sometimes", ..EXHAUSTED }],
        code: 429,
        body: J3,
        ..PLAIN
    },
    Case {
        what: "unready, nothing desired",
        pod: "Running",
        budgets: &[Budget { desired: 0, healthy: 0, ..EXHAUSTED }],
        code: 429,
        body: "0 healthy pods and has 0",
        ..PLAIN
    },
    Case { what: "unknown key", options: r#":"delete_options":{"gracePeriodSeconds":7}"#, ..PLAIN },
    Case {
        what: "unknown key, strict",
        options: r#":"delete_options":{"gracePeriodSeconds":7}"#,
        query: "?fieldValidation=Strict",
        code: 400,
        body: STRICT,
        ..PLAIN
    },
    Case {
        what: "strict and right",
        options: "\"gracePeriodSeconds\":7",
        query: "?fieldValidation=Strict",
        ..PLAIN
    },
    Case { what: "dry run by body", budgets: &[ONE_LEFT], options: r#""dryRun":["All"]"#, ..PLAIN },
];

/// Starts a cluster with the case's pod `a` in namespace `facts`.
fn prepared(case: Case) -> FakeCluster {
    let cluster = passive();
    cluster.node("edge-a").expect("a node");
    apply_pod(&cluster, "facts", "a", case.pod);
    for (budget, name) in case.budgets.iter().zip(["p", "q"]) {
        apply_budget(&cluster, name, *budget);
    }
    cluster
}

fn body_of(case: Case) -> String {
    let options = match case.options.strip_prefix(':') {
        Some(other) => format!(",{other}"),
        None if case.options.is_empty() => String::new(),
        None => format!(r#","deleteOptions":{{{}}}"#, case.options),
    };
    format!(
        r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"a","namespace":"facts"}}{options}}}"#
    )
}

fn path(case: Case) -> String {
    format!("/api/v1/namespaces/facts/pods/a/eviction{}|content-type: application/json", case.query)
}

/// The measured body, with the values inserted that differ from run to run.
fn expected(case: Case, pod: &Value) -> String {
    let body = if case.body.starts_with('{') {
        case.body.to_owned()
    } else {
        NO_BUDGET_LEFT.replace("NUMBERS", case.body)
    };
    let body = body.replace("UID-OF-A", crate::object::uid(pod));
    let body = body.replace("VERSION-OF-A", text(pod, "/metadata/resourceVersion"));
    format!("{PREFIX}{}\n", body.strip_prefix('{').expect("a JSON map"))
}

#[tokio::test]
async fn every_measured_case_has_its_answer() {
    for case in CASES {
        let cluster = prepared(*case);
        let pod = cluster.get("pods", "facts", "a").expect("the pod is there");
        let answer = call(&cluster, "POST", &path(*case), &body_of(*case)).await;
        assert_eq!(answer.text, expected(*case, &pod), "{}", case.what);
        assert_eq!(answer.code, case.code, "{}", case.what);
        assert_eq!(answer.header("retry-after"), case.retry_after, "{}", case.what);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{}", case.what);
        assert_eq!(answer.header("cache-control"), Some("no-cache, private"), "{}", case.what);
        for header in ["audit-id", "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"] {
            assert!(answer.header(header).is_some(), "{}: {header}", case.what);
        }
    }
}

/// Checks the state after an eviction: the pod (or that it is gone) and the budget's numbers.
async fn check_effect(case: Case, check: impl Fn(Option<&Value>, Option<&Value>)) {
    let cluster = prepared(case);
    call(&cluster, "POST", &path(case), &body_of(case)).await;
    check(cluster.get("pods", "facts", "a").as_ref(), cluster.get("pdb", "facts", "p").as_ref());
}

fn grace(pod: Option<&Value>) -> Option<i64> {
    number(pod?, "/metadata/deletionGracePeriodSeconds")
}

#[tokio::test]
async fn an_evicted_pod_is_marked_and_ends_after_its_grace() {
    for (options, seconds) in
        [("", 30), ("\"gracePeriodSeconds\":7", 7), (":\"delete_options\":{\"gracePeriodSeconds\":7}", 30)]
    {
        check_effect(Case { options, ..PLAIN }, |pod, _| {
            assert_eq!(grace(pod), Some(seconds), "{options}");
            let pod = pod.expect("it has its grace");
            let deadline: jiff::Timestamp = text(pod, "/metadata/deletionTimestamp").parse().expect("a time");
            let created: jiff::Timestamp = text(pod, "/metadata/creationTimestamp").parse().expect("a time");
            let left = deadline.as_second() - created.as_second();
            assert!((seconds..seconds + 20).contains(&left), "{options}: {left}");
            let mark = crate::object::condition(pod, "DisruptionTarget").expect("the mark");
            assert_eq!(text(mark, "/reason"), "EvictionByEvictionAPI");
            assert_eq!(text(mark, "/message"), "Eviction API: evicting");
            assert_eq!(text(mark, "/status"), "True");
        })
        .await;
    }
    for case in [
        Case { options: "\"gracePeriodSeconds\":0", ..PLAIN },
        Case { pod: "Unbound", ..PLAIN },
        Case { pod: "Succeeded", ..PLAIN },
    ] {
        check_effect(case, |pod, _| assert_eq!(pod, None, "{case:?}")).await;
    }
    check_effect(Case { pod: "Pending", ..PLAIN }, |pod, _| assert_eq!(grace(pod), Some(30))).await;
}

#[tokio::test]
async fn a_refused_or_dry_eviction_leaves_the_pod_as_it_was() {
    for case in CASES
        .iter()
        .filter(|case| case.code != 201 || case.query.contains("dryRun") || case.options.contains("dryRun"))
    {
        let cluster = prepared(*case);
        let before = cluster.get("pods", "facts", "a");
        call(&cluster, "POST", &path(*case), &body_of(*case)).await;
        assert_eq!(cluster.get("pods", "facts", "a"), before, "{}", case.what);
    }
}

#[tokio::test]
async fn a_slot_is_used_up_by_a_success_and_by_a_failed_precondition_alone() {
    let used = |case: Case| async move {
        let mut is_used = None;
        let cluster = prepared(case);
        call(&cluster, "POST", &path(case), &body_of(case)).await;
        if let Some(budget) = cluster.get("pdb", "facts", "p") {
            let allowed = number(&budget, "/status/disruptionsAllowed");
            let disrupted = budget.pointer("/status/disruptedPods/a").is_some();
            assert_eq!(disrupted, allowed == Some(0), "{}", case.what);
            is_used = Some(disrupted);
        }
        is_used
    };
    let one_left = Case { budgets: &[ONE_LEFT], ..PLAIN };
    for (case, is_used) in [
        (one_left, true),
        (Case { options: WRONG_UID, ..one_left }, true),
        (Case { options: WRONG_VERSION, ..one_left }, true),
        (Case { options: WRONG_UID, query: "?dryRun=All", ..one_left }, false),
        (Case { query: "?dryRun=All", ..one_left }, false),
        (Case { options: r#""dryRun":["All"]"#, ..one_left }, false),
        (Case { pod: "Pending", ..one_left }, false),
        (Case { pod: "Running", ..one_left }, false),
    ] {
        assert_eq!(used(case).await, Some(is_used), "{case:?}");
    }
}

#[tokio::test]
async fn right_preconditions_hold() {
    let cluster = prepared(PLAIN);
    let pod = cluster.get("pods", "facts", "a").expect("the pod");
    for (field, value) in
        [("uid", crate::object::uid(&pod)), ("resourceVersion", text(&pod, "/metadata/resourceVersion"))]
    {
        let options = format!(r#""preconditions":{{"{field}":"{value}"}},"dryRun":["All"]"#);
        let body = body_of(Case { options: options.leak(), ..PLAIN });
        assert_eq!(call(&cluster, "POST", &path(PLAIN), &body).await.code, 201, "{field}");
    }
    // The version counts as right although the server itself changes the pod before it deletes it.
    let options =
        format!(r#""preconditions":{{"resourceVersion":"{}"}}"#, text(&pod, "/metadata/resourceVersion"));
    let body = body_of(Case { options: options.leak(), ..PLAIN });
    assert_eq!(call(&cluster, "POST", &path(PLAIN), &body).await.code, 201);
    assert_eq!(grace(cluster.get("pods", "facts", "a").as_ref()), Some(30));
}

#[tokio::test]
async fn a_terminating_pod_is_evicted_again_and_only_ever_sooner() {
    let cluster = prepared(Case { budgets: &[UNMET], ..PLAIN });
    cluster.delete("pods", "facts", "a");
    let deadline =
        || cluster.get("pods", "facts", "a").map(|pod| text(&pod, "/metadata/deletionTimestamp").to_owned());
    let first = deadline();
    for (options, seconds) in
        [("", 30), ("\"gracePeriodSeconds\":60", 30), ("\"gracePeriodSeconds\":2", 2), ("", 2)]
    {
        let answer = call(&cluster, "POST", &path(PLAIN), &body_of(Case { options, ..PLAIN })).await;
        assert_eq!(answer.code, 201, "{options}");
        assert_eq!(grace(cluster.get("pods", "facts", "a").as_ref()), Some(seconds), "{options}");
        assert_eq!(deadline() == first, seconds == 30, "{options}");
    }
}

#[tokio::test]
async fn bodies_that_are_wrong() {
    let unrecognized = "the object provided is unrecognized (must be of type Eviction): ";
    let mismatch = "name in URL does not match name in Eviction object";
    for (body, query, code, message) in [
        ("", "", 400, unrecognized),
        ("{", "", 400, unrecognized),
        ("[]", "", 400, unrecognized),
        (r#"{"kind":"Pod","apiVersion":"v1"}"#, "", 400, unrecognized),
        ("{}", "", 400, mismatch),
        (r#"{"metadata":{"name":"b"}}"#, "", 400, mismatch),
        (r#"{"metadata":{"name":"a","namespace":"other"}}"#, "", 400, "the namespace of the provided object"),
        (r#"{"metadata":{"name":"a"}}"#, "?dryRun=Some", 422, "CreateOptions.meta.k8s.io"),
        (
            r#"{"metadata":{"name":"a"},"deleteOptions":{"dryRun":["Some"]}}"#,
            "",
            422,
            "DeleteOptions.meta.k8s.io",
        ),
        (r#"{"metadata":{"name":"a"},"deleteOptions":{"gracePeriodSeconds":"7"}}"#, "", 400, "DeleteOptions"),
        (
            r#"{"metadata":{"name":"a"},"deleteOptions":{"grace":7}}"#,
            "?fieldValidation=Strict",
            400,
            "Eviction in version",
        ),
        (r#"{"metadata":{"name":"a"}}"#, "", 201, ""),
        (r#"{"kind":"Eviction","apiVersion":"policy/v1beta1","metadata":{"name":"a"}}"#, "", 201, ""),
    ] {
        let cluster = prepared(PLAIN);
        let answer = call(&cluster, "POST", &path(Case { query, ..PLAIN }), body).await;
        assert_eq!(answer.code, code, "{body}");
        assert!(text(&answer.json(), "/message").starts_with(message), "{body}: {}", answer.text);
        if code == 422 {
            assert_eq!(text(&answer.json(), "/details/causes/0/reason"), "FieldValueNotSupported", "{body}");
        }
    }
    let cluster = prepared(PLAIN);
    let answer = call(&cluster, "POST", &path(PLAIN), "{}").await;
    assert_eq!(answer.text, format!("{PREFIX}{}\n", &NAME_MISMATCH[1..]));
}

#[tokio::test]
async fn an_ignored_key_is_told_in_a_warning() {
    let options = r#":"delete_options":{"gracePeriodSeconds":7}"#;
    let cluster = prepared(PLAIN);
    let answer = call(&cluster, "POST", &path(PLAIN), &body_of(Case { options, ..PLAIN })).await;
    let warning = r#"299 - "unknown field \"delete_options\"""#;
    assert_eq!(answer.header("warning"), Some(warning));
    for (query, expected) in [("?fieldValidation=Warn", Some(warning)), ("?fieldValidation=Ignore", None)] {
        let cluster = prepared(PLAIN);
        let case = Case { options, query, ..PLAIN };
        let answer = call(&cluster, "POST", &path(case), &body_of(case)).await;
        assert_eq!((answer.code, answer.header("warning")), (201, expected), "{query}");
    }
}

#[tokio::test]
async fn missing_pods_and_terminating_namespaces() {
    let cluster = passive();
    apply_pod(&cluster, "facts", "b", "Ready");
    let body = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    let missing =
        call(&cluster, "POST", "/api/v1/namespaces/facts/pods/missing/eviction", &body("missing")).await;
    assert_eq!((missing.code, missing.text), (404, format!("{PREFIX}{}\n", &NOT_FOUND[1..])));

    apply_pod(&cluster, "going", "a", "Ready");
    assert!(cluster.delete("namespaces", "", "going"));
    let path = "/api/v1/namespaces/going/pods/a";
    for query in ["", "?dryRun=All"] {
        let answer = call(&cluster, "POST", &format!("{path}/eviction{query}"), &body("a")).await;
        assert_eq!((answer.code, answer.text), (403, format!("{PREFIX}{}\n", &J7[1..])), "{query}");
    }
    assert_eq!(call(&cluster, "DELETE", path, "").await.code, 200);
    let terminating = call(&cluster, "POST", &format!("{path}/eviction"), &body("a")).await;
    assert_eq!((terminating.code, terminating.text), (403, format!("{PREFIX}{}\n", &J7[1..])));
}

#[tokio::test]
async fn a_budget_that_is_out_of_bounds() {
    for (field, value, message) in [
        ("disruptionsAllowed", json!(-1), "pdb disruptions allowed is negative"),
        (
            "disruptedPods",
            (0..2001).map(|number| (format!("pod-{number}"), json!("2026-11-21T12:06:07Z"))).collect(),
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
    ] {
        let cluster = prepared(Case { budgets: &[ONE_LEFT], ..PLAIN });
        let edited = cluster.edit("pdb", "facts", "p", |budget| set(budget, &["status", field], value));
        assert!(edited.expect("there is room").is_some());
        let answer = call(&cluster, "POST", &path(PLAIN), &body_of(PLAIN)).await;
        assert_eq!(answer.code, 403, "{field}");
        let message = format!("poddisruptionbudgets.policy \"p\" is forbidden: {message}");
        assert_eq!(text(&answer.json(), "/message"), message);
    }
}

#[tokio::test]
async fn selectors_that_select_nothing_or_everything() {
    for (selector, code) in [
        (json!(null), 201),
        (json!({}), 429),
        (json!({"matchLabels": {"app": "y"}}), 201),
        (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), 429),
        (json!({"matchExpressions": [{"key": "app", "operator": "Nonsense"}]}), 201),
    ] {
        let cluster = prepared(Case { budgets: &[EXHAUSTED], ..PLAIN });
        let what = selector.to_string();
        let edited = cluster.edit("pdb", "facts", "p", |budget| {
            set(budget, &["spec", "selector"], selector);
            set(budget, &["status", "observedGeneration"], 9);
        });
        assert!(edited.expect("there is room").is_some());
        assert_eq!(call(&cluster, "POST", &path(PLAIN), &body_of(PLAIN)).await.code, code, "{what}");
    }
}

#[tokio::test]
async fn answers_that_only_a_fault_gives() {
    let apf = "Too many requests, please try again later.\n";
    for (reply, code, retry_after, content_type, body) in [
        (
            Reply::forbidden("nobody", "create", "pods/eviction", "facts", "b"),
            403,
            None,
            "application/json",
            J2,
        ),
        (Reply::policy_denial("facts", "b", "not this pod"), 403, None, "application/json", J8),
        (Reply::timeout(), 504, None, "application/json", J9),
        (Reply::too_many_requests(), 429, Some("1"), "text/plain; charset=utf-8", apf),
    ] {
        let cluster = prepared(PLAIN);
        cluster.faults().add(Fault::on("create", "pods/eviction", Effect::Answer(reply)));
        let answer = call(&cluster, "POST", &path(PLAIN), &body_of(PLAIN)).await;
        let body = body.strip_prefix('{').map_or_else(|| body.to_owned(), |rest| format!("{PREFIX}{rest}\n"));
        assert_eq!((answer.code, answer.text.as_str()), (code, body.as_str()));
        assert_eq!(answer.header("retry-after"), retry_after);
        assert_eq!(answer.header("content-type"), Some(content_type));
        assert_eq!(grace(cluster.get("pods", "facts", "a").as_ref()), None);
    }
}

#[tokio::test]
async fn only_posts_to_pods_evict() {
    let cluster = prepared(PLAIN);
    for (method, path, code) in [
        ("GET", "/api/v1/namespaces/facts/pods/a/eviction", 405),
        ("DELETE", "/api/v1/namespaces/facts/pods/a/eviction", 405),
        ("POST", "/api/v1/nodes/edge-a/eviction", 404),
        ("POST", "/api/v1/pods/a/eviction", 404),
    ] {
        assert_eq!(call(&cluster, method, path, &body_of(PLAIN)).await.code, code, "{method} {path}");
    }
}
