use fake_cluster::{Effect, Fault, Reply};

use super::*;
use crate::testing::{json as body_of, still_cluster};

/// The fake cluster has no service accounts, so the tests answer this path themselves.
const PATH: &str = "/api/v1/namespaces/kube-system/serviceaccounts/ebb-node/token";

fn claims(iat: i64, exp: i64) -> Value {
    json!({
        "aud": ["https://kubernetes.default.svc"], "iat": iat, "exp": exp,
        "kubernetes.io": {
            "namespace": "kube-system", "serviceaccount": {"name": "ebb-node", "uid": "sa"},
            "node": {"name": "edge-a", "uid": "uid-a"},
        },
    })
}

fn token(claims: &Value) -> String {
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

#[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
fn file(text: &str) -> (tempfile::TempDir, TokenFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, text).unwrap();
    (folder, TokenFile::new(path))
}

#[test]
fn which_tokens_are_ours_to_renew() {
    let bound = claims(1_000, 2_000);
    let with = |pointer: &str, value: Value| {
        let mut claims = bound.clone();
        *claims.pointer_mut(pointer).unwrap() = value;
        token(&claims)
    };
    let mut of_pod = bound.clone();
    of_pod["kubernetes.io"]["pod"] = json!({"name": "p", "uid": "u"});
    for (text, expected) in [
        (token(&bound), true),
        (format!(" {}\n", token(&bound)), true),
        (token(&of_pod), false),
        (with("/kubernetes.io/node", Value::Null), false),
        (with("/exp", json!(1_000)), false),
        (with("/exp", json!("soon")), false),
        (with("/aud", json!("x")), false),
        (String::new(), false),
        ("s3cret".to_owned(), false),
        ("a.b.c".to_owned(), false),
    ] {
        assert_eq!(claims_of(&text).is_some(), expected, "{text}");
    }
}

#[test]
fn it_is_due_at_half_of_its_life() {
    let claims = claims_of(&token(&claims(1_000, 2_000))).unwrap();
    for (now, expected) in [(0, false), (1_499, false), (1_500, true), (1_999, true), (5_000, true)] {
        assert_eq!(is_due(&claims, Timestamp::from_second(now).unwrap()), expected, "{now}");
    }
}

#[tokio::test]
async fn the_next_token_is_for_the_same_node_and_time() {
    let (fake, cluster) = still_cluster();
    // Any call's answer shows the server's time.
    crate::list_nodes(&cluster).await.unwrap();
    let now = cluster.server_time().unwrap().as_second();
    let (_folder, old) = file(&token(&claims(now - 600, now + 500)));
    let next = token(&claims(now, now + 1_100));
    let answer = json!({"kind": "TokenRequest", "status": {"token": next}});
    fake.faults().add(Fault::on("*", PATH, Effect::Answer(Reply::json(201, &answer))));
    assert_eq!(old.renew(&cluster).await, Ok(Renewal::Next(next)));
    let asked = fake.requests().recent().into_iter().last().unwrap();
    assert_eq!(asked.resource, PATH);
    let node = json!({"apiVersion": "v1", "kind": "Node", "name": "edge-a", "uid": "uid-a"});
    assert_eq!(
        body_of(&asked.body)["spec"],
        json!({
            "audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 1_100, "boundObjectRef": node,
        })
    );

    fake.requests().clear();
    let (_folder, young) = file(&token(&claims(now - 400, now + 600)));
    assert_eq!(young.renew(&cluster).await, Ok(Renewal::NotDue));
    let (_folder, other) = file("s3cret");
    assert_eq!(other.renew(&cluster).await, Ok(Renewal::NotOurs));
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 0);
}

#[tokio::test]
async fn what_is_no_longer_life_is_no_next_token() {
    let (fake, cluster) = still_cluster();
    crate::list_nodes(&cluster).await.unwrap();
    let now = cluster.server_time().unwrap().as_second();
    let (folder, old) = file(&token(&claims(now - 600, now + 500)));
    let mut of_another = claims(now, now + 1_100);
    of_another["kubernetes.io"]["node"]["uid"] = json!("uid-b");
    for (status, answer, part) in [
        (
            201,
            json!({"status": {"token": token(&claims(now - 600, now + 500))}}),
            "no token that lives longer",
        ),
        (201, json!({"status": {"token": token(&of_another)}}), "no token that lives longer"),
        (201, json!({"status": {"token": "s3cret"}}), "no token that lives longer"),
        (201, json!({}), "no token that lives longer"),
        (403, json!({"message": "no"}), "needs the right to `create` `serviceaccounts/token`"),
    ] {
        fake.faults().add(Fault::on("*", PATH, Effect::Answer(Reply::json(status, &answer))));
        let failure = old.renew(&cluster).await.unwrap_err().to_string();
        assert!(failure.contains(part) && !failure.contains("s3cret"), "{failure}");
    }
    drop(folder);
    assert!(old.renew(&cluster).await.unwrap_err().to_string().contains("cannot be read"));
}
