//! The flags that say which cluster is asked, and as whom.

use anyhow::Result;

use crate::site::{Site, program, said};

#[tokio::test]
async fn flags_that_are_empty_are_not_set() -> Result<()> {
    let site = Site::passive()?;
    let mut command = program();
    command.env("KUBECONFIG", site.kubeconfig()).args(["cordon", "edge-a", "--kubeconfig", "", "--context="]);
    let said = said(command.output().await?)?;
    assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a cordoned\n"), "{said:?}");
    Ok(())
}

/// Watches and evictions as well: else a person would see pods as one user and evict them as another.
#[tokio::test]
async fn every_request_says_whom_it_acts_as() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    let said = site
        .ebb("drain Node/edge-a --force --as alice --as-group dev --as-group ops --as-uid u-1 --cluster fake --user admin")
        .await?;
    assert_eq!(said.code, 0, "{said:?}");
    let requests = site.cluster.requests().recent();
    let token = format!("authorization: Bearer {}", fake_cluster::TOKEN);
    let expected = [
        token.as_str(),
        "impersonate-group: dev",
        "impersonate-group: ops",
        "impersonate-uid: u-1",
        "impersonate-user: alice",
    ];
    for request in &requests {
        assert_eq!(request.identity, expected, "{request:?}");
    }
    for (verb, resource) in [("patch", "nodes"), ("watch", "pods"), ("create", "pods/eviction")] {
        let is_sent = requests.iter().any(|request| request.verb == verb && request.resource == resource);
        assert!(is_sent, "{verb} {resource}");
    }
    Ok(())
}
