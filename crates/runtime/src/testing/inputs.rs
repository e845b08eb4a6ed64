//! Bad contents of the files that several agents read: wrong types, and numbers out of range.

/// Paths and bad contents of the files that the gate depends on: two of zedkube, and EVE's about the cluster.
pub const GATE_INPUTS: [(&str, &[&str]); 3] = [
    (
        "run/zedkube/NodeDrainReport/global.json",
        &[
            r#"{"Requests":7}"#,
            r#"{"Requests":[{"Answer":10}]}"#,
            r#"{"Requests":[{"Answer":9,"RequestedAt":"yesterday"}]}"#,
            r#"{"Member":"no","Pods":{}}"#,
            r#"{"Disabled":true}"#,
            r#"{"Override":{"RequestedBy":4}}"#,
        ],
    ),
    (
        "run/zedkube/NodeDrainStatus/global.json",
        &[r#"{"Status":10,"RequestedBy":2}"#, r#"{"Status":"9"}"#, r#"{"Status":9,"RequestedBy":4}"#],
    ),
    (
        "run/zedagent/EdgeNodeClusterConfig/global.json",
        &[r#"{"Initialized":1}"#, r#"{"Initialized":true,"Valid":"no"}"#, r#"{"ClusterType":256}"#],
    ),
];

/// Path of nodeagent's progress.
pub const DEVICE_ACTION: &str = "run/nodeagent/DeviceAction/global.json";

/// Bad contents of nodeagent's progress.
pub const WRONG_ACTIONS: [&str; 4] = [
    r#"{"State":"Sleeping"}"#,
    r#"{"State":3}"#,
    r#"{"State":"Acting","Command":"explode"}"#,
    r#"{"State":"Acting","Command":"reboot","Counter":-2}"#,
];

/// Bad contents of an agent's own request: none of them is the request that was made.
pub const WRONG_REQUESTS: [&str; 5] = [
    r#"{"RequestedBy":2}"#,
    r#"{"RequestedBy":4}"#,
    r#"{"RequestedAt":7}"#,
    r#"{"RequestedAt":"2026-08-22T16:10:11Z","RequestedBy":1}"#,
    r#"{"RequestedAt":"2026-08-22T16:10:11Z","RequestedBy":"2"}"#,
];
