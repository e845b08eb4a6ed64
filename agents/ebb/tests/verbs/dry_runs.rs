//! `ebb drain --dry-run`: one pass, the truth, and no change.

use anyhow::Result;
use serde_json::{Value, json};

use crate::site::{Site, owned_pod, put};

/// Two pods that go, one that a budget holds on edge-b, one in a namespace that ends.
fn site() -> Result<Site> {
    let site = Site::passive()?;
    site.pod("web-1", "edge-a")?;
    site.pod("web-0", "edge-a")?;
    site.guarded_pod("db-0", "edge-b")?;
    Ok(site)
}

#[tokio::test]
async fn a_client_dry_run_says_what_would_be_evicted() -> Result<()> {
    let site = site()?;
    site.cordon("edge-b", "")?;
    let said = site.ebb("drain edge-a edge-b --dry-run=client").await?;
    let expected = "node/edge-a cordoned (dry run)\n\
                    node/edge-b already cordoned (dry run)\n\
                    evicting pod shop/web-0 (dry run)\n\
                    evicting pod shop/web-1 (dry run)\n\
                    node/edge-a drained (dry run)\n\
                    evicting pod shop/db-0 (dry run)\n\
                    node/edge-b drained (dry run)\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, expected, ""));
    let bare = site.ebb("drain edge-a edge-b --dry-run").await?;
    assert_eq!((bare.code, bare.out.as_str()), (0, expected));
    let warning = "Warning: --dry-run is deprecated and can be replaced with --dry-run=client.\n";
    assert_eq!(bare.err, warning);
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_client_dry_run_needs_no_right_to_see_budgets() -> Result<()> {
    let site = site()?;
    site.forbid("list", "poddisruptionbudgets");
    assert_eq!(site.ebb("drain edge-a --dry-run=client").await?.code, 0);
    let said = site.ebb("drain edge-a --dry-run=server").await?;
    assert!(
        said.code == 1 && said.err.contains("needs the right to `list` `poddisruptionbudgets`"),
        "{said:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_dry_run_ends_although_a_budget_blocks() -> Result<()> {
    let site = site()?;
    let said = site.ebb("drain edge-a edge-b --dry-run=server").await?;
    let out = "node/edge-a cordoned (server dry run)\n\
               node/edge-b cordoned (server dry run)\n\
               evicting pod shop/web-0 (server dry run)\n\
               evicting pod shop/web-1 (server dry run)\n\
               node/edge-a drained (server dry run)\n\
               evicting pod shop/db-0 (server dry run)\n";
    let cause = "PodDisruptionBudget: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget db-0 needs 1 healthy pods and has 1 currently";
    let err = format!(
        "error when evicting pods shop/db-0 (will retry after 5s): {cause}\n\
         \x20 hint: budget shop/db-0 never allows a disruption: scale ReplicaSet/db-0, or the Deployment that made it, up to 2, or change the budget: \
         kubectl -n shop edit pdb db-0\n\
         error: unable to drain node \"edge-b\" due to error: these pods would not be evicted now: shop/db-0, continuing \
         command...\n\
         There are pending nodes to be drained:\n edge-b\n\
         node/edge-b would fail: 1 budget\n"
    );
    assert_eq!((said.code, said.out.as_str(), said.err), (1, out, err));
    assert_eq!(site.changes(), [""; 0]);
    assert!(!site.is_cordoned("edge-a") && !site.is_cordoned("edge-b"));
    let by_deletion = site.ebb("drain edge-b --dry-run=server --disable-eviction").await?;
    assert_eq!(by_deletion.code, 0, "{by_deletion:?}");
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn the_document_of_a_dry_run() -> Result<()> {
    let site = site()?;
    let mut job = owned_pod("job", "edge-b");
    put(&mut job, "/metadata", "labels", json!({"ebb.dev/drain": "wait-completed"}));
    site.cluster.apply(job)?;
    for (mode, outcome, stage, code) in
        [("client", "WouldDrain", Value::Null, 0), ("server", "WouldFail", json!("Blocked"), 1)]
    {
        let said = site.ebb(&format!("drain edge-b -o json --dry-run={mode}")).await?;
        let document: Value = serde_json::from_str(&said.out)?;
        assert_eq!((said.code, &document[0]["outcome"]), (code, &json!(outcome)), "{said:?}");
        assert_eq!(document[0]["pods"][0]["stage"], stage, "{said:?}");
        assert_eq!(document[0]["pods"][1]["verdict"], "Await", "{said:?}");
        assert!(said.err.contains("waiting for pod shop/job to finish by itself"), "{said:?}");
    }
    Ok(())
}
