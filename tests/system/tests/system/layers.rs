//! Checks which crate may use which other crate, by `cargo metadata`. The table is that of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

/// Crate, the crates of ours it may use, and the outside crates that would break its promise.
const RULES: [(&str, &[&str], &[&str]); 17] = [
    ("text", &[], &["kube", "k8s-openapi", "tokio", "nix"]),
    ("trust", &[], &["kube", "k8s-openapi", "tokio"]),
    ("selector", &[], &["kube", "k8s-openapi", "tokio", "nix"]),
    ("schemas", &["text"], &["kube", "k8s-openapi", "tokio", "notify", "nix"]),
    ("pubsub", &["schemas"], &["kube", "k8s-openapi"]),
    ("drain", &["selector"], &["kube", "tokio", "tracing", "jiff", "nix", "futures"]),
    ("session", &["drain", "schemas"], &["kube", "tokio", "tracing", "jiff", "nix", "futures"]),
    ("cluster", &["drain", "text", "trust"], &["notify"]),
    (
        "runtime",
        &["schemas", "pubsub", "selector", "text", "trust", "drain", "session"],
        &["kube", "k8s-openapi"],
    ),
    (
        "zedkube",
        &["schemas", "pubsub", "drain", "session", "cluster", "runtime", "text"],
        &["kube", "k8s-openapi"],
    ),
    ("device-op", &["schemas", "pubsub", "runtime", "text"], &["kube", "k8s-openapi"]),
    ("nodeagent", &["schemas", "pubsub", "runtime", "text"], &["kube", "k8s-openapi"]),
    ("baseos", &["schemas", "pubsub", "runtime", "text"], &["kube", "k8s-openapi"]),
    ("sentinel", &["schemas", "pubsub", "runtime", "text"], &["kube", "k8s-openapi"]),
    ("kubectl-ebb", &["cluster", "drain", "text", "trust"], &["kube", "k8s-openapi"]),
    ("fake-cluster", &[], &["kube"]),
    ("control-plane", &[], &["kube"]),
];

#[test]
fn every_crate_uses_only_what_it_may() -> Result<()> {
    let uses = dependencies()?;
    let ours: BTreeSet<&str> = uses.keys().map(String::as_str).collect();
    for (name, may, must_not) in RULES {
        let used = uses.get(name).with_context(|| format!("no crate {name}"))?;
        for dependency in used {
            let is_ours = ours.contains(dependency.as_str());
            assert!(!is_ours || may.contains(&dependency.as_str()), "{name} must not use {dependency}");
            assert!(!must_not.contains(&dependency.as_str()), "{name} must not know {dependency}");
        }
    }
    Ok(())
}

/// The normal dependencies of each of our crates; dependencies of tests do not count.
fn dependencies() -> Result<BTreeMap<String, Vec<String>>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let normal = |package: &Value| {
        let all = package["dependencies"].as_array().cloned().unwrap_or_default();
        all.iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| text(&dependency["name"]))
            .collect()
    };
    let packages = metadata["packages"].as_array().context("packages")?;
    Ok(packages.iter().map(|package| (text(&package["name"]), normal(package))).collect())
}
