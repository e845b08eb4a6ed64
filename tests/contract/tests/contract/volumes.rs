//! Volumes: the order in which they leave a node and come to another one.

use anyhow::Result;
use contract::{Objects, Place, Said, Target, Watch, objects};
use serde_json::{Value, json};

const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// True if the node lists the volume as attached.
fn is_listed(node: &Value, volume: &str) -> bool {
    node["status"]["volumesAttached"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one["name"] == volume))
}

/// Waits until the claim's volume is attached to the node, by its object and in the node's list. Returns the object.
async fn until_attached(place: &Place<'_>, node: &str) -> Result<Value> {
    let attached = |attachments: &Objects| {
        let mut mine =
            attachments.values().filter(|one| one["spec"]["source"]["persistentVolumeName"] == volume(place));
        mine.find(|one| one["spec"]["nodeName"] == node && one["status"]["attached"] == true).cloned()
    };
    let what = format!("the volume is attached to {node}");
    let attachment = place.caller().until_all(&what, ATTACHMENTS, "", attached).await?;
    let listed = |node: &Value| is_listed(node, &attached_name(place)).then_some(());
    place.caller().until(&format!("{what} and listed"), &format!("/api/v1/nodes/{node}"), listed).await?;
    Ok(attachment)
}

/// The next event about the volume of this place.
async fn next(watch: &mut Watch, volume: &str) -> Result<(String, Value)> {
    loop {
        let (kind, attachment) = watch.change().await?;
        if attachment["spec"]["source"]["persistentVolumeName"] == volume {
            return Ok((kind, attachment));
        }
    }
}

fn volume(place: &Place<'_>) -> String {
    format!("{}-data", place.namespace)
}

/// The driver's name; kwok reads the detach time from it.
fn driver(place: &Place<'_>) -> String {
    format!("detach-10ms.{}.test", place.namespace)
}

fn attached_name(place: &Place<'_>) -> String {
    format!("kubernetes.io/csi/{}^{}", driver(place), volume(place))
}

/// Creates a volume that only one node may have, its claim `data`, and a StatefulSet of one pod that mounts it.
async fn make_stateful_pod(place: &Place<'_>) -> Result<()> {
    let (volume, driver) = (volume(place), driver(place));
    let caller = place.caller();
    let new_driver = json!({"metadata": {"name": driver}, "spec": {"attachRequired": true}});
    caller.post("/apis/storage.k8s.io/v1/csidrivers", &new_driver).await?.object()?;
    make_csi_node(place, &place.node).await?;
    let room = json!({"storage": "1Gi"});
    let spec = json!({
        "capacity": room, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "claimRef": {"namespace": place.namespace, "name": "data"},
        "csi": {"driver": driver, "volumeHandle": volume},
    });
    let new_volume = json!({"metadata": {"name": volume}, "spec": spec});
    caller.post("/api/v1/persistentvolumes", &new_volume).await?.object()?;
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": room},
        "volumeName": volume,
    }});
    place.create("persistentvolumeclaims", &claim).await?;
    let mut set = objects::stateful_set("db", 1, &place.namespace);
    set["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    place.create("statefulsets", &set).await.map(drop)
}

/// Installs the driver on the node.
async fn make_csi_node(place: &Place<'_>, node: &str) -> Result<()> {
    let drivers = json!([{"name": driver(place), "nodeID": node}]);
    let csi_node = json!({"metadata": {"name": node}, "spec": {"drivers": drivers}});
    place.caller().post("/apis/storage.k8s.io/v1/csinodes", &csi_node).await?.object().map(drop)
}

/// The node's list is cleared before the detach is even requested: only the end of the object is the detach.
pub(crate) async fn a_volume_follows_its_pod(target: &Target) -> Result<()> {
    let place = Place::new(target, "volume").await?;
    let (node, volume) = (place.node.as_str(), volume(&place));
    make_stateful_pod(&place).await?;
    let attachment = until_attached(&place, node).await?;
    assert_eq!(attachment["spec"]["attacher"], driver(&place));
    assert!(attachment["metadata"]["finalizers"].is_array(), "held until it is detached");

    let from = place.caller().get(ATTACHMENTS).await?.object()?;
    let from = format!("resourceVersion={}", version(&from));
    let mut attachments = place.caller().watch(ATTACHMENTS, &from).await?;
    let query = format!("fieldSelector=metadata.name={node}&{from}");
    let mut nodes = place.caller().watch("/api/v1/nodes", &query).await?;
    place.cordoned().await?;
    let other = place.add_node("b").await?;
    make_csi_node(&place, &other).await?;
    assert_eq!(place.evict("db-0").await?.said()?, Said::created());

    let unlisted = loop {
        let (_, node) = nodes.change().await?;
        if !is_listed(&node, &attached_name(&place)) {
            break version(&node);
        }
    };
    let (kind, ending) = next(&mut attachments, &volume).await?;
    assert_eq!((kind.as_str(), &ending["status"]["attached"]), ("MODIFIED", &json!(true)));
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    assert!(unlisted < version(&ending), "{unlisted} {ending}");
    let detached = loop {
        let (kind, attachment) = next(&mut attachments, &volume).await?;
        if kind == "DELETED" {
            break version(&attachment);
        }
        assert_eq!((kind.as_str(), &attachment["spec"]["nodeName"]), ("MODIFIED", &json!(node)));
    };
    let again = until_attached(&place, &other).await?;
    assert!(version(&again) > detached);
    assert_ne!(again["metadata"]["name"], attachment["metadata"]["name"]);
    Ok(())
}
