//! Whatever is wrong from outside: a clear error, exit code 1, and nothing half done.

use anyhow::{Context, Result};
use fake_cluster::{Effect, Fault, Reply};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::site::{Site, program, said};

#[tokio::test]
async fn arguments_that_make_no_sense_change_nothing() -> Result<()> {
    let site = Site::passive()?;
    site.pod("web-0", "edge-a")?;
    for (words, part) in [
        ("drain", "error: USAGE: drain NODE [flags]"),
        (
            "drain edge-a nosuch other",
            "Error from server (NotFound): nodes \"nosuch\" not found, nodes \"other\" not found",
        ),
        ("drain edge-a --nosuch", "error: unexpected argument '--nosuch'"),
        ("drain EDGE_A", "no Node can have this name"),
        ("uncordon edge-a --dry-run=server", "--dry-run=server is not supported here"),
    ] {
        let said = site.ebb(words).await?;
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{words}: {said:?}");
        assert!(said.err.contains(part), "{words}: {said:?}");
    }
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_kubeconfig_that_leads_nowhere_is_named() -> Result<()> {
    let site = Site::passive()?;
    let text = site.cluster.kubeconfig().replace(fake_cluster::TOKEN, "wrong");
    #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
    std::fs::write(site.kubeconfig(), text)?;
    let refused = format!("--kubeconfig={}", site.kubeconfig().display());
    for (words, part) in [
        (&["--kubeconfig=/nosuch"][..], "No such file"),
        (&[refused.as_str()], "does not accept our credentials (401)"),
        (&[], "kubeconfig"),
    ] {
        let said = said(program().args(["drain", "edge-a"]).args(words).output().await?)?;
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{words:?}: {said:?}");
        assert!(said.err.starts_with("error: ") && said.err.contains(part), "{words:?}: {said:?}");
    }
    Ok(())
}

/// All at a time: what is refused for moments only must not end a drain, so some of them take half a minute.
#[tokio::test]
async fn a_missing_right_is_named_and_ends_the_drain() -> Result<()> {
    let cases = [
        ("get", "nodes", "needs the right to `get` `nodes`"),
        ("list", "poddisruptionbudgets", "needs the right to `list` `poddisruptionbudgets`"),
        ("create", "pods/eviction", "needs the right to `create` `pods/eviction`"),
    ];
    let ended = cases.map(|(verb, resource, part)| async move {
        let site = Site::passive()?;
        site.pod("web-0", "edge-a")?;
        site.forbid(verb, resource);
        let said = site.ebb("drain edge-a --uncordon-on-failure").await?;
        assert_eq!(said.code, 1, "{verb} {resource}: {said:?}");
        assert!(said.err.contains(part), "{verb} {resource}: {said:?}");
        assert!(!site.is_cordoned("edge-a"), "{verb} {resource}: {said:?}");
        assert_eq!(site.cluster.pods_on("edge-a").len(), 1, "{verb} {resource}");
        anyhow::Ok(())
    });
    futures::future::try_join_all(ended).await?;
    Ok(())
}

#[tokio::test]
async fn a_right_that_is_refused_for_a_moment_costs_nothing() -> Result<()> {
    for (verb, resource) in [("list", "pods"), ("list", "poddisruptionbudgets"), ("create", "pods/eviction")]
    {
        let site = Site::quick()?;
        site.pod("web-0", "edge-a")?;
        for reply in [Reply::forbidden("edge", verb, resource, "", ""), Reply::text(401, "Unauthorized")] {
            site.cluster.faults().add(Fault::on(verb, resource, Effect::Answer(reply)));
        }
        let said = site.ebb("drain edge-a").await?;
        assert_eq!(said.code, 0, "{verb} {resource}: {said:?}");
    }
    Ok(())
}

/// The time-out is wall time: an outage does not stop it.
#[tokio::test]
async fn a_timeout_holds_while_the_server_is_away() -> Result<()> {
    let site = Site::passive()?;
    site.pod("web-0", "edge-a")?;
    let away = Effect::Answer(Reply::text(503, "not now"));
    site.cluster.faults().add(Fault::on("create", "pods/eviction", away.clone()).always());
    site.cluster.faults().add(Fault::on("get", "nodes", away).after(2).always());
    let said = site.ebb("drain edge-a --timeout 8s").await?;
    assert_eq!(said.code, 1, "{said:?}");
    let meanwhile = "error: the API server does not answer; the drain goes on when it does\n";
    assert!(said.err.contains(meanwhile), "{said:?}");
    assert!(said.err.contains("the API server was away for too long"), "{said:?}");
    Ok(())
}

/// A proxy that is set for downloads must not keep a device from its own cluster.
#[tokio::test]
async fn a_proxy_of_the_environment_is_not_read_whatever_it_says() -> Result<()> {
    let site = Site::quick()?;
    for proxy in ["http://127.0.0.1:1", "corp proxy:8080"] {
        let mut command = crate::site::program();
        command.args(["cordon", "edge-a", "--kubeconfig"]).arg(site.kubeconfig());
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"] {
            command.env(name, proxy);
        }
        let said = site.finish(command.spawn()?).await?;
        assert_eq!(said.code, 0, "{proxy}: {said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_drain_that_sees_nothing_says_why_and_goes_on_when_it_does() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    let reply = Reply::text(503, "not now");
    site.cluster.faults().add(Fault::on("list", "pods", Effect::Answer(reply)).always());
    let mut child = site.start("drain edge-a")?;
    let mut err = BufReader::new(child.stderr.take().context("no stderr")?).lines();
    let line = err.next_line().await?.unwrap_or_default();
    let expected = "node \"edge-a\" cannot be watched yet (will retry): cannot list pods: not now (503)";
    assert!(line.starts_with(expected), "{line}");
    site.cluster.faults().clear();
    let said = site.finish(child).await?;
    assert_eq!(said.code, 0, "{said:?}");
    Ok(())
}

/// A server before Kubernetes 1.21.
#[tokio::test]
async fn a_server_without_budgets_of_policy_v1_is_named_at_once() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    site.cluster.faults().unserve("poddisruptionbudgets");
    let mut child = site.start("drain edge-a")?;
    let mut err = BufReader::new(child.stderr.take().context("no stderr")?).lines();
    let line = err.next_line().await?.unwrap_or_default();
    let expected = "node \"edge-a\" cannot be watched yet (will retry): cannot list poddisruptionbudgets: ";
    assert!(line.starts_with(expected), "{line}");
    assert_eq!(site.stop(child, Signal::SIGINT).await?.code, 130);
    Ok(())
}

/// In such a namespace an eviction is always refused, so that the pod has to be deleted.
#[tokio::test]
async fn without_the_right_to_delete_a_pod_of_a_namespace_that_ends_is_named() -> Result<()> {
    let site = Site::passive()?;
    site.pod("web-0", "edge-a")?;
    let ends = json!({
        "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "pods \"web-0\" is forbidden: unable to create new content in namespace shop because it is being \
                    terminated",
        "details": {"name": "web-0", "kind": "pods", "causes": [{"reason": "NamespaceTerminating"}]},
    });
    let refused = Effect::Answer(Reply::json(403, &ends));
    site.cluster.faults().add(Fault::on("create", "pods/eviction", refused).always());
    let denied = Effect::Answer(Reply::forbidden("edge", "delete", "pods", "shop", "web-0"));
    site.cluster.faults().add(Fault::on("delete", "pods", denied).always());
    let mut child = site.start("drain edge-a --retry 100ms")?;
    let mut err = BufReader::new(child.stderr.take().context("no stderr")?).lines();
    let mut said = Vec::new();
    let names_it = |line: &String| line.contains("shop/web-0") && line.contains("cannot delete");
    while !said.last().is_some_and(names_it) {
        said.push(err.next_line().await?.with_context(|| format!("it never said so: {said:?}"))?);
    }
    assert_eq!(site.stop(child, Signal::SIGINT).await?.code, 130);
    Ok(())
}

#[tokio::test]
async fn a_limit_for_requests_is_taken_with_a_warning() -> Result<()> {
    let warning =
        "Warning: --request-timeout does not count: each call has its own limit, 10 s, an eviction 35 s";
    for (flag, is_warned) in [("--request-timeout=30s", true), ("--request-timeout=0", false)] {
        let site = Site::quick()?;
        let said = site.ebb(&format!("drain edge-a {flag}")).await?;
        assert_eq!((said.code, said.err.contains(warning)), (0, is_warned), "{flag}: {said:?}");
    }
    Ok(())
}

/// The watches are fine: only the list that would prove that the node is drained fails.
#[tokio::test]
async fn a_list_that_fails_is_not_said_to_be_a_watch() -> Result<()> {
    let site = Site::quick()?;
    site.guarded_pod("db-0", "edge-a")?;
    let mut child = site.start("drain edge-a --retry 100ms")?;
    let mut err = BufReader::new(child.stderr.take().context("no stderr")?).lines();
    site.until_tried(1).await?;
    let reply = Reply::text(503, "not now");
    site.cluster.faults().add(Fault::on("list", "pods", Effect::Answer(reply)).always());
    site.cluster.delete("pods", "shop", "db-0");
    let expected = "the drain of node \"edge-a\" waits: a relist of the node gave no usable result, and is tried \
                    again: cannot list pods: not now (503)";
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.starts_with(expected)) {
        said.push(err.next_line().await?.with_context(|| format!("it never said so: {said:?}"))?);
        assert!(said.iter().all(|line| !line.contains("cannot be watched")), "{said:?}");
    }
    site.cluster.faults().clear();
    let said = site.finish(child).await?;
    assert_eq!(said.code, 0, "{said:?}");
    Ok(())
}
