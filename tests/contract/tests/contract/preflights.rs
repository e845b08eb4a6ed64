//! The preflight: everything that a drain needs is tried out.

use anyhow::Result;
use cluster::identity::Identity;
use cluster::preflight::{Check, Found, preflight};
use cluster::slots::SlotMap;
use contract::{Place, Target};

fn ours(place: &Place<'_>) -> (Identity, SlotMap) {
    let map = SlotMap::new(place.namespace.as_str(), "default");
    (Identity { node_name: Some(place.node.clone()), ..Identity::default() }, map)
}

fn text_of(found: &Found, what: Check) -> &str {
    found.problems.iter().find(|problem| problem.what == what).map_or("", |problem| problem.text.as_str())
}

/// An administrator is not confined; everything else is in order.
pub(crate) async fn an_administrator_is_told_that_nodes_are_not_confined(target: &Target) -> Result<()> {
    let place = Place::new(target, "preflight").await?;
    place.add_node("b").await?;
    let (identity, lease) = ours(&place);
    let before = place.caller().get(&place.node_path()).await?.object()?;
    let found = preflight(place.caller().cluster(), &identity, Some(&lease)).await;
    let whats: Vec<Check> = found.problems.iter().map(|problem| problem.what).collect();
    assert_eq!(whats, [Check::Confinement], "{found:?}");
    assert!(
        text_of(&found, Check::Confinement).starts_with("this cluster does not confine nodes"),
        "{found:?}"
    );
    let after = place.caller().get(&place.node_path()).await?.object()?;
    assert_eq!(after["spec"], before["spec"], "nothing is changed");
    assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"]);
    Ok(())
}

pub(crate) async fn a_missing_right_is_found_before_it_is_needed(target: &Target) -> Result<()> {
    let place = Place::new(target, "preflight-right").await?;
    place.add_node("b").await?;
    let (identity, lease) = ours(&place);
    let client = target.client_without(&place.namespace, "patch", "nodes").await?;
    let found = preflight(client.cluster(), &identity, Some(&lease)).await;
    let text = text_of(&found, Check::Rights);
    // The fake refuses the patch and does not know access reviews.
    let part = match target.as_fake() {
        Some(_) => "a cordon of our own node would be refused".to_owned(),
        None => format!("patch nodes {}", place.node),
    };
    assert!(text.contains(&part), "{found:?}");
    // This user cannot write nodes, but it can write the slots.
    let text = text_of(&found, Check::Confinement);
    assert!(text.starts_with("this cluster does not confine the slots"), "{found:?}");
    Ok(())
}
