//! Ctrl-C and SIGTERM.

use anyhow::Result;
use fake_cluster::{Effect, Fault};
use nix::sys::signal::Signal;

use crate::site::{Said, Site};

/// Runs a drain that a budget blocks, and sends the signal once it does.
async fn interrupted(site: &Site, flags: &str, signal: Signal) -> Result<Said> {
    let child = site.start(&format!("drain edge-a edge-b {flags}"))?;
    site.until_tried(1).await?;
    site.stop(child, signal).await
}

#[tokio::test]
async fn a_signal_stops_at_once_and_says_what_is_left() -> Result<()> {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 1)] {
        let site = Site::passive()?;
        site.guarded_pod("db-0", "edge-a")?;
        let said = interrupted(&site, "--retry 1h", signal).await?;
        assert_eq!(said.code, code, "{said:?}");
        let head = "interrupted: the drain of node \"edge-a\" has been stopped; 0 of 1 pods are gone, these are left:";
        assert!(said.err.contains(head), "{said:?}");
        assert!(said.err.contains("  shop/db-0: "), "{said:?}");
        assert!(said.err.contains("node/edge-a stays cordoned\nnode/edge-b stays cordoned\n"), "{said:?}");
        assert!(site.is_cordoned("edge-a") && site.is_cordoned("edge-b"));
    }
    Ok(())
}

#[tokio::test]
async fn a_signal_gives_back_the_cordons_of_this_command_if_asked() -> Result<()> {
    let site = Site::passive()?;
    site.guarded_pod("db-0", "edge-a")?;
    site.cordon("edge-b", "ebb:somebody")?;
    let said = interrupted(&site, "--uncordon-on-failure", Signal::SIGINT).await?;
    assert_eq!(
        (said.code, site.is_cordoned("edge-a"), site.is_cordoned("edge-b")),
        (130, false, true),
        "{said:?}"
    );
    assert!(said.out.contains("node/edge-a uncordoned\n"), "{said:?}");
    assert!(said.err.contains("node/edge-b stays cordoned\n"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn a_signal_before_anything_was_changed_says_so() -> Result<()> {
    for (verb, resource, words) in
        [("get", "nodes", "drain edge-a"), ("list", "pods", "drain edge-a --dry-run=client")]
    {
        let site = Site::passive()?;
        site.cluster.faults().add(Fault::on(verb, resource, Effect::Hang).always());
        let child = site.start(words)?;
        site.until(|cluster| cluster.requests().count("ebb/", verb, resource) > 0).await?;
        let said = site.stop(child, Signal::SIGINT).await?;
        let expected = (130, "interrupted: nothing has been changed\n");
        assert_eq!((said.code, said.err.as_str()), expected, "{words}");
    }
    Ok(())
}

#[tokio::test]
async fn a_signal_while_a_cordon_is_under_way_leaves_no_doubt() -> Result<()> {
    for (flag, cordoned) in [("", true), ("--uncordon-on-failure", false)] {
        let site = Site::passive()?;
        // The server cordons, and says nothing.
        site.cluster.faults().add(Fault::on("patch", "nodes", Effect::HangAfter).named("edge-b"));
        let child = site.start(&format!("drain edge-a edge-b edge-c {flag}"))?;
        site.until(|_| site.is_cordoned("edge-b")).await?;
        let said = site.stop(child, Signal::SIGINT).await?;
        let seen = ["edge-a", "edge-b", "edge-c"].map(|node| site.is_cordoned(node));
        assert_eq!((said.code, seen), (130, [cordoned, cordoned, false]), "{said:?}");
        assert!(said.err.contains("node/edge-c has not been touched\n"), "{said:?}");
        let doubt = "node/edge-b may be cordoned: check with kubectl get node\n";
        assert_eq!(said.err.contains(doubt), cordoned, "{said:?}");
        assert_eq!(said.out.contains("node/edge-b uncordoned\n"), !cordoned, "{said:?}");
    }
    Ok(())
}
