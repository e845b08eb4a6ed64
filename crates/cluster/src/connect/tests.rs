use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use drain::{Answer, PodId};
use fake_cluster::{FakeCluster, Settings};
use futures::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use super::*;
use crate::evict::would_evict;
use crate::kubeconfig::Overrides;
use crate::nodes::{get_node, list_nodes};
use crate::testing::{at, pod_with_volume_on, soon, still_cluster};
use trust::Trust;

const CA: &str = include_str!("tests/ca.pem");
const OTHER_CA: &str = include_str!("tests/other-ca.pem");
const CERTIFICATE: &str = include_str!("tests/server.pem");
const KEY: &str = include_str!("tests/server.key");

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        write(&folder.path().join(name), text);
    }
    folder
}

#[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// An agent that runs unattended reads no file that another user may have written; a person may read any.
#[tokio::test]
async fn what_others_may_write_is_read_for_a_person_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["token", "ca.pem"] {
        write(&path(name), "text");
    }
    // Files that other users may write, and the text of the refusal.
    for (user, cluster, others) in [
        ("", "", "kubeconfig"),
        ("tokenFile: token", "", "token"),
        ("", ", certificate-authority: ca.pem", "ca.pem"),
    ] {
        write(&path("kubeconfig"), &kubeconfig(&format!("server: 'http://127.0.0.1:1'{cluster}"), user));
        for name in ["kubeconfig", "token", "ca.pem"] {
            let mode = if name == others { 0o666 } else { 0o600 };
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let failure = connect(&explicit(path("kubeconfig")).distrusting(), "").await.map(drop).unwrap_err();
        let text = failure.text();
        assert!(text.contains(others) && text.contains("writable by others (mode 0666)"), "{others}: {text}");
        let read = connect(&explicit(path("kubeconfig")), "").await.map(drop);
        let is_refused = |failure: &ApiFailure| failure.text().contains("writable by others");
        assert!(!read.as_ref().is_err_and(is_refused), "{others}: {read:?}");
    }
}

fn explicit(path: PathBuf) -> Search {
    Search { explicit: Some(path), ..Search::default() }
}

/// A kubeconfig with this cluster and this user, in YAML's short form.
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{{cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    )
}

#[tokio::test]
async fn a_broken_kubeconfig_is_unreachable_and_says_why() {
    let server = "server: \"https://127.0.0.1:1\"";
    let with = |more: &str| kubeconfig(&format!("{server}, {more}"), "");
    let user = |user: &str| kubeconfig(server, user);
    let cases = [
        ("", "has no current-context"),
        ("{ s3cret: [", "not the YAML of a kubeconfig"),
        ("users: s3cret", "not the YAML of a kubeconfig"),
        ("current-context: s", "current-context `s` does not exist"),
        (&kubeconfig("", ""), "has no server"),
        (&kubeconfig("server: \"::\"", ""), "is not a URL"),
        (&kubeconfig("server: \"127.0.0.1:6443\"", ""), "is not a URL"),
        (&kubeconfig("server: \"ftp://127.0.0.1\"", ""), "is not a URL"),
        (&kubeconfig("server: \"https://\"", ""), "is not a URL"),
        (&with("certificate-authority: missing.pem"), "missing.pem` cannot be read"),
        (&with("certificate-authority-data: \"s3cret!\""), "certificate-authority is not base64"),
        (&with("certificate-authority: garbage.pem"), "holds no certificate"),
        (&with("certificate-authority: garbage-der.pem"), "cannot connect"),
        (&with("proxy-url: \"http://127.0.0.1:3128\""), "asks for a proxy"),
        (&with("tls-server-name: \"-- s3cret --\""), "cannot connect"),
        (&user("client-certificate-data: \"s3cret!\", client-key-data: aGVsbG8K"), "not base64"),
        (&user("client-certificate-data: aGVsbG8K, client-key-data: aGVsbG8K"), "cannot connect"),
        (&user("client-certificate-data: aGVsbG8K, client-key: pkcs1.key"), "its client key is encrypted"),
        (&user("client-certificate-data: aGVsbG8K, client-key: pkcs8.key"), "its client key is encrypted"),
        (&user("token: \"s3cret\\nx\""), "HTTP forbids"),
        (&user("tokenFile: missing"), "missing` cannot be read"),
        (
            &user("auth-provider: {name: gcp, config: {cmd-path: /bin/echo, cmd-args: s3cret}}"),
            "use an exec plugin",
        ),
        (
            &user(
                "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./missing, interactiveMode: Never}",
            ),
            "cannot be started",
        ),
    ];
    for (text, part) in cases {
        let folder = folder(&[
            ("config", text),
            ("garbage.pem", "-----BEGIN CERTIFICATE-----\ns3cret\n-----END"),
            (
                "pkcs1.key",
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0\n\naGVsbG8K\n\
                 -----END RSA PRIVATE KEY-----\n",
            ),
            (
                "pkcs8.key",
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8K\n-----END ENCRYPTED PRIVATE KEY-----\n",
            ),
            ("garbage-der.pem", "-----BEGIN CERTIFICATE-----\naGVsbG8K\n-----END CERTIFICATE-----\n"),
        ]);
        let failure = connect(&explicit(folder.path().join("config")), "").await;
        let failure = failure.map(drop).expect_err(text);
        assert!(failure.is_unreachable(), "{text}: {failure:?}");
        assert!(failure.text().contains(part), "{text}: {failure}");
        assert!(!failure.text().contains("s3cret"), "{text}: {failure}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_kubeconfig_in_one_line_that_ends() {
    let server = "server: \"https://127.0.0.1:1\"";
    let cases = [
        kubeconfig(&format!("{server}, tls-server-name: not a name"), ""),
        kubeconfig(&format!("{server}, certificate-authority: \"a\\nb\""), ""),
        kubeconfig(&format!("{server}, certificate-authority: {}", "a".repeat(10_000)), ""),
        kubeconfig(server, "client-key: \"a\\u0007\""),
        kubeconfig(server, "tokenFile: \"a\\nb\""),
    ];
    for text in cases {
        let folder = folder(&[("config", &text)]);
        let path = folder.path().join("config");
        let failure = connect(&explicit(path.clone()), "").await.map(drop).expect_err(&text);
        let said = failure.text();
        assert!(said.contains(&path.display().to_string()), "{said}");
        assert!(!said.contains(char::is_control) && said.chars().count() < 1_000, "{said:?}");
    }
}

#[tokio::test]
async fn a_path_that_leads_nowhere_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    for (path, part) in [("missing", "No such file"), (".", "not a file")] {
        let failure = connect(&explicit(folder.path().join(path)), "").await.map(drop).unwrap_err();
        assert!(failure.is_unreachable() && failure.text().contains(part), "{path}: {failure:?}");
    }
    let failure = connect(&Search::default(), "").await.map(drop).unwrap_err();
    assert!(failure.is_unreachable() && failure.text().starts_with("no kubeconfig found"), "{failure:?}");
}

#[tokio::test]
async fn only_the_proxy_of_the_chosen_cluster_counts() {
    let three = "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
                 clusters: [{name: a, cluster: {server: \"http://127.0.0.1:1\"}}, \
                 {name: b, cluster: {server: \"http://127.0.0.1:2\"}}, \
                 {name: p, cluster: {server: \"http://127.0.0.1:2\", proxy-url: \"http://127.0.0.1:3\"}}]\n\
                 users: [{name: u, user: {}}]\n\
                 contexts: [{name: a, context: {cluster: a, user: u}}, {name: b, context: {cluster: b, user: u}}, \
                 {name: p, context: {cluster: p, user: u}}]\n";
    let folder = folder(&[("three", three)]);
    let search = |context: Option<&str>| {
        explicit(folder.path().join("three"))
            .choosing(Overrides { context: context.map(str::to_owned), ..Overrides::default() })
    };
    for (context, port) in [(None, "127.0.0.1:1"), (Some("b"), "127.0.0.1:2")] {
        let connection = connect(&search(context), "").await.unwrap();
        let failure = soon(get_node(&connection.cluster, "n")).await.unwrap_err();
        assert!(failure.text().contains(port), "{context:?}: {failure}");
    }
    let refusal = async |context| connect(&search(Some(context)), "").await.map(drop).unwrap_err();
    let failure = refusal("p").await;
    assert!(failure.text().contains("asks for a proxy"), "{failure}");
    let failure = refusal("c").await;
    assert!(failure.text().ends_with("it has no context `c`; there are: a, b, p"), "{failure}");
}

/// As client-go: an empty text is none, and a token file comes before a token.
#[tokio::test]
async fn which_credentials_of_a_user_are_sent() {
    let (fake, _) = still_cluster();
    let cluster = format!(
        "server: \"{}\", certificate-authority: '', certificate-authority-data: '', tls-server-name: '', \
         proxy-url: ''",
        fake.server_url()
    );
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: echo, interactiveMode: Never, \
                args: ['{\"status\": {\"token\": \"plugin\"}}']}";
    let none_of_it = "token: '', tokenFile: '', username: '', password: '', client-certificate: '', \
                      client-certificate-data: '', client-key: '', client-key-data: '', as: '', as-uid: ''";
    let cases = [
        ("token: '', tokenFile: file", "Bearer file"),
        (&format!("token: '', {exec}"), "Bearer plugin"),
        (&format!("tokenFile: '', {exec}"), "Bearer plugin"),
        ("username: '', password: '', token: inline", "Bearer inline"),
        ("username: '', password: '', tokenFile: file", "Bearer file"),
        (&format!("username: '', password: '', {exec}"), "Bearer plugin"),
        ("token: inline, tokenFile: file", "Bearer file"),
        ("token: inline, tokenFile: missing", "Bearer inline"),
        ("token: inline, tokenFile: blank", "Bearer inline"),
        (&format!("token: inline, {exec}"), "Bearer inline"),
        (&format!("tokenFile: file, {exec}"), "Bearer file"),
        ("username: u, password: ''", "Basic dTo="),
        ("username: u, password: p, tokenFile: file", "Basic dTpw"),
        (none_of_it, ""),
        ("", ""),
    ];
    for (user, expected) in cases {
        let folder = folder(&[("config", &kubeconfig(&cluster, user)), ("file", "file\n"), ("blank", " \n")]);
        let connection = connect(&explicit(folder.path().join("config")), "").await.expect(user);
        get_node(&connection.cluster, "edge-a").await.ok();
        let sent = fake.requests().recent().pop().unwrap().identity;
        let expected: Vec<_> = Some(expected)
            .filter(|text| !text.is_empty())
            .map(|text| format!("authorization: {text}"))
            .into_iter()
            .collect();
        assert_eq!(sent, expected, "{user}");
    }
}

/// What a person chooses comes before the kubeconfig, each by itself; kubectl's flags mean the same.
#[test]
fn what_a_person_chooses_comes_before_the_kubeconfig() {
    let two = "clusters: [{name: a, cluster: {server: 'http://a.invalid'}}, \
               {name: b, cluster: {server: 'http://b.invalid'}}]\n\
               users: [{name: u, user: {token: u}}, \
               {name: w, user: {token: w, as: boss, as-uid: '7', as-groups: [g]}}]\n\
               contexts: [{name: au, context: {cluster: a, user: u}}, {name: bw, context: {cluster: b, user: w}}]\n";
    let folder = folder(&[("none", two), ("two", &format!("current-context: au\n{two}"))]);
    // Context, cluster, user; whom to act as, UID, groups.
    let cases: [(&str, [&str; 5], &[&str], &str); 17] = [
        ("two", ["", "", "", "", ""], &[], "a u null null null"),
        ("two", ["bw", "", "", "", ""], &[], "b w boss 7 g"),
        ("two", ["", "b", "", "", ""], &[], "b u null null null"),
        ("two", ["", "", "w", "", ""], &[], "a w boss 7 g"),
        ("two", ["bw", "a", "u", "", ""], &[], "a u null null null"),
        ("two", ["", "", "", "me", ""], &["x", "y"], "a u me null x,y"),
        ("two", ["bw", "", "", "me", ""], &[], "b w me 7 g"),
        ("two", ["bw", "", "", "", "9"], &["x"], "b w boss 9 x"),
        ("none", ["", "b", "u", "", ""], &[], "b u null null null"),
        ("none", ["", "b", "", "", ""], &[], "b null null null null"),
        ("none", ["", "", "u", "", ""], &[], "has no current-context"),
        ("two", ["x", "", "", "", ""], &[], "it has no context `x`; there are: au, bw"),
        ("two", ["", "x", "", "", ""], &[], "it has no cluster `x`; there are: a, b"),
        ("two", ["", "", "x", "", ""], &[], "it has no user `x`; there are: u, w"),
        ("two", ["", "", "", "", "9"], &[], "no user to act as (--as)"),
        ("two", ["", "", "", "", ""], &["x"], "no user to act as (--as)"),
        ("two", ["", "", "", "me", ""], &["x\ny"], "holds characters that HTTP forbids"),
    ];
    for (file, [context, cluster, user, impersonate, uid], groups, expected) in cases {
        let some = |text: &str| Some(text.to_owned());
        let overrides = Overrides {
            context: some(context),
            cluster: some(cluster),
            user: some(user),
            impersonate: some(impersonate),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            uid: some(uid),
        };
        let loaded = Origin::Files(vec![folder.path().join(file)]).load(&overrides, Trust::Anybody);
        let seen = loaded.map(|found| {
            let user = serde_json::to_value(found.config.auth_info).unwrap();
            let field = |name| user[name].as_str().unwrap_or("null").to_owned();
            let groups = user["as-groups"].as_array().map(|groups| {
                groups.iter().map(|group| group.as_str().unwrap()).collect::<Vec<_>>().join(",")
            });
            let server = found.config.cluster_url.host().unwrap()[..1].to_owned();
            let shown = [
                server,
                field("token"),
                field("as"),
                field("as-uid"),
                groups.unwrap_or_else(|| "null".to_owned()),
            ];
            shown.join(" ")
        });
        match seen {
            Ok(seen) => assert_eq!(seen, expected, "{overrides:?}"),
            Err(failure) => assert!(failure.text().contains(expected), "{overrides:?}: {failure}"),
        }
    }
    let refused = Origin::InCluster
        .load(&Overrides { user: Some("w".to_owned()), ..Overrides::default() }, Trust::Anybody);
    assert!(refused.is_err_and(|failure| failure.text().ends_with("it has no users, so no `w`")));
}

/// The inline token may have ended when the file comes.
#[tokio::test]
async fn a_token_file_that_comes_later_is_noticed() {
    let (fake, _) = still_cluster();
    let server = format!("server: \"{}\"", fake.server_url());
    let folder = folder(&[("config", &kubeconfig(&server, "token: inline, tokenFile: file"))]);
    let search = explicit(folder.path().join("config"));
    let connection = connect(&search, "").await.unwrap();
    assert!(!connection.is_outdated(&search));
    write(&folder.path().join("file"), "file");
    assert!(connection.is_outdated(&search));
}

#[test]
fn where_a_kubeconfig_is_looked_for() {
    let folder = folder(&[("a", ""), ("b", "")]);
    let path = |name: &str| folder.path().join(name);
    let search = |explicit: Option<&str>, environment: Option<&str>, candidates: &[&str]| Search {
        explicit: explicit.map(path),
        environment: environment.map(Into::into),
        candidates: candidates.iter().map(|name| path(name)).collect(),
        ..Search::default()
    };
    let files = |names: &[&str]| Some(Origin::Files(names.iter().map(|name| path(name)).collect()));
    let both = format!("{}::{}", path("a").display(), path("x").display());
    let there = format!("{}:{}", path("a").display(), path("b").display());
    let neither = format!("{}:{}", path("x").display(), path("y").display());
    let cases = [
        (search(Some("x"), Some("/e"), &["a"]), files(&["x"]), "the setting counts even without a file"),
        (
            search(None, Some(&both), &["b"]),
            files(&["a"]),
            "a file of several that is missing is passed over",
        ),
        (search(None, Some(&there), &["b"]), files(&["a", "b"]), "KUBECONFIG may name several"),
        (search(None, Some(&neither), &["b"]), files(&["x", "y"]), "it counts even if it leads nowhere"),
        (search(None, Some(""), &["b"]), files(&["b"]), "an empty KUBECONFIG is none"),
        (search(None, None, &["x", "b", "a"]), files(&["b"]), "the first that exists"),
        (search(None, None, &["x"]), None, "nothing"),
    ];
    for (search, expected, why) in cases {
        assert_eq!(search.find(), expected, "{why}");
    }
}

#[tokio::test]
async fn several_files_are_merged_and_a_change_is_seen() {
    let (fake, _) = still_cluster();
    let folder = folder(&[("a", "current-context: ''\n"), ("b", &fake.kubeconfig())]);
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let environment = Some(format!("{}:{}", a.display(), b.display()).into());
    let search = Search { environment, ..Search::default() };
    let connection = connect(&search, "drain").await.unwrap();
    assert_eq!(list_nodes(&connection.cluster).await.unwrap().len(), 1);
    assert_eq!(fake.requests().recent()[0].user_agent, concat!("ebb/", env!("CARGO_PKG_VERSION"), " drain"));
    assert!(!connection.is_outdated(&search));
    write(&a, "current-context: other\n");
    assert!(connection.is_outdated(&search));
    assert!(
        connection.is_outdated(&Search { candidates: vec![b], ..Search::default() }),
        "another one counts"
    );
}

/// k3s replaces its CA, the kubelet its client certificate behind a link; neither changes the kubeconfig.
#[tokio::test]
async fn a_file_that_the_kubeconfig_names_is_seen_to_change() {
    let (fake, _) = still_cluster();
    let cluster = format!("server: \"{}\", certificate-authority: ca.pem", fake.server_url());
    let user = "client-certificate: client.pem, client-key: client.key";
    let files = [
        ("config", &*kubeconfig(&cluster, user)),
        ("ca.pem", CA),
        ("client.pem", CERTIFICATE),
        ("client.key", KEY),
    ];
    for name in ["ca.pem", "client.pem", "client.key"] {
        let folder = folder(&files);
        let search = explicit(folder.path().join("config"));
        let connection = connect(&search, "").await.unwrap();
        assert!(!connection.is_outdated(&search), "{name}");
        let next = folder.path().join("next");
        fs::copy(folder.path().join(name), &next).unwrap();
        fs::rename(&next, folder.path().join(name)).unwrap();
        assert!(connection.is_outdated(&search), "{name} was replaced by one of the same length");
        let connection = connect(&search, "").await.unwrap();
        fs::remove_file(folder.path().join(name)).unwrap();
        assert!(connection.is_outdated(&search), "{name} is gone");
    }
}

/// Nine readings hang, as after some minutes of tries; then a person corrects the kubeconfig.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_does_not_cut_us_off_for_ever() {
    let (fake, _) = still_cluster();
    let server = format!("server: \"{}\"", fake.server_url());
    let hangs = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: [\"600\"], interactiveMode: Never}";
    let folder = folder(&[("config", &kubeconfig(&server, hangs))]);
    let path = folder.path().join("config");
    let search = explicit(path.clone());
    for _ in 0..9 {
        let failed = connect(&search, "").await.map(drop).unwrap_err();
        assert!(failed.is_unreachable() && failed.text().contains("did not answer within 8 s"), "{failed}");
    }
    write(&path, &fake.kubeconfig());
    connect(&search, "").await.map(drop).unwrap();
}

#[tokio::test]
async fn a_plugins_token_and_certificate_are_used() {
    let (fake, _) = still_cluster();
    let folder = folder(&[("client.pem", CERTIFICATE), ("client.key", KEY)]);
    let answer = serde_json::json!({"status": {
        "token": "from-the-plugin", "clientCertificateData": CERTIFICATE, "clientKeyData": KEY,
        "expirationTimestamp": "2000-01-01T00:00:00Z",
    }});
    write(&folder.path().join("answer"), &answer.to_string());
    let user = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: cat, args: [{}], interactiveMode: Never}}",
        folder.path().join("answer").display()
    );
    let path = folder.path().join("config");
    write(&path, &kubeconfig(&format!("server: \"{}\"", fake.server_url()), &user));
    let search = explicit(path);
    let connection = connect(&search, "").await.unwrap();
    // Before the first call no credentials were refused.
    assert!(!connection.is_outdated_at(&search, connection.made + Duration::from_secs(9)));
    assert!(connection.is_outdated_at(&search, connection.made + ANEW), "its certificate has ended");
    let failure = get_node(&connection.cluster, "edge-a").await.unwrap_err();
    assert!(failure.text().contains("401"), "the fake does not know this token: {failure}");
}

/// kube is given an unused proxy, so that it does not read the environment's. A plugin must not be told about it.
#[tokio::test]
async fn a_plugin_that_asks_for_the_cluster_is_told_of_no_proxy() {
    let script = "case $KUBERNETES_EXEC_INFO in *proxy*) exit 3;; *127.0.0.1*) echo '{\"status\":{\"token\":\"t\"}}';; esac";
    let exec = serde_json::json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", script], "interactiveMode": "Never", "provideClusterInfo": true});
    let folder =
        folder(&[("config", &kubeconfig("server: \"http://127.0.0.1:1\"", &format!("exec: {exec}")))]);
    connect(&explicit(folder.path().join("config")), "").await.map(drop).unwrap();
}

#[tokio::test]
async fn refused_credentials_are_read_anew_but_not_at_once() {
    let (fake, _) = still_cluster();
    let text = kubeconfig(&format!("server: \"{}\"", fake.server_url()), "token: s3cret");
    let (address, _) = tls_server(&["h2"], 1).await;
    let by_tls = kubeconfig(&format!("server: \"https://{address}\", certificate-authority: ca.pem"), "");
    let folder =
        folder(&[("token", &text), ("tls", &by_tls), ("ca.pem", OTHER_CA), ("good", &fake.kubeconfig())]);
    for (name, is_refused) in [("token", true), ("tls", true), ("good", false)] {
        let search = explicit(folder.path().join(name));
        let connection = connect(&search, "").await.unwrap();
        assert!(!connection.is_outdated_at(&search, connection.made + Duration::from_hours(1)), "{name}");
        assert_eq!(get_node(&connection.cluster, "edge-a").await.is_err(), is_refused, "{name}");
        let soon = connection.made + Duration::from_secs(9);
        assert!(!connection.is_outdated_at(&search, soon), "{name}");
        assert_eq!(connection.is_outdated_at(&search, connection.made + ANEW), is_refused, "{name}");
    }
}

#[test]
fn a_user_agent_that_http_forbids_falls_back() {
    let cases = [("", ""), ("drain", " drain"), ("a\nb", "")];
    for (suffix, expected) in cases {
        let expected = format!("ebb/{}{expected}", env!("CARGO_PKG_VERSION"));
        assert_eq!(user_agent(suffix).to_str().unwrap(), expected, "{suffix}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_or_not_one_is_unreachable() {
    let garbage = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = garbage.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = garbage.accept().await {
            stream.write_all(b"this is neither TLS nor HTTP\r\n\r\n").await.ok();
        }
    });
    for url in [
        "http://127.0.0.1:1".to_owned(),
        "https://does-not-exist.invalid:6443".to_owned(),
        format!("http://{address}"),
        format!("https://{address}"),
    ] {
        let failure = get_node(&at(&url), "edge-a").await.unwrap_err();
        assert!(failure.is_unreachable(), "{url}: {failure:?}");
        assert!(failure.text().starts_with("cannot get nodes edge-a: "), "{url}: {failure}");
    }
}

/// A TLS server that serves each connection by this function; counts connections.
async fn serve_by_tls<F: Future<Output = ()> + Send + 'static>(
    protocols: &[&str],
    serve: impl Fn(TlsStream<TcpStream>) -> F + Clone + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let certificates = CertificateDer::pem_slice_iter(CERTIFICATE.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let mut config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, counter, serve) = (acceptor.clone(), Arc::clone(&counter), serve.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                counter.fetch_add(1, Ordering::Relaxed);
                let served = serve(stream);
                served.await;
            });
        }
    });
    (address, connections)
}

/// A TLS server that accepts evictions, as soon as all expected ones are in flight at the same time.
async fn tls_server(protocols: &[&str], evictions: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let all_here = Arc::new(Barrier::new(evictions));
    let serve = move |stream: TlsStream<TcpStream>| {
        let all_here = Arc::clone(&all_here);
        async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let all_here = Arc::clone(&all_here);
                async move {
                    if request.uri().path().ends_with("/eviction") {
                        all_here.wait().await;
                    }
                    let body = Full::new(Bytes::from_static(b"{\"items\": []}"));
                    Ok::<_, std::convert::Infallible>(Response::new(body))
                }
            });
            let server = auto::Builder::new(TokioExecutor::new());
            server.serve_connection(TokioIo::new(stream), answer).await.ok();
        }
    };
    serve_by_tls(protocols, serve).await
}

async fn connect_by_tls(address: SocketAddr) -> Cluster {
    connect_trusting(address, CA).await
}

async fn connect_trusting(address: SocketAddr, root: &str) -> Cluster {
    let cluster = format!("server: \"https://{address}\", certificate-authority: ca.pem");
    let folder = folder(&[("config", &kubeconfig(&cluster, "")), ("ca.pem", root)]);
    connect(&explicit(folder.path().join("config")), "").await.unwrap().cluster
}

#[tokio::test]
async fn a_server_is_trusted_by_its_ca_or_its_own_certificate() {
    let (address, _) = tls_server(&["h2"], 1).await;
    for (root, is_trusted) in [(CA, true), (CERTIFICATE, true), (OTHER_CA, false)] {
        let listed = list_nodes(&connect_trusting(address, root).await).await;
        assert_eq!(listed.is_ok(), is_trusted, "{root}: {listed:?}");
        let said = listed.err().map(|failure| failure.to_string());
        assert!(said.is_none_or(|said| said.contains("no CA that is given has signed")));
    }
}

#[tokio::test]
async fn many_evictions_share_one_connection_where_the_server_has_http_2() {
    const EVICTIONS: usize = 16;
    for (protocols, expected) in [(&["h2", "http/1.1"][..], 1), (&["http/1.1"][..], EVICTIONS)] {
        let (address, connections) = tls_server(protocols, EVICTIONS).await;
        let cluster = connect_by_tls(address).await;
        list_nodes(&cluster).await.unwrap();
        let pod = PodId { namespace: "default".into(), name: "a".into(), uid: "u".into() };
        let answers = soon(join_all((0..EVICTIONS).map(|_| would_evict(&cluster, &pod, None)))).await;
        assert!(answers.iter().all(|answer| *answer == Answer::Accepted), "{protocols:?}: {answers:?}");
        assert_eq!(connections.load(Ordering::Relaxed), expected, "{protocols:?}");
    }
}

/// A TLS server with HTTP/2 in front of this one, with so many streams on one connection at a time; counts connections.
async fn front(backend: &str, streams: u32) -> (SocketAddr, Arc<AtomicUsize>) {
    let backend = backend.to_owned();
    let way = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http::<Incoming>();
    let serve = move |stream: TlsStream<TcpStream>| {
        let (backend, way) = (backend.clone(), way.clone());
        async move {
            let pass = service_fn(move |request: Request<Incoming>| {
                let (mut head, body) = request.into_parts();
                let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
                head.uri = format!("{backend}{path}").parse().unwrap();
                head.version = http::Version::HTTP_11;
                way.request(Request::from_parts(head, body))
            });
            let mut server = auto::Builder::new(TokioExecutor::new());
            server.http2().max_concurrent_streams(streams);
            server.serve_connection(TokioIo::new(stream), pass).await.ok();
        }
    };
    serve_by_tls(&["h2"], serve).await
}

/// There are more watches than kube-apiserver's 100 streams on one connection: with one connection every call would wait
/// for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_nodes_with_volumes_are_drained_at_a_time_over_http_2() {
    const NODES: usize = 60;
    let fake = FakeCluster::start_with(Settings::quick()).unwrap();
    for number in 0..NODES {
        let node = format!("n{number}");
        fake.node(&node).unwrap();
        pod_with_volume_on(&fake, &format!("db-{number}"), &node);
    }
    let (address, connections) = front(&fake.server_url(), 100).await;
    let cluster = connect_by_tls(address).await;
    let policy = drain::Policy {
        force: true,
        settle: std::time::Duration::from_millis(10),
        ..drain::Policy::device()
    };
    let drainer = crate::Drainer::new(cluster, policy);
    let drains = (0..NODES).map(|number| drainer.drain(&format!("n{number}")).outcome());
    let outcomes = soon(join_all(drains)).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(drain::Outcome::Drained)), "{outcomes:?}");
    // A few connections; more if a handshake takes longer than other requests wait for it. There are over 120 watches: two
    // for each node, and three that all drains share.
    let opened = connections.load(Ordering::Relaxed);
    assert!((2..5 * NODES).contains(&opened), "{opened} connections");
}

/// However few streams a server allows, watches that wait for a stream delay no call.
#[tokio::test]
async fn a_call_never_waits_for_watches() {
    let (fake, _) = still_cluster();
    let (address, connections) = front(&fake.server_url(), 10).await;
    let cluster = connect_by_tls(address).await;
    let feeds: Vec<_> = (0..10).map(|_| crate::Informer::start(&cluster, "edge-a")).collect();
    // Ten streams are taken by watches, and twenty watches wait for one.
    soon(async {
        while fake.requests().count("ebb/", "watch", "*") < 10 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    let nodes = soon(join_all((0..40).map(|_| list_nodes(&cluster)))).await;
    assert!(nodes.iter().all(Result::is_ok), "{nodes:?}");
    assert_eq!(connections.load(Ordering::Relaxed), 2, "one for watches, one for calls");
    drop(feeds);
}

#[tokio::test]
async fn an_overloaded_server_says_when_watches_come_back() {
    let (fake, cluster) = still_cluster();
    let busy = fake_cluster::Reply::text(429, "busy").header("retry-after", "40");
    fake.faults().add(fake_cluster::Fault::on("list", "nodes", fake_cluster::Effect::Answer(busy)));
    assert!(list_nodes(&cluster).await.is_err());
    let left = cluster.pace().left(crate::clock::boot_time()).as_secs();
    assert!((30..=40).contains(&left), "{left}");
}
