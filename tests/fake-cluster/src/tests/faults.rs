//! Tests the faults and the request log.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{call, get, passive, try_call};
use crate::faults::{Conditions, Seen};
use crate::{Answered, Effect, FakeCluster, Fault, Limit, Reply, Request};

const POD: &str = "/api/v1/namespaces/default/pods/a";

fn with_pod() -> FakeCluster {
    let cluster = passive();
    cluster.pod("a", "").expect("a pod");
    cluster
}

#[test]
fn rules_fit_what_they_name() {
    let fits = |fault: &Fault, seen: &Seen<'_>| {
        let cluster = passive();
        cluster.faults().add(fault.clone());
        cluster.shared().conditions().take(seen).is_some()
    };
    let seen = Seen {
        verb: "create",
        resource: "pods/eviction",
        namespace: "facts",
        name: "a",
        user_agent: "ebb/1.0",
    };
    let fault = |verb, resource| Fault::on(verb, resource, Effect::Hang);
    for (fault, expected) in [
        (fault("create", "pods/eviction"), true),
        (fault("*", "*"), true),
        (fault("get", "pods/eviction"), false),
        (fault("create", "pods"), false),
        (fault("*", "*").named("a"), true),
        (fault("*", "*").named("b"), false),
        (fault("*", "*").in_namespace("facts"), true),
        (fault("*", "*").in_namespace("other"), false),
        (fault("*", "*").from_agent("ebb/"), true),
        (fault("*", "*").from_agent("kubectl"), false),
    ] {
        assert_eq!(fits(&fault, &seen), expected, "{fault:?}");
    }
}

#[test]
fn rules_count() {
    let seen = Seen { verb: "get", resource: "pods", namespace: "", name: "", user_agent: "" };
    let check = |fault: Fault, expected: &[bool]| {
        let cluster = passive();
        cluster.faults().add(fault.clone());
        let mut conditions: Conditions = cluster.shared().conditions().clone();
        let taken: Vec<bool> = expected.iter().map(|_| conditions.take(&seen).is_some()).collect();
        assert_eq!(taken, expected, "{fault:?}");
    };
    let fault = || Fault::on("get", "pods", Effect::Hang);
    check(fault(), &[true, false, false]);
    check(fault().times(2), &[true, true, false]);
    check(fault().times(0), &[false, false]);
    check(fault().after(2).times(1), &[false, false, true, false]);
    check(fault().always(), &[true, true, true, true]);
}

#[tokio::test]
async fn connections_break_before_or_after_the_effect() {
    for (effect, is_gone) in [(Effect::ResetBefore, false), (Effect::ResetAfter, true)] {
        let cluster = with_pod();
        cluster.faults().add(Fault::on("delete", "pods", effect.clone()));
        let error = try_call(&cluster, "DELETE", POD, "").await.expect_err("no answer");
        assert!(!error.is_empty());
        assert_eq!(cluster.get("pods", "default", "a").is_none(), is_gone, "{effect:?}");
        assert_eq!(get(&cluster, "/readyz").await.code, 200);
    }
}

#[tokio::test]
async fn a_reset_is_not_an_orderly_end() {
    let cluster = with_pod();
    cluster.faults().add(Fault::on("get", "pods", Effect::ResetBefore));
    let mut stream =
        TcpStream::connect(cluster.server_url().trim_start_matches("http://")).await.expect("it");
    stream
        .write_all(format!("GET {POD} HTTP/1.1\r\nHost: fake\r\n\r\n").as_bytes())
        .await
        .expect("it is sent");
    let read = timeout(super::PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("an end");
    assert_eq!(read.expect_err("a reset").kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_hang_lasts_until_the_client_gives_up() {
    let late = Effect::DelayAfter(Duration::from_hours(1));
    for (effect, is_gone) in [(Effect::Hang, false), (Effect::HangAfter, true), (late, true)] {
        let cluster = with_pod();
        cluster.faults().add(Fault::on("delete", "pods", effect.clone()));
        {
            let mut hanging = std::pin::pin!(try_call(&cluster, "DELETE", POD, ""));
            // The request is under way as soon as it is in the log; other requests are answered meanwhile.
            loop {
                assert!(
                    timeout(Duration::from_millis(1), &mut hanging).await.is_err(),
                    "{effect:?}: no answer"
                );
                if cluster.requests().count("*", "delete", "pods") == 1 && cluster.faults().waiting() == 0 {
                    break;
                }
            }
            assert_eq!(get(&cluster, "/readyz").await.code, 200);
        }
        assert_eq!(cluster.get("pods", "default", "a").is_none(), is_gone, "{effect:?}");
        let log = cluster.requests().recent();
        assert_eq!(log.iter().find(|one| one.verb == "delete").expect("it").code, None);
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_dropped_cluster() {
    let cluster = with_pod();
    let address = cluster.server_url().trim_start_matches("http://").to_owned();
    let mut watch =
        super::open(&cluster, "GET", "/api/v1/pods?watch=true", "").await.expect("an answer").into_body();
    drop(cluster);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    let end = timeout(super::PATIENCE, async {
        while let Some(Ok(_)) = http_body_util::BodyExt::frame(&mut watch).await {}
    });
    end.await.expect("the watch ends");
}

#[test]
fn the_log_is_bounded() {
    let cluster = passive();
    for number in 0..5000 {
        let ticket = cluster.shared().log.begin(Request {
            user_agent: String::new(),
            identity: Vec::new(),
            verb: "get".to_owned(),
            resource: format!("/path-{number}"),
            namespace: String::new(),
            name: String::new(),
            query: String::new(),
            body: vec![b'z'; 5000].into(),
            at: Duration::ZERO,
            code: None,
        });
        ticket.answered(404);
    }
    let log = cluster.requests();
    let since = |number| (log.since(number).0.len(), log.since(number).1);
    assert_eq!([since(0), since(4998), since(5000)], [(4096, 5000), (2, 5000), (0, 5000)]);
    let last = log.recent().pop().expect("the last one");
    assert_eq!((last.resource.as_str(), last.code, last.body.len()), ("/path-4999", Some(404), 4096));
}

#[tokio::test]
async fn what_clients_ask_about_pods_is_kept_with_its_answer() {
    let cluster = passive();
    cluster.pod("a", "n").expect("a pod");
    cluster.budget("a", Limit::MinAvailable("1")).expect("a budget");
    let running = |pod: &mut serde_json::Value| pod["status"]["phase"] = json!("Running");
    cluster.edit("pods", "default", "a", running).expect("an edit");
    let eviction = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}"#;
    assert_eq!(call(&cluster, "POST", &format!("{POD}/eviction"), eviction).await.code, 429);
    assert_eq!(call(&cluster, "DELETE", POD, r#"{"dryRun":["All"]}"#).await.code, 200);
    assert_eq!(call(&cluster, "DELETE", POD, "").await.code, 200);
    let told: Vec<_> =
        cluster.take_removals().into_iter().map(|asked| (asked.answer, asked.budgets)).collect();
    let budgets = || vec!["a".to_owned()];
    assert_eq!(told, [(Answered::Refused, budgets()), (Answered::Deleted, budgets())]);
    assert_eq!(cluster.take_removals(), []);
}

#[tokio::test]
async fn errors_and_faults_are_counted() {
    let cluster = with_pod();
    cluster.faults().add(Fault::on("get", "pods", Effect::Answer(Reply::timeout())));
    cluster.faults().add(Fault::on("list", "pods", Effect::Delay(Duration::ZERO)));
    get(&cluster, POD).await;
    get(&cluster, "/api/v1/pods").await;
    get(&cluster, "/api/v1/namespaces/default/pods/missing").await;
    assert_eq!(cluster.requests().failed(), [("get".to_owned(), "pods".to_owned(), 2)]);
    assert_eq!(cluster.requests().met_by_faults(), 1, "a delay lets the answer come");
}

/// As measured on version 1.34.2.
#[test]
fn the_answer_of_a_server_whose_etcd_hangs() {
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: request did not complete within requested timeout - context deadline exceeded","reason":"Timeout","details":{},"code":504}"#;
    let reply = Reply::timeout();
    assert_eq!((reply.code, reply.headers), (504, vec![]));
    assert_eq!(reply.body, format!("{body}\n"));
}
