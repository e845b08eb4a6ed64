//! Checks the files beside the code: each sample is written back byte for byte, and the JSON Schemas are up to date.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, schema_for};

use crate::{
    ActionRecord, BaseOsConfig, BaseOsHold, BaseOsStatus, CancelCommand, CommandFreeze, ConfigItemValueMap,
    ContentTreeStatus, DeviceAction, DeviceLine, DeviceOpStatus, DeviceOpsCmd, DrainOverride,
    EdgeNodeClusterConfig, EdgeNodeInfo, KnownHolders, Membership, NodeAgentStatus, NodeDrainReport,
    NodeDrainRequest, NodeDrainStatus, OwnCordon, PassGate, Topic, ZedAgentStatus, parse, to_bytes,
};

/// The check of one topic's files.
struct Known {
    rewrite: fn(&[u8]) -> Result<Vec<u8>, String>,
    schema: Schema,
}

fn known<T: Topic + JsonSchema>() -> (&'static str, Known) {
    let rewrite = |bytes: &[u8]| {
        let value = parse::<T>(bytes).map_err(|error| error.to_string())?;
        Ok(to_bytes(&value))
    };
    (T::NAME, Known { rewrite, schema: schema_for!(T) })
}

fn all() -> BTreeMap<&'static str, Known> {
    BTreeMap::from([
        known::<ActionRecord>(),
        known::<BaseOsConfig>(),
        known::<BaseOsHold>(),
        known::<KnownHolders>(),
        known::<Membership>(),
        known::<OwnCordon>(),
        known::<BaseOsStatus>(),
        known::<CancelCommand>(),
        known::<CommandFreeze>(),
        known::<ConfigItemValueMap>(),
        known::<ContentTreeStatus>(),
        known::<DeviceAction>(),
        known::<DeviceLine>(),
        known::<DeviceOpStatus>(),
        known::<DeviceOpsCmd>(),
        known::<DrainOverride>(),
        known::<EdgeNodeClusterConfig>(),
        known::<EdgeNodeInfo>(),
        known::<NodeAgentStatus>(),
        known::<NodeDrainReport>(),
        known::<NodeDrainRequest>(),
        known::<NodeDrainStatus>(),
        known::<PassGate>(),
        known::<ZedAgentStatus>(),
    ])
}

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
    let known = all();
    for (name, bytes) in files("samples") {
        let topic = known.get(topic_of(&name)).unwrap_or_else(|| panic!("{name} is of no topic"));
        let rewritten = (topic.rewrite)(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(String::from_utf8_lossy(&rewritten), String::from_utf8_lossy(&bytes), "{name}");
    }
}

#[test]
fn every_topic_has_a_sample() {
    let samples = files("samples");
    for topic in all().keys() {
        assert!(samples.keys().any(|name| topic_of(name) == *topic), "no sample of {topic}");
    }
}

#[test]
fn json_schemas_are_fresh() {
    let expected: BTreeMap<String, Vec<u8>> = all()
        .into_iter()
        .map(|(topic, known)| {
            let text = serde_json::to_string_pretty(&known.schema).unwrap();
            (format!("{topic}.schema.json"), format!("{text}\n").into_bytes())
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
