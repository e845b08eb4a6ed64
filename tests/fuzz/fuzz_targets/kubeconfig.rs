//! A kubeconfig that anybody has written: it is used, or refused with a text of one line that contains none of its
//! secrets. Of a text that is no kubeconfig nothing is quoted, so the corpus has the word [`MARK`] in such texts.
#![no_main]

use std::fs;
use std::path::Path;

use cluster::connect;
use cluster::kubeconfig::Search;
use kube::config::Kubeconfig;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const MARK: &str = "s3cr3t-t0k3n";

/// Shorter texts may be part of any sentence.
const SHORTEST: usize = 8;

/// Adds all texts of a value.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(entries) => entries.values().for_each(|entry| texts(entry, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The secrets of the users that are nothing else in this kubeconfig: not a part of a name or a path, which may be
/// quoted.
fn secrets(kubeconfig: &Kubeconfig) -> Vec<String> {
    let mut all = serde_json::to_value(kubeconfig).expect("it can be written");
    let mut secrets = Vec::new();
    let users = all.get_mut("users").and_then(Value::as_array_mut).into_iter().flatten();
    for user in users.filter_map(|named| named.get_mut("user").and_then(Value::as_object_mut)) {
        for name in ["token", "password", "client-key-data", "auth-provider"] {
            texts(&user.remove(name).unwrap_or_default(), &mut secrets);
        }
    }
    let mut others = Vec::new();
    texts(&all, &mut others);
    secrets.retain(|secret| secret.len() >= SHORTEST && !others.iter().any(|other| other.contains(secret)));
    secrets
}

/// A plugin would be run; a file is not the place for that here.
fn has_plugin(kubeconfig: &Kubeconfig) -> bool {
    kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref()).any(|user| user.exec.is_some())
}

fuzz_target!(|input: &[u8]| {
    let read = std::str::from_utf8(input).ok().and_then(|text| Kubeconfig::from_yaml(text).ok());
    if read.as_ref().is_some_and(has_plugin) {
        return;
    }
    let place = Path::new("/dev/shm");
    let folder = if place.is_dir() { tempfile::tempdir_in(place) } else { tempfile::tempdir() };
    let folder = folder.expect("a temporary folder");
    let path = folder.path().join("kubeconfig");
    fs::write(&path, input).expect("a file");
    let search = Search { explicit: Some(path), ..Search::default() }.distrusting();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let Err(failure) = runtime.block_on(connect(&search, "")) else {
        assert!(read.is_some(), "no other text can be used");
        return;
    };
    let text = failure.text();
    assert!(failure.is_unreachable() && text.contains("kubeconfig"), "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
    match read {
        Some(kubeconfig) => {
            for secret in secrets(&kubeconfig) {
                assert!(!text.contains(&secret), "{secret:?} is in: {text}");
            }
        }
        None => assert!(!text.contains(MARK), "{text}"),
    }
});
