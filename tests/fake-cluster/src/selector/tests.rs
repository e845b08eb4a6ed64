use std::collections::BTreeMap;

use serde_json::json;

use super::{Fields, Labels, Selection};
use crate::resources::{NODES, PODS};

#[test]
fn label_selectors_select() {
    let labels = BTreeMap::from([("app", "web"), ("tier", "front"), ("size", "7"), ("example.com/role", "")]);
    for (selector, selects) in [
        ("! other", true),
        ("app = web", true),
        ("app=", false),
        ("example.com/role=", true),
        ("app in ( db , web )", true),
        ("app in ()", false),
        ("other in ()", false),
        ("size>6", true),
        ("size>7", false),
        ("size<8", true),
        ("app>1", false),
        ("other<1", false),
        ("app in (web,db),tier,!other", true),
        (",app,", true),
    ] {
        let parsed = Labels::parse(selector).unwrap_or_else(|problem| panic!("{selector}: {problem}"));
        assert_eq!(parsed.matches(&labels), selects, "{selector}");
    }
}

#[test]
fn label_selectors_that_cannot_be_read() {
    for selector in [
        "app in web",
        "app in (web",
        "app of (web)",
        "(web)",
        "=web",
        "app>x",
        "a b",
        "app=we b",
        "app=(",
        "!",
        "a=b=c",
    ] {
        assert!(Labels::parse(selector).is_err(), "{selector}");
    }
    for (selector, found) in [("app notin web,tier", "web"), ("app in x (y)", "x"), ("app in", "")] {
        let problem = format!("unable to parse requirement: found '{found}' expected: '('");
        assert_eq!(Labels::parse(selector), Err(problem), "{selector}");
    }
}

#[test]
fn label_selector_objects_select() {
    let labels = BTreeMap::from([("app", "web"), ("size", "7")]);
    let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
    for (selector, expected) in [
        (json!({"matchLabels": {"app": "web", "size": "8"}}), Ok(false)),
        (expression("Exists", &[]), Ok(true)),
        (expression("DoesNotExist", &[]), Ok(false)),
        (json!({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["6"]}]}), Ok(true)),
        (json!({"matchExpressions": [{"key": "size", "operator": "Lt", "values": ["6"]}]}), Ok(false)),
        (
            json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
            Ok(false),
        ),
        (expression("In", &[]), Err(())),
        (expression("Exists", &["web"]), Err(())),
        (expression("Like", &["web"]), Err(())),
        (expression("Gt", &["x"]), Err(())),
    ] {
        let selects = Labels::from_object(&selector).map(|parsed| parsed.matches(&labels)).map_err(drop);
        assert_eq!(selects, expected, "{selector}");
    }
}

#[test]
fn field_selectors_know_truth_and_commas() {
    let host = Fields::parse(PODS, "spec.hostNetwork=true").expect("pods offer it");
    assert!(host.matches(&json!({"spec": {"hostNetwork": true}})));
    assert!(!host.matches(&json!({"spec": {}})));
    let plain = Fields::parse(NODES, "spec.unschedulable=false").expect("nodes offer it");
    assert!(plain.matches(&json!({"spec": {}})));
    assert!(!plain.matches(&json!({"spec": {"unschedulable": true}})));
    let escaped = Fields::parse(PODS, r"metadata.name=a\,b\\").expect("an escaped comma");
    assert!(escaped.matches(&json!({"metadata": {"name": "a,b\\"}})));
    assert!(!escaped.matches(&json!({"metadata": {"name": "a"}})));
}

#[test]
fn a_selection_joins_all() {
    let pod = json!({"metadata": {"name": "a", "namespace": "facts", "labels": {"app": "web"}}});
    let select = |namespace: Option<&str>, name, labels| Selection {
        namespace: namespace.map(str::to_owned),
        fields: Fields::named(name),
        labels: Labels::parse(labels).expect("a selector"),
    };
    assert!(select(None, "a", "").matches(&pod));
    assert!(select(Some("facts"), "a", "app=web").matches(&pod));
    assert!(!select(Some("other"), "a", "").matches(&pod));
    assert!(!select(None, "b", "").matches(&pod));
    assert!(!select(None, "a", "app=db").matches(&pod));
}
