//! The topics whose types are here, by name: an item of one can be checked before it is written.

use crate::{
    ActionRecord, BaseOsConfig, BaseOsHold, BaseOsStatus, CancelCommand, CommandFreeze, ConfigItemValueMap,
    ContentTreeStatus, DeviceAction, DeviceLine, DeviceOpStatus, DeviceOpsCmd, DrainOverride,
    EdgeNodeClusterConfig, EdgeNodeInfo, KnownHolders, Membership, NodeAgentStatus, NodeDrainReport,
    NodeDrainRequest, NodeDrainStatus, OwnCordon, ParseError, PassGate, Topic, ZedAgentStatus, parse,
    to_bytes,
};

/// Reads an item as its type does, and writes it as its agent would.
pub type Check = fn(&[u8]) -> Result<Vec<u8>, ParseError>;

/// All types that `schemas` exports as topics, in the order of their names.
const KNOWN: [(&str, Check); 24] = [
    known::<ActionRecord>(),
    known::<BaseOsConfig>(),
    known::<BaseOsHold>(),
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
    known::<KnownHolders>(),
    known::<Membership>(),
    known::<NodeAgentStatus>(),
    known::<NodeDrainReport>(),
    known::<NodeDrainRequest>(),
    known::<NodeDrainStatus>(),
    known::<OwnCordon>(),
    known::<PassGate>(),
    known::<ZedAgentStatus>(),
];

/// The check for items of this topic; `None` for a topic that we do not know.
pub fn check_of(topic: &str) -> Option<Check> {
    KNOWN.into_iter().find(|(name, _)| *name == topic).map(|(_, check)| check)
}

const fn known<T: Topic>() -> (&'static str, Check) {
    (T::NAME, rewrite::<T>)
}

fn rewrite<T: Topic>(text: &[u8]) -> Result<Vec<u8>, ParseError> {
    parse::<T>(text).map(|value| to_bytes(&value))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::AnyItem;

    fn files(folder: &str) -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    fn file_name(path: &Path) -> &str {
        path.file_name().unwrap().to_str().unwrap()
    }

    #[test]
    fn every_schema_is_known() {
        let paths = files("json");
        let mut names: Vec<&str> =
            paths.iter().map(|path| file_name(path).trim_end_matches(".schema.json")).collect();
        names.sort_unstable();
        assert_eq!(KNOWN.map(|(name, _)| name).to_vec(), names);
    }

    /// An item that a person publishes is written in the form in which the type's own agent would write it.
    #[test]
    fn samples_keep_their_bytes() {
        for path in files("samples") {
            let name = file_name(&path);
            let topic = name.trim_end_matches(".json").split('-').next().unwrap();
            let text = fs::read(&path).unwrap();
            let written = check_of(topic).unwrap()(&text).unwrap();
            let item: AnyItem = parse(&written).unwrap();
            assert_eq!(String::from_utf8_lossy(&to_bytes(&item)), String::from_utf8_lossy(&text), "{name}");
        }
        assert!(check_of("nodedrainstatus").is_none(), "a topic's name has its own letter case");
    }
}
