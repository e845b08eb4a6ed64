//! Checks the files beside the code: each sample is written back byte for byte, and the JSON Schemas are up to date.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use crate::known::{KNOWN, check_of};
use crate::{AnyItem, parse, to_bytes};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn files(name: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect()
}

/// The topic of a sample file: `NodeDrainRequest-reboot.json` is a sample of `NodeDrainRequest`.
fn topic_of(sample: &str) -> &str {
    sample.trim_end_matches(".json").split('-').next().unwrap()
}

#[test]
fn samples_come_back_byte_for_byte() {
    for (name, bytes) in files("samples") {
        let check = check_of(topic_of(&name)).unwrap_or_else(|| panic!("{name} is of no topic"));
        let written = check(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&bytes), "{name}");
        // `ebb topic` reads and prints each as `AnyItem`, in the same form.
        let item: AnyItem = parse(&written).unwrap();
        assert_eq!(String::from_utf8_lossy(&to_bytes(&item)), String::from_utf8_lossy(&bytes), "{name}");
    }
    assert!(check_of("nodedrainstatus").is_none(), "a topic's name has its own letter case");
}

#[test]
fn every_topic_has_a_sample() {
    let samples = files("samples");
    for topic in KNOWN {
        assert!(samples.keys().any(|name| topic_of(name) == topic.name), "no sample of {}", topic.name);
    }
    assert!(KNOWN.map(|topic| topic.name).is_sorted());
}

#[test]
fn json_schemas_are_fresh() {
    let expected: BTreeMap<String, Vec<u8>> = KNOWN
        .iter()
        .map(|topic| {
            let text = serde_json::to_string_pretty(&(topic.schema)()).unwrap();
            (format!("{}.schema.json", topic.name), format!("{text}\n").into_bytes())
        })
        .collect();
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        for (name, bytes) in &expected {
            File::create(folder("json").join(name)).unwrap().write_all(bytes).unwrap();
        }
    }
    let found = files("json");
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "run the tests with UPDATE_SCHEMAS=1, and remove what is too much"
    );
    for (name, bytes) in expected {
        assert!(found[&name] == bytes, "{name} is stale: run the tests with UPDATE_SCHEMAS=1");
    }
}
