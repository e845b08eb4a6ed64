//! The name under which the program was called.

use std::ffi::OsString;
use std::path::Path;

/// Name of the link that makes a program a plugin of kubectl.
const PLUGIN: &str = "kubectl-ebb";

/// Name of the link that kubectl asks what completes the words after `kubectl ebb`.
pub(crate) const PLUGIN_COMPLETE: &str = "kubectl_complete-ebb";

/// True if kubectl has called this program as its plugin.
pub fn is_plugin(arguments: &[OsString]) -> bool {
    matches!(called_as(arguments), Some(PLUGIN | PLUGIN_COMPLETE))
}

/// The name under which the program was called, without its folder.
pub fn called_as(arguments: &[OsString]) -> Option<&str> {
    arguments.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str())
}

/// How this program is called by a person: `kubectl ebb` or `ebb`.
pub(crate) fn program() -> &'static str {
    let name: Vec<OsString> = std::env::args_os().take(1).collect();
    if is_plugin(&name) { "kubectl ebb" } else { "ebb" }
}
