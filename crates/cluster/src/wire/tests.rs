use fake_cluster::{Effect, Fault, Reply as FakeReply};
use http::HeaderValue;
use kube::core::params::GetParams;
use serde_json::json;

use super::*;
use crate::testing::still_cluster;

fn get_node() -> Result<Request<Vec<u8>>, kube::core::request::Error> {
    kube::core::Request::new("/api/v1/nodes").get("edge-a", &GetParams::default())
}

const OPERATION: Operation<'_> = Operation { verb: "get", resource: "nodes", namespace: "", name: "edge-a" };

#[tokio::test]
async fn a_broken_connection_is_unreachable_and_an_answer_is_never_asked_for_twice() {
    let (fake, cluster) = still_cluster();
    for effect in [Effect::ResetBefore, Effect::ResetAfter, Effect::Answer(FakeReply::text(503, "busy"))] {
        fake.faults().add(Fault::on("get", "nodes", effect.clone()));
        fake.requests().clear();
        let failure = cluster.fetch::<serde_json::Value>(&OPERATION, get_node()).await.unwrap_err();
        assert!(failure.is_unreachable(), "{effect:?}: {failure}");
        assert_eq!(fake.requests().count("ebb/", "get", "nodes"), 1, "{effect:?}");
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_other() {
    let (fake, cluster) = still_cluster();
    for reply in [
        FakeReply::text(200, "<html>please log in</html>"),
        FakeReply::text(200, ""),
        FakeReply::json(200, &json!({"metadata": {"name": 7}})),
    ] {
        fake.faults().add(Fault::on("get", "nodes", Effect::Answer(reply.clone())));
        let failure = cluster.fetch::<crate::objects::Node>(&OPERATION, get_node()).await.unwrap_err();
        assert!(matches!(failure, ApiFailure::Other { .. }), "{reply:?}: {failure:?}");
    }
}

#[test]
fn the_servers_clock_runs_with_ours() {
    let clock = ServerClock::default();
    let learn = |date: &'static str, now| {
        let headers = HeaderMap::from_iter([(DATE, HeaderValue::from_static(date))]);
        clock.learn(&headers, Moment(now));
    };
    let at = |now| clock.at(Moment(now)).map(|time| time.to_string());
    learn("nonsense", 1_000);
    assert_eq!(at(1_000), None);
    learn("Sat, 21 Nov 2026 12:00:00 GMT", 1_000);
    assert_eq!(at(61_000).as_deref(), Some("2026-11-21T12:01:00Z"));
    learn("Sat, 21 Nov 2026 11:00:00 GMT", 62_000);
    assert_eq!(at(62_500).as_deref(), Some("2026-11-21T11:00:00.5Z"));
    assert_eq!(at(u64::MAX), None);
}
