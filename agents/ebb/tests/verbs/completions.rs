//! What a shell and kubectl are told at a TAB.

use anyhow::{Context, Result};
use tokio::process::Command;

use crate::site::{PROGRAM, Site, program, said};

/// The candidates without their descriptions, and the line that says whether files fit.
async fn told(site: &Site, mut command: Command, words: &[&str]) -> Result<(Vec<String>, String)> {
    command.env("KUBECONFIG", site.kubeconfig()).args(words);
    let said = said(command.output().await?)?;
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{words:?}");
    let mut lines: Vec<String> =
        said.out.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
    let directive = lines.pop().context("nothing is told")?;
    Ok((lines, directive))
}

fn owned(candidates: &[&str]) -> Vec<String> {
    candidates.iter().map(|&candidate| candidate.to_owned()).collect()
}

#[tokio::test]
async fn verbs_flags_values_and_nodes_are_completed() -> Result<()> {
    let site = Site::passive()?;
    let elsewhere = format!("--kubeconfig={}", site.folder.path().join("none").display());
    let cases: [(&[&str], &[&str], &str); 15] = [
        (&["dra"], &["drain"], ":4"),
        (&["__"], &[], ":4"),
        (&["slots", "li"], &["list"], ":4"),
        (&["cordon", ""], &["edge-a", "edge-b", "edge-c"], ":4"),
        (&["cordon", "edge-a", "edge-"], &["edge-b", "edge-c"], ":4"),
        (&["drain", "--force", "--timeout", "5s", "edge-c"], &["edge-c"], ":4"),
        (&["plan", "edge-b"], &["edge-b"], ":4"),
        (&["cordon", elsewhere.as_str(), ""], &[], ":4"),
        (&["drain", "--as-g"], &["--as-group"], ":4"),
        (&["drain", "--kubeconfig", ""], &[], ":0"),
        (&["drain", "-o", ""], &["text", "json"], ":4"),
        (&["drain", "--on-detach-timeout=p"], &["--on-detach-timeout=proceed"], ":4"),
        // Bash takes `=` for a word.
        (&["drain", "--on-detach-timeout", "=", "p"], &["proceed"], ":4"),
        (&["drain", "--on-detach-timeout", "="], &["fail", "proceed"], ":4"),
        (&["completion", ""], &["bash", "zsh", "fish"], ":4"),
    ];
    for (words, expected, directive) in cases {
        let mut command = program();
        command.arg("__complete");
        assert_eq!(told(&site, command, words).await?, (owned(expected), directive.to_owned()), "{words:?}");
    }
    // The verbs that only the plugin has, and their flags.
    for (words, expected) in [
        (&["cance"][..], &["cancel"][..]),
        (&["reboot", "--wait", "edge-a", "edge-"], &["edge-b", "edge-c"]),
        (&["cancel", "--timeout", "5s", "--wait", "edge-c"], &["edge-c"]),
        (&["why", "edge-a", "edge-"], &["edge-b", "edge-c"]),
        (&["history", "edge-c"], &["edge-c"]),
        (&["nodes", "-o", "json", "edge-b"], &["edge-b"]),
    ] {
        let command = site.plugin_program("kubectl_complete-ebb")?;
        assert_eq!(told(&site, command, words).await?, (owned(expected), ":4".to_owned()), "{words:?}");
    }
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn bash_completes_the_names_of_nodes() -> Result<()> {
    let site = Site::passive()?;
    let script = format!(
        "set -eu; source <(\"{PROGRAM}\" completion bash); complete -p ebb; \
         COMP_WORDS=(\"{PROGRAM}\" cordon edge-a edge-); COMP_CWORD=3; _ebb; echo \"${{COMPREPLY[@]}}\""
    );
    let mut bash = Command::new("bash");
    let output = bash.args(["-c", &script]).env("KUBECONFIG", site.kubeconfig()).output().await?;
    let said = said(output)?;
    assert_eq!((said.code, said.out.as_str()), (0, "complete -F _ebb ebb\nedge-b edge-c\n"), "{said:?}");
    Ok(())
}
