use std::io::Write;

use super::*;

/// One line of the log as the API server writes it, without the fields that we do not read.
fn line(id: &str, stage: &str, verb: &str, agent: &str, code: Option<u16>) -> String {
    let status =
        code.map_or(String::new(), |code| format!(r#","responseStatus":{{"metadata":{{}},"code":{code}}}"#));
    format!(
        r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{id}","stage":"{stage}","requestURI":"/api/v1/pods","verb":"{verb}","userAgent":"{agent}","objectRef":{{"resource":"pods","apiVersion":"v1"}}{status}}}"#
    ) + "\n"
}

fn counts(requests: &Requests) -> Vec<(&str, &str, Option<u16>)> {
    requests
        .iter()
        .map(|request| (request.user_agent.as_str(), request.verb.as_str(), request.code))
        .collect()
}

fn log(lines: &[String]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.concat().as_bytes()).unwrap();
    file
}

#[test]
fn each_request_counts_once() {
    let received = |id: &str, verb: &str| line(id, "RequestReceived", verb, "ebb/1", None);
    let complete = |id: &str, verb: &str, code| line(id, "ResponseComplete", verb, "ebb/1", Some(code));
    let started = |id: &str, verb: &str, code| line(id, "ResponseStarted", verb, "ebb/1", Some(code));
    for (case, lines, expected) in [
        (
            "answered",
            vec![received("1", "get"), complete("1", "get", 200)],
            vec![("ebb/1", "get", Some(200))],
        ),
        (
            "in the order of arrival, whatever the ids and the answers' order",
            vec![
                received("2", "get"),
                received("1", "list"),
                complete("1", "list", 200),
                complete("2", "get", 404),
            ],
            vec![("ebb/1", "get", Some(404)), ("ebb/1", "list", Some(200))],
        ),
        (
            "an open watch",
            vec![received("1", "watch"), started("1", "watch", 200)],
            vec![("ebb/1", "watch", Some(200))],
        ),
        (
            "an ended watch",
            vec![received("1", "watch"), started("1", "watch", 200), complete("1", "watch", 200)],
            vec![("ebb/1", "watch", Some(200))],
        ),
        ("hanging", vec![received("1", "create")], vec![("ebb/1", "create", None)]),
        ("received before the mark", vec![complete("1", "get", 200), started("2", "watch", 200)], vec![]),
        ("wrong token", vec![started("1", "get", 401)], vec![("ebb/1", "get", Some(401))]),
        (
            "cut by the mark",
            vec![
                "0\",\"stage\":\"RequestReceived\"}\n".to_owned(),
                received("1", "get"),
                complete("1", "get", 200),
            ],
            vec![("ebb/1", "get", Some(200))],
        ),
        (
            "still being written",
            vec![received("1", "get"), complete("1", "get", 200), received("2", "get")[..40].to_owned()],
            vec![("ebb/1", "get", Some(200))],
        ),
    ] {
        let file = log(&lines);
        let requests = between(file.path(), AuditMark { offset: 0 }, None, Duration::ZERO).unwrap();
        assert_eq!(counts(&requests), expected, "{case}");
    }
}

#[test]
fn a_mark_hides_what_was_received_before() {
    let mut file = log(&[line("1", "RequestReceived", "get", "ebb/1", None)]);
    let mark = mark(file.path()).unwrap();
    file.write_all(line("1", "ResponseComplete", "get", "ebb/1", Some(200)).as_bytes()).unwrap();
    file.write_all(line("2", "RequestReceived", "list", "kwok/1", None).as_bytes()).unwrap();
    file.write_all(line("2", "ResponseComplete", "list", "kwok/1", Some(200)).as_bytes()).unwrap();
    let requests = between(file.path(), mark, None, Duration::ZERO).unwrap();
    assert_eq!(requests.by_agent_and_verb(), BTreeMap::from([(("kwok/1", "list"), 1)]));
    assert_eq!(requests.of_agent("ebb/").count(), 0);
}

#[test]
fn a_second_mark_hides_what_was_received_after_it() {
    let received = |id: &str, verb: &str| line(id, "RequestReceived", verb, "ebb/1", None);
    let complete = |id: &str, verb: &str| line(id, "ResponseComplete", verb, "ebb/1", Some(200));
    let mut file = log(&[received("1", "get"), complete("1", "get")]);
    let begin = mark(file.path()).unwrap();
    file.write_all((received("2", "list") + &complete("2", "list") + &received("3", "create")).as_bytes())
        .unwrap();
    let end = mark(file.path()).unwrap();
    let after = received("4", "delete") + &complete("3", "create") + &complete("4", "delete");
    file.write_all(after.as_bytes()).unwrap();
    let requests = between(file.path(), begin, Some(end), Duration::ZERO).unwrap();
    assert_eq!(counts(&requests), [("ebb/1", "list", Some(200)), ("ebb/1", "create", Some(200))]);
}
