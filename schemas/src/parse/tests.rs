use proptest::prelude::*;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MAX_BYTES, parse};
use crate::{
    ConfigItemValueMap, DeviceOpsCmd, DrainRequester, DrainStatus, EdgeNodeClusterConfig, Member,
    NodeAgentStatus, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, Topic, to_bytes,
};

/// Checks that `text` is read as the value whose plain text is `same`.
#[track_caller]
fn check<T: Topic>(text: &str, same: &str) {
    let value = parse::<T>(text.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(to_bytes(&value)).unwrap(), same);
}

#[track_caller]
fn check_refused<T: Topic>(text: &str, expected: &str) {
    assert_eq!(parse::<T>(text.as_bytes()).unwrap_err().to_string(), expected);
}

#[test]
fn names_match_in_any_letter_case() {
    check::<NodeDrainStatus>(r#"{"status":5,"REQUESTEDBY":2}"#, r#"{"Status":5,"RequestedBy":2}"#);
    let report =
        parse::<NodeDrainReport>(br#"{"requests":[{"ANSWER":9}],"slot":{"held":true},"MEMBER":"no"}"#);
    let report = report.unwrap();
    assert_eq!(report.requests[0].answer, DrainStatus::Complete);
    assert!(report.slot.held);
    assert_eq!(report.member, Member::No);
}

#[test]
fn unknown_missing_and_null_fields_are_as_in_go() {
    check::<NodeDrainStatus>(r#"{"Status":5,"Extra":{"Deep":[1]}}"#, r#"{"Status":5,"RequestedBy":0}"#);
    check::<NodeDrainStatus>("{}", r#"{"Status":0,"RequestedBy":0}"#);
    check::<NodeDrainStatus>(r#"{"Status":null,"RequestedBy":null}"#, r#"{"Status":0,"RequestedBy":0}"#);
    check::<NodeDrainRequest>(
        r#"{"RequestedAt":null,"Context":null}"#,
        r#"{"RequestedAt":"0001-01-01T00:00:00Z","RequestedBy":0,"Context":""}"#,
    );
    check::<DeviceOpsCmd>(
        r#"{"Counter":0,"DesiredState":null,"OpsTime":null}"#,
        r#"{"Counter":0,"DesiredState":false,"OpsTime":""}"#,
    );
}

/// Without this rule the missing counter would be 0, and on a device whose recorded counter is 1 that is a new command.
#[test]
fn a_command_without_a_counter_is_refused_by_name() {
    for text in [r#"{"DesiredState":true}"#, r#"{"Counter":null,"DesiredState":true}"#, "{}"] {
        check_refused::<DeviceOpsCmd>(
            text,
            "cannot read DeviceOpsCmd: there is no Counter; accepted: an object with the field Counter",
        );
    }
}

#[test]
fn null_inside_lists_and_maps_is_the_zero_value() {
    let report =
        parse::<NodeDrainReport>(br#"{"Requests":[null],"Attempts":null,"Slot":{"Holders":[null,"b"]}}"#);
    let report = report.unwrap();
    assert_eq!(report.requests, [crate::RequestLine::default()]);
    assert_eq!(report.slot.holders, ["", "b"]);
    let settings =
        parse::<ConfigItemValueMap>(br#"{"GlobalSettings":{"a":null},"AgentSettings":{"b":null}}"#).unwrap();
    assert_eq!(settings.global_settings["a"], crate::ConfigItemValue::default());
    assert!(settings.agent_settings["b"].is_empty());
}

#[test]
fn the_last_of_repeated_fields_counts() {
    check::<NodeDrainStatus>(r#"{"Status":5,"Status":6}"#, r#"{"Status":6,"RequestedBy":0}"#);
    check::<NodeDrainStatus>(r#"{"status":5,"STATUS":6,"status":7}"#, r#"{"Status":7,"RequestedBy":0}"#);
    check::<NodeDrainStatus>(r#"{"Status":5,"status":null}"#, r#"{"Status":5,"RequestedBy":0}"#);
    check::<NodeDrainStatus>(r#"{"Status":5,"Status":null}"#, r#"{"Status":5,"RequestedBy":0}"#);
    check::<NodeDrainStatus>(r#"{"Status":10,"status":6}"#, r#"{"Status":6,"RequestedBy":0}"#);
}

#[test]
fn keys_of_maps_are_left_alone() {
    let text = r#"{"globalsettings":{"Key":{"KEY":"x"},"key":{"IntValue":1},"KEY":{"IntValue":2}}}"#;
    let settings = parse::<ConfigItemValueMap>(text.as_bytes()).unwrap().global_settings;
    assert_eq!(settings.keys().collect::<Vec<_>>(), ["KEY", "Key", "key"]);
    assert_eq!(settings["Key"].key, "x");
    assert_eq!((settings["key"].int_value, settings["KEY"].int_value), (1, 2));
}

#[test]
fn white_space_around_is_accepted() {
    check::<NodeDrainStatus>(
        "\t{ \"Status\" : 9 ,\r\n\"RequestedBy\":3 }\n\n",
        r#"{"Status":9,"RequestedBy":3}"#,
    );
}

#[test]
fn nil_and_empty_lists_stay_apart() {
    let nil = parse::<EdgeNodeClusterConfig>(br#"{"MasterNodeIDs":null}"#).unwrap();
    let empty = parse::<EdgeNodeClusterConfig>(br#"{"MasterNodeIDs":[]}"#).unwrap();
    assert_eq!((nil.master_node_ids, empty.master_node_ids), (None, Some(Vec::new())));
}

#[test]
fn texts_that_are_no_item_are_refused() {
    let check = check_refused::<NodeDrainStatus>;
    check("", "cannot read NodeDrainStatus: the text is empty; accepted: a JSON object");
    check(" \n", "cannot read NodeDrainStatus: the text is empty; accepted: a JSON object");
    check(
        r#"{"Status":5,"Requ"#,
        "cannot read NodeDrainStatus: not JSON: EOF while parsing a string at line 1 column 17; accepted: a JSON object",
    );
    check(
        r#"{"Status":5}{"Status":5}"#,
        "cannot read NodeDrainStatus: not JSON: trailing characters at line 1 column 13; accepted: a JSON object",
    );
    check("null", "cannot read NodeDrainStatus: the text is null; accepted: a JSON object");
    check("[5,2]", "cannot read NodeDrainStatus: the text is a list; accepted: a JSON object");
    check(
        &" ".repeat(MAX_BYTES + 1),
        "cannot read NodeDrainStatus: 1048577 bytes; accepted: at most 1048576 bytes",
    );
}

/// Checks that `text` is refused because of `field`.
#[track_caller]
fn check_field<T: Topic>(text: &str, field: &str, found: &str, accepted: &str) {
    let error = parse::<T>(text.as_bytes()).unwrap_err();
    assert_eq!((error.field(), error.found.as_str(), error.accepted()), (Some(field), found, accepted));
    let topic = T::NAME;
    assert_eq!(
        error.to_string(),
        format!("cannot read {topic}: field `{field}`: {found}; accepted: {accepted}")
    );
}

const STATUSES: &str = "0 UNKNOWN, 1 NOTSUPPORTED, 2 NOTREQUESTED, 3 REQUESTED, 4 STARTING, 5 CORDONED, \
                        6 FAILEDCORDON, 7 DRAINRETRYING, 8 FAILEDDRAIN, 9 COMPLETE";

#[test]
fn numbers_out_of_range_are_named_with_what_is_accepted() {
    for number in ["10", "300", "-1"] {
        let text = format!(r#"{{"status":{number}}}"#);
        check_field::<NodeDrainStatus>(&text, "Status", &format!("{number} is out of range"), STATUSES);
    }
    let requesters = "0 unset, 1 NONE, 2 DEVICEOP, 3 UPDATE";
    check_field::<NodeDrainRequest>(r#"{"RequestedBy":4}"#, "RequestedBy", "4 is out of range", requesters);
    let counters = "a whole number from 0 to 4294967295";
    check_field::<DeviceOpsCmd>(r#"{"Counter":4294967296}"#, "Counter", "integer `4294967296`", counters);
    check_field::<DeviceOpsCmd>(r#"{"Counter":-1}"#, "Counter", "integer `-1`", counters);
    check_field::<DeviceOpsCmd>(r#"{"Counter":2.0}"#, "Counter", "floating point `2.0`", counters);
}

#[test]
fn values_of_the_wrong_type_are_named_with_what_is_accepted() {
    let statuses = format!("one of the integers {STATUSES}");
    check_field::<NodeDrainStatus>(r#"{"Status":"5"}"#, "Status", r#"string "5""#, &statuses);
    check_field::<NodeDrainStatus>(r#"{"Status":5.5}"#, "Status", "floating point `5.5`", &statuses);
    check_field::<NodeDrainRequest>(r#"{"Context":7}"#, "Context", "integer `7`", "a string");
    check_field::<DeviceOpsCmd>(
        r#"{"DesiredState":"no"}"#,
        "DesiredState",
        r#"string "no""#,
        "true or false",
    );
    let time = "a time as 2026-08-22T16:10:11.5Z";
    check_field::<NodeAgentStatus>(r#"{"RebootTime":{}}"#, "RebootTime", "map", time);
    check_field::<NodeDrainRequest>(
        r#"{"RequestedAt":"yesterday"}"#,
        "RequestedAt",
        r#""yesterday" is not a time"#,
        "RFC 3339 with at most 9 fraction digits, as 2026-08-22T16:10:11.5Z",
    );
    let members = "yes, no, unknown";
    check_field::<NodeDrainReport>(r#"{"Member":"perhaps"}"#, "Member", r#"string "perhaps""#, members);
    check_field::<NodeDrainReport>(r#"{"Member":1}"#, "Member", "integer `1`", members);
    check_field::<NodeDrainReport>(r#"{"Member":{"yes":1}}"#, "Member.yes", "integer `1`", "nothing");
    check_field::<NodeDrainReport>(r#"{"Slot":[]}"#, "Slot", "sequence", "an object");
    check_field::<NodeDrainReport>(r#"{"Slot":7}"#, "Slot", "integer `7`", "an object");
    check_field::<NodeDrainReport>(r#"{"Pods":{}}"#, "Pods", "map", "a list");
    check_field::<NodeDrainReport>(r#"{"Requests":[[9]]}"#, "Requests[0]", "sequence", "an object");
    check_field::<ConfigItemValueMap>(r#"{"GlobalSettings":[]}"#, "GlobalSettings", "sequence", "an object");
}

#[test]
fn the_path_of_a_bad_field_is_shown() {
    let text = r#"{"requests":[{},{"answer":true}]}"#;
    let statuses = format!("one of the integers {STATUSES}");
    check_field::<NodeDrainReport>(text, "Requests[1].Answer", "boolean `true`", &statuses);
    let text = r#"{"globalsettings":{"a.b":{"intvalue":""}}}"#;
    let numbers = "a whole number from 0 to 4294967295";
    check_field::<ConfigItemValueMap>(text, "GlobalSettings.a.b.IntValue", r#"string """#, numbers);
}

/// Shapes that none of our topics has, but that a record of an agent may have.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Shapes {
    phase: Phase,
    by_name: BTreeMap<Name, u8>,
    pair: Option<(u8, i64)>,
    inner: Name,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
enum Phase {
    #[default]
    Idle,
    Attempt(u32),
    Waiting(u8, u8),
    #[serde(rename_all = "PascalCase")]
    Draining {
        attempt: u32,
        deadline_ms: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
struct Name(String);

impl Topic for Shapes {
    const NAME: &'static str = "Shapes";
}

#[test]
fn enums_with_content_newtypes_and_tuples_survive() {
    for text in [
        r#"{"Phase":"Idle","ByName":{},"Pair":null,"Inner":""}"#,
        r#"{"Phase":{"Attempt":3},"ByName":{"a":1,"b":2},"Pair":[1,-2],"Inner":"x"}"#,
        r#"{"Phase":{"Waiting":[1,2]},"ByName":{},"Pair":null,"Inner":""}"#,
        r#"{"Phase":{"Draining":{"Attempt":3,"DeadlineMs":12345678901}},"ByName":{},"Pair":null,"Inner":""}"#,
    ] {
        check::<Shapes>(text, text);
    }
    check::<Shapes>(
        r#"{"phase":{"Draining":{"Attempt":3,"DeadlineMs":4,"more":null}},"INNER":null}"#,
        r#"{"Phase":{"Draining":{"Attempt":3,"DeadlineMs":4}},"ByName":{},"Pair":null,"Inner":""}"#,
    );
    check_field::<Shapes>(
        r#"{"Phase":{"Attempt":"x"}}"#,
        "Phase.Attempt",
        r#"string "x""#,
        "a whole number from 0 to 4294967295",
    );
    check_field::<Shapes>(r#"{"Phase":{}}"#, "Phase", "map", "Idle, Attempt, Waiting, Draining");
    let two = r#"{"Phase":{"Attempt":1,"Idle":null}}"#;
    check_field::<Shapes>(two, "Phase", "map", "Idle, Attempt, Waiting, Draining");
}

/// Only our own records have such variants; a value that is missing in one must not become a zero.
#[test]
fn content_of_a_variant_is_complete_and_unambiguous() {
    for (content, found, accepted) in [
        (r#"{"Attempt":3}"#, "there is no DeadlineMs", "an object with the field DeadlineMs"),
        (r#"{"Attempt":null,"DeadlineMs":4}"#, "there is no Attempt", "an object with the field Attempt"),
        (r#"{"attempt":3,"DeadlineMs":4}"#, "there is no Attempt", "an object with the field Attempt"),
        (r#"{"Attempt":3,"Attempt":4,"DeadlineMs":5}"#, "duplicate field `Attempt`", "another value"),
        ("null", "there is no Attempt", "an object with the field Attempt"),
        ("[3,4]", "sequence", "an object"),
    ] {
        let text = format!(r#"{{"Phase":{{"Draining":{content}}}}}"#);
        check_field::<Shapes>(&text, "Phase.Draining", found, accepted);
    }
}

#[test]
fn messages_stay_short_and_on_one_line() {
    let long = format!(r#"{{"Member":"{}\n{}"}}"#, "a".repeat(10), "b".repeat(100_000));
    let message = parse::<NodeDrainReport>(long.as_bytes()).unwrap_err().to_string();
    assert!(message.len() < 1000 && !message.contains('\n'), "{} bytes", message.len());
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!(r#"{{"Unknown":{}1{}}}"#, open.repeat(100_000), close.repeat(100_000));
        let reason = parse::<NodeDrainStatus>(deep.as_bytes()).unwrap_err().reason();
        assert!(reason.contains("recursion limit exceeded"), "{reason}");
    }
}

#[test]
fn a_requester_speaks_for_one_folder() {
    assert_eq!(DrainRequester::of_publisher("zedagent"), Some(DrainRequester::DeviceOp));
    assert_eq!(DrainRequester::of_publisher("volumemgr"), None);
}

#[test]
fn the_words_are_eves() {
    let words: Vec<String> = DrainStatus::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "Unknown",
            "Not Supported",
            "Not Requested",
            "Requested",
            "Starting",
            "Cordoned",
            "Failed Cordon",
            "Drain Retrying",
            "Failed Drain",
            "Complete"
        ]
    );
    for (code, status) in (0_u8..).zip(DrainStatus::ALL) {
        assert_eq!((status.code(), DrainStatus::from_code(code)), (code, Some(status)));
    }
    assert_eq!(DrainStatus::from_code(10), None);
    assert_eq!(DrainStatus::DrainRetrying.constant(), "DRAINRETRYING");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(parse::<NodeDrainReport>(&bytes));
    }

    #[test]
    fn no_json_makes_it_panic(text in r#"\{("(Status|requestedBy|Context|RequestedAt)":(null|-?[0-9]{1,20}|"x"|\[\]|\{\}|1e3),){0,4}"Pods":\[(null|\{\}|7)\]\}"#) {
        drop(parse::<NodeDrainReport>(text.as_bytes()));
        drop(parse::<NodeDrainRequest>(text.as_bytes()));
    }

    #[test]
    fn statuses_survive(status in 0_u8..10, requester in 0_u8..4) {
        let text = format!(r#"{{"Status":{status},"RequestedBy":{requester}}}"#);
        let value = parse::<NodeDrainStatus>(text.as_bytes()).unwrap();
        prop_assert_eq!(to_bytes(&value), text.into_bytes());
    }

    #[test]
    fn requests_survive_whatever_the_context(context in ".{0,80}") {
        let request = NodeDrainRequest { context, requested_by: DrainRequester::None, ..NodeDrainRequest::default() };
        prop_assert_eq!(parse::<NodeDrainRequest>(&to_bytes(&request)).unwrap(), request);
    }
}
