use serde_json::{Value, json};

use super::*;

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn claims() {
    let view = |name: &str, owner: Option<&str>, volume: &str| ClaimView {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        owner: owner.map(str::to_owned),
        volume: volume.to_owned(),
    };
    let claim = |more: Value| {
        let mut claim = json!({"metadata": {"namespace": "shop", "name": "data"}});
        claim.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claim
    };
    let owned = json!({"namespace": "shop", "name": "data", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u1"},
        {"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "u2", "controller": true},
    ]});
    let cases = [
        (json!({}), ClaimView::default()),
        (json!({"metadata": null, "spec": null, "status": null}), ClaimView::default()),
        (claim(json!({"spec": {"volumeName": null}})), view("data", None, "")),
        (
            claim(json!({"metadata": owned, "spec": {"volumeName": "vol-1"}})),
            view("data", Some("u2"), "vol-1"),
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(claim_view(&read(&value)), expected, "{value}");
    }
}

#[test]
fn volumes() {
    let csi = |driver: &str, handle: &str| Some(CsiSource { driver: driver.into(), handle: handle.into() });
    let cases = [
        (json!({}), None),
        (json!({"spec": {"csi": null}}), None),
        (json!({"spec": {"csi": {"driver": "a"}}}), None),
        (json!({"spec": {"csi": {"driver": "a", "volumeHandle": "b^c.*"}}}), csi("a", "b^c.*")),
    ];
    for (value, csi) in cases {
        let mut named = value.clone();
        named["metadata"] = json!({"name": "vol-1"});
        assert_eq!(volume_view(&read(&named)), VolumeView { name: "vol-1".into(), csi }, "{value}");
    }
}

#[test]
fn attachments() {
    let view = |volume: Option<&str>, attached, error: &str| AttachmentView {
        name: "csi-1".to_owned(),
        driver: "csi.bench".to_owned(),
        volume: volume.map(str::to_owned),
        node: "edge-a".to_owned(),
        attached,
        detach_error: error.to_owned(),
        ..AttachmentView::default()
    };
    let attachment = |source: Value, status: Value| {
        json!({
            "metadata": {"name": "csi-1"},
            "spec": {"attacher": "csi.bench", "nodeName": "edge-a", "source": source},
            "status": status,
        })
    };
    let volume = json!({"persistentVolumeName": "vol-1"});
    let cases = [
        (json!({}), AttachmentView::default()),
        (json!({"spec": null, "status": null}), AttachmentView::default()),
        (attachment(Value::Null, Value::Null), view(None, false, "")),
        (attachment(json!({"inlineVolumeSpec": {}}), json!({"attached": true})), view(None, true, "")),
        (
            attachment(volume.clone(), json!({"attached": null, "detachError": null})),
            view(Some("vol-1"), false, ""),
        ),
        (
            attachment(
                volume.clone(),
                json!({"attached": true, "detachError": {"message": "device is\nbusy"}}),
            ),
            view(Some("vol-1"), true, "device is busy"),
        ),
        (attachment(volume, json!({"detachError": {"message": null}})), view(Some("vol-1"), false, "")),
    ];
    for (value, expected) in cases {
        assert_eq!(attachment_view(&read(&value)), expected, "{value}");
    }
}

#[test]
fn drivers() {
    let cases = [
        (json!({}), false),
        (json!({"spec": {"attachRequired": null}}), false),
        (json!({"spec": {"attachRequired": true}}), false),
        (json!({"spec": {"attachRequired": false}}), true),
    ];
    for (value, expected) in cases {
        assert_eq!(never_attaches(&read(&value)), expected, "{value}");
    }
}
