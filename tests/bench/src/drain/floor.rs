//! The least that a drain can take: the same requests by a client that decides nothing, over the same connections.

use std::collections::BTreeSet;
use std::future::Future;

use anyhow::{Context, Result, bail};
use cluster::connect;
use cluster::kubeconfig::Search;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{EvictParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;

/// Evictions in flight at a time: as many as those of `ebb drain`.
const CONCURRENCY: usize = 16;

/// Cordons the node, evicts its pods, and waits until they are gone and their volumes are detached.
pub(crate) fn run(node: &str) -> Result<String> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(drain(node))?;
    Ok(String::new())
}

async fn drain(node: &str) -> Result<()> {
    let connection = connect(&Search::with_environment(None, Vec::new()), "floor").await?;
    let client = connection.cluster.client().clone();
    let on_node = format!("spec.nodeName={node}");
    let nodes: Api<Node> = Api::all(client.clone());
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes.patch(node, &PatchParams::default(), &cordon).await?;
    let (pods, gone) = follow::<Pod>(&client, node, &on_node, |_, _| true).await?;
    let (_, detached) =
        follow::<VolumeAttachment>(&client, node, "", |one, node| one.spec.node_name == node).await?;
    let (budgets, allows) = budgets(&client).await?;
    // Under a budget one pod leaves after another.
    let at_once = if budgets == 0 { CONCURRENCY } else { 1 };
    let evictions = stream::iter(pods).map(|pod| evict(&client, pod, allows.clone()));
    let evictions = evictions.buffer_unordered(at_once).try_collect::<Vec<()>>();
    tokio::try_join!(evictions, gone, detached)?;
    let left = Api::<Pod>::all(client.clone()).list(&ListParams::default().fields(&on_node)).await?;
    if left.items.is_empty() { Ok(()) } else { bail!("{} pods are left", left.items.len()) }
}

async fn evict(client: &Client, pod: Pod, mut allows: watch::Receiver<u64>) -> Result<()> {
    let namespace = pod.metadata.namespace.unwrap_or_default();
    let name = pod.metadata.name.unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    loop {
        allows.mark_unchanged();
        match pods.evict(&name, &EvictParams::default()).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 429 => allows.changed().await?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Number of budgets, and a number that changes when one of them may allow an eviction.
async fn budgets(client: &Client) -> Result<(usize, watch::Receiver<u64>)> {
    let budgets: Api<PodDisruptionBudget> = Api::all(client.clone());
    let listed = budgets.list(&ListParams::default()).await?;
    let (tell, allows) = watch::channel(0);
    let version = listed.metadata.resource_version.context("a list without a version")?;
    let count = listed.items.len();
    tokio::spawn(async move {
        let Ok(events) = budgets.watch(&WatchParams::default(), &version).await else { return };
        let allowing = events.try_filter(|event| {
            let allows = |budget: &PodDisruptionBudget| {
                budget.status.as_ref().is_some_and(|status| status.disruptions_allowed > 0)
            };
            std::future::ready(matches!(event, WatchEvent::Modified(budget) if allows(budget)))
        });
        let count = |_| {
            tell.send_modify(|number| *number += 1);
            std::future::ready(())
        };
        allowing.for_each(count).await;
    });
    Ok((count, allows))
}

/// The objects that count, and what waits until all of them are gone.
async fn follow<K>(
    client: &Client,
    node: &str,
    fields: &str,
    counts: fn(&K, &str) -> bool,
) -> Result<(Vec<K>, impl Future<Output = Result<()>> + use<K>)>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + 'static,
{
    let api: Api<K> = Api::all(client.clone());
    let listed = api.list(&ListParams::default().fields(fields)).await?;
    let version = listed.metadata.resource_version.context("a list without a version")?;
    let counted: Vec<K> = listed.items.into_iter().filter(|one| counts(one, node)).collect();
    let mut left: BTreeSet<String> = counted.iter().filter_map(|one| one.meta().uid.clone()).collect();
    let fields = fields.to_owned();
    let gone = async move {
        let mut events = api.watch(&WatchParams::default().fields(&fields), &version).await?.boxed();
        while !left.is_empty() {
            let event = events.try_next().await?.context("the watch has ended")?;
            if let WatchEvent::Deleted(one) = event {
                left.remove(one.meta().uid.as_deref().unwrap_or_default());
            }
        }
        Ok(())
    };
    Ok((counted, gone))
}
