//! `ebb cordon` and `ebb uncordon`.

use anyhow::Result;
use fake_cluster::{Effect, Fault, Reply};
use serde_json::Value;

use crate::site::Site;

#[tokio::test]
async fn kubectls_texts_and_who_did_it() -> Result<()> {
    let site = Site::passive()?;
    let cases = [
        ("cordon edge-a --dry-run=client", "node/edge-a cordoned (dry run)\n", false),
        ("cordon edge-a --dry-run=server", "node/edge-a cordoned (server dry run)\n", false),
        ("cordon edge-a --reason disk", "node/edge-a cordoned\n", true),
        ("cordon edge-a", "node/edge-a already cordoned\n", true),
        ("cordon node/edge-a --dry-run=client", "node/edge-a already cordoned (dry run)\n", true),
    ];
    for (words, expected, is_cordoned) in cases {
        let said = site.ebb(words).await?;
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, expected, ""), "{words}");
        assert_eq!(site.is_cordoned("edge-a"), is_cordoned, "{words}");
    }
    let annotations = site.node("edge-a")["metadata"]["annotations"].clone();
    assert_eq!(annotations["ebb.dev/cordon-reason"], "disk");
    assert!(
        annotations["ebb.dev/cordoned-by"].as_str().is_some_and(|by| by.starts_with("ebb:")),
        "{annotations}"
    );

    let cases = [
        ("uncordon edge-a --dry-run=client", "node/edge-a uncordoned (dry run)\n", true),
        ("uncordon edge-a", "node/edge-a uncordoned\n", false),
        ("uncordon edge-a", "node/edge-a already uncordoned\n", false),
    ];
    for (words, expected, is_cordoned) in cases {
        let said = site.ebb(words).await?;
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, expected, ""), "{words}");
        assert_eq!(site.is_cordoned("edge-a"), is_cordoned, "{words}");
    }
    let annotations = site.node("edge-a")["metadata"]["annotations"].clone();
    assert_eq!(annotations["ebb.dev/cordoned-by"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn nodes_by_label_and_one_that_fails_among_them() -> Result<()> {
    let site = Site::passive()?;
    let said = site.ebb("cordon -l role=none").await?;
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    assert!(said.err.contains("No resources found"), "{said:?}");
    let said = site.ebb("cordon -l role=edge").await?;
    assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a cordoned\nnode/edge-b cordoned\n"));
    site.forbid("patch", "nodes");
    let said = site.ebb("cordon edge-a edge-c").await?;
    assert_eq!((said.code, said.out.as_str()), (1, "node/edge-a already cordoned\n"));
    assert!(
        said.err.starts_with("error: unable to cordon node \"edge-c\": cannot patch nodes edge-c: "),
        "{said:?}"
    );
    assert!(said.err.contains("needs the right to `patch` `nodes`"), "{said:?}");
    let said = site.ebb("uncordon edge-a edge-c").await?;
    assert_eq!((said.code, said.out.as_str()), (1, "node/edge-c already uncordoned\n"));
    assert!(said.err.starts_with("error: unable to uncordon node \"edge-a\": "), "{said:?}");
    Ok(())
}

/// An admission policy lets only `spec.unschedulable` change.
#[tokio::test]
async fn a_cordon_without_annotations_is_said_and_lifted_as_any_other() -> Result<()> {
    let site = Site::quick()?;
    site.guarded_pod("web-0", "edge-a")?;
    let refuse_annotations = || {
        let denied = Reply::policy_denial("nodes", "edge-a", "only spec.unschedulable may change");
        site.cluster.faults().add(Fault::on("patch", "nodes", Effect::Answer(denied)));
    };
    for (words, code, is_cordoned) in [
        ("cordon edge-a", 0, true),
        ("uncordon edge-a", 0, false),
        ("drain edge-a --timeout 300ms --uncordon-on-failure", 1, false),
        ("drain edge-a --timeout 300ms", 1, true),
    ] {
        if !words.starts_with("uncordon") {
            refuse_annotations();
        }
        let said = site.ebb(words).await?;
        assert_eq!((said.code, site.is_cordoned("edge-a")), (code, is_cordoned), "{words}: {said:?}");
        let is_told = said.err.contains("Warning: node/edge-a is cordoned without ebb's annotations")
            && said.err.contains("only spec.unschedulable may change")
            && !said.err.contains("needs the right");
        assert_eq!(is_told, !words.starts_with("uncordon"), "{words}: {said:?}");
        assert_eq!(site.node("edge-a")["metadata"]["annotations"]["ebb.dev/cordoned-by"], Value::Null);
    }
    site.cordon("edge-a", "ebb:somebody")?;
    refuse_annotations();
    let said = site.ebb("uncordon edge-a").await?;
    assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a uncordoned\n"), "{said:?}");
    assert!(said.err.contains("annotations of the old cordon stay on node/edge-a"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn the_cordon_of_a_devices_own_drain_is_not_lifted_by_accident() -> Result<()> {
    let site = Site::passive()?;
    for (owner, flag, is_refused, lifted) in [
        ("zedkube", "", true, false),
        ("zedkube", "--dry-run=client", true, false),
        ("zedkube", "--force --dry-run=client", false, false),
        ("zedkube", "--force", false, true),
        ("ebb:somebody", "", false, true),
    ] {
        site.cordon("edge-a", owner)?;
        let said = site.ebb(&format!("uncordon edge-a {flag}")).await?;
        assert_eq!(site.is_cordoned("edge-a"), !lifted, "{owner} {flag}: {said:?}");
        assert_eq!(said.code, i32::from(is_refused), "{owner} {flag}: {said:?}");
        if is_refused {
            assert!(
                said.err.contains("zedkube on the device has cordoned it") && said.err.contains("--force")
            );
        }
    }
    Ok(())
}
