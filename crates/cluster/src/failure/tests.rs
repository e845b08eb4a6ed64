use std::io;

use kube::core::Status;

use super::*;

fn kind(failure: &ApiFailure) -> &'static str {
    match failure {
        ApiFailure::Unreachable { .. } => "unreachable",
        ApiFailure::Denied { .. } => "denied",
        ApiFailure::NotFound { .. } => "not found",
        ApiFailure::Conflict { .. } => "conflict",
        ApiFailure::Busy { .. } => "busy",
        ApiFailure::Other { .. } => "other",
    }
}

#[test]
fn each_status_code_has_one_meaning() {
    let operation = Operation::on_cluster("patch", "nodes", "edge-a");
    let cases = [
        (401, "denied"),
        (403, "denied"),
        (404, "not found"),
        (409, "conflict"),
        (429, "busy"),
        (499, "other"),
        (500, "unreachable"),
        (599, "unreachable"),
        (0, "other"),
    ];
    for (code, expected) in cases {
        let failure = refused(&operation, code, "some words");
        assert_eq!(kind(&failure), expected, "{code}");
        assert!(failure.text().starts_with("cannot patch nodes edge-a: "), "{code}: {failure}");
        let status = Status { code, message: "some words".to_owned(), ..Status::default() };
        assert_eq!(classify(&operation, &kube::Error::Api(status.boxed())), failure, "{code}");
    }
}

#[test]
fn a_denial_names_the_missing_right() {
    let operation =
        Operation { verb: "create", resource: "pods/eviction", namespace: "default", name: "web-1" };
    let text = refused(&operation, 403, "User \"x\" cannot do it").to_string();
    assert_eq!(
        text,
        "cannot create pods/eviction default/web-1: User \"x\" cannot do it; needs the right to `create` `pods/eviction`"
    );
}

#[test]
fn an_empty_answer_still_says_something() {
    let text = refused(&Operation::on_cluster("list", "nodes", ""), 503, "").to_string();
    assert_eq!(text, "cannot list nodes: the API server answered 503 (503)");
}

/// D10.
#[test]
fn errors_of_the_client() {
    let operation = Operation::on_cluster("get", "nodes", "a");
    let bad_json = serde_json::from_str::<u8>("\"s3cret\"").unwrap_err();
    let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused");
    let plugin = AuthError::AuthExec("s3cret".to_owned());
    let cases = [
        (kube::Error::Service(refused.into()), "unreachable", "connection refused"),
        (
            kube::Error::Service(Box::new(AuthError::AuthExec("s3cret".to_owned()))),
            "unreachable",
            "plugin failed",
        ),
        (kube::Error::Auth(plugin), "unreachable", "plugin failed"),
        (kube::Error::TlsRequired, "unreachable", "TLS"),
        (kube::Error::ReadEvents(io::Error::other("stream broke")), "unreachable", "stream broke"),
        (kube::Error::SerdeError(bad_json), "other", "line 1"),
        (
            kube::Error::InferKubeconfig(KubeconfigError::CurrentContextNotSet),
            "unreachable",
            "current-context",
        ),
    ];
    for (error, expected, part) in cases {
        let failure = classify(&operation, &error);
        assert_eq!(kind(&failure), expected, "{error:?}");
        assert!(failure.text().contains(part), "{failure}");
        assert!(!failure.text().contains("s3cret"), "{failure}");
    }
}

#[test]
fn a_chain_says_everything_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer: inner")]
    struct Outer(#[source] io::Error);
    assert_eq!(chain(&Outer(io::Error::other("inner"))), "outer: inner");
    assert_eq!(chain(&Outer(io::Error::other("deeper"))), "outer: inner: deeper");
}

#[test]
fn somebody_elses_words_fit_on_a_line() {
    let cases = [
        ("  a\nb\tc\u{1b}[31m ", "a b c [31m".to_owned()),
        ("", String::new()),
        (&"ä".repeat(700), format!("{}…", "ä".repeat(600))),
        (&"a".repeat(600), "a".repeat(600)),
    ];
    for (text, expected) in cases {
        assert_eq!(words(text), expected);
    }
}

#[test]
fn which_failures_are_refusals() {
    let answered =
        |code| kube::Error::Api(Box::new(kube::core::Status { code, ..kube::core::Status::default() }));
    for code in [400, 401, 403, 404, 405, 406, 409, 422] {
        assert!(is_refusal(&answered(code)), "{code}");
    }
    for code in [408, 410, 429, 500, 502, 503, 504] {
        assert!(!is_refusal(&answered(code)), "{code}");
    }
    let unreadable = serde_json::from_str::<u8>("x").unwrap_err();
    assert!(is_refusal(&kube::Error::SerdeError(unreadable)));
    assert!(!is_refusal(&kube::Error::Service("connection refused".into())));
    assert!(!is_refusal(&kube::Error::TlsRequired));
}

/// A device without its own clock starts in 1970: the text must not send its reader to the API server.
#[test]
fn a_clock_that_may_be_wrong_heads_the_text() {
    use CertificateError as E;
    let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let early = E::NotValidYetContext { time: at(60), not_before: at(1_700_000_000) };
    let late = E::ExpiredContext { time: at(1_800_000_000), not_after: at(1_700_000_000) };
    let cases = [
        (early, Some("shows 1970-01-01, the API server's certificate is not valid before 2023-11-14")),
        (late, Some("shows 2027-01-15, the API server's certificate expired at 2023-11-14")),
        (E::NotValidYet, Some("certificate is not valid yet")),
        (E::Expired, Some("certificate has expired")),
        (E::UnknownIssuer, None),
    ];
    for (certificate, part) in cases {
        let tls = rustls::Error::InvalidCertificate(certificate);
        // hyper wraps it like this: an I/O error in another one.
        let error = kube::Error::Service(Box::new(io::Error::other(io::Error::other(tls))));
        assert!(tls_error(&error).is_some());
        let failure = classify(&Operation::on_cluster("list", "nodes", ""), &error);
        assert!(failure.is_unreachable(), "{failure}");
        assert_eq!(failure.text().starts_with("by this machine's clock"), part.is_some(), "{failure}");
        assert!(part.is_none_or(|part| failure.text().contains(part)), "{failure}");
        assert_eq!(failure.text().contains("set the clock"), part.is_some(), "{failure}");
    }
}

#[test]
fn tls_that_fails_is_said_in_plain_words() {
    use rustls::{Error as E, PeerIncompatible, pki_types::ServerName};
    let refused = |error| E::InvalidCertificate(error);
    let other_name = |names: &[&str]| {
        refused(CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("10.0.0.9").unwrap(),
            presented: names.iter().map(|&name| name.to_owned()).collect(),
        })
    };
    let foreign = CertificateError::UnsupportedSignatureAlgorithmContext {
        signature_algorithm_id: Vec::new(),
        supported_algorithms: Vec::new(),
    };
    let cases = [
        (refused(CertificateError::UnknownIssuer), "give the CA that has signed it"),
        (refused(CertificateError::BadSignature), "give the CA that has signed it"),
        (
            other_name(&["DnsName(\"a.example\")", "IpAddress(::1)"]),
            "or into tls-server-name: a.example, ::1",
        ),
        (other_name(&[]), "is not for 10.0.0.9: it has no names"),
        (refused(foreign), "not supported here, such as P-521"),
        (refused(CertificateError::InvalidPurpose), "extended key usage serverAuth"),
        (refused(CertificateError::BadEncoding), "cannot be read"),
        (E::AlertReceived(AlertDescription::HandshakeFailure), "P-521 is not supported"),
        (PeerIncompatible::NoCipherSuitesInCommon.into(), "no TLS algorithm in common"),
        (InvalidMessage::InvalidContentType.into(), "does not speak TLS"),
    ];
    for (tls, part) in cases {
        let error = kube::Error::Service(Box::new(io::Error::other(tls)));
        let failure = classify(&Operation::on_cluster("list", "nodes", ""), &error);
        assert!(failure.is_unreachable() && failure.text().starts_with("cannot list nodes: "), "{failure}");
        assert!(failure.text().contains(part), "{failure}");
    }
}

#[test]
fn what_a_kubelet_has_no_relation_to_is_gone_and_no_missing_right() {
    let said = "pods \"a\" is forbidden: User \"system:node:n\" cannot get resource \"pods\" in API group \"\" in the \
                namespace \"d\": no relationship found between node 'n' and this object";
    for (verb, resource, is_gone) in [
        ("get", "pods", true),
        ("get", "persistentvolumeclaims", true),
        ("get", "persistentvolumes", true),
        ("get", "volumeattachments", true),
        ("list", "pods", false),
        ("delete", "pods", false),
        ("get", "configmaps", false),
        ("get", "leases", false),
        ("get", "nodes", false),
    ] {
        let operation = Operation { verb, resource, namespace: "d", name: "a" };
        let failure = refused(&operation, 403, said);
        assert_eq!(matches!(failure, ApiFailure::NotFound { .. }), is_gone, "{verb} {resource}: {failure}");
        assert_eq!(matches!(failure, ApiFailure::Denied { .. }), !is_gone, "{verb} {resource}: {failure}");
    }
}
