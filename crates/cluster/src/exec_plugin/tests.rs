use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

fn plugin(script: &str) -> ExecConfig {
    ExecConfig {
        command: Some("sh".to_owned()),
        args: Some(vec!["-c".to_owned(), script.to_owned()]),
        ..ExecConfig::default()
    }
}

/// A zombie whose parent does not collect it counts as dead, too.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn what_a_plugin_answers() {
    let cases = [
        (r#"echo '{"kind":"ExecCredential","status":{"token":"t"}}'"#, Ok("t")),
        ("printf 'status:\\n  token: t\\n'", Ok("t")),
        (r#"echo '{"status":{"clientCertificateData":"c","clientKeyData":"k"}}'"#, Ok("")),
        (
            r#"echo '{"status":{"clientCertificateData":"c"}}'"#,
            Err("without a token and without a certificate"),
        ),
        (r#"echo '{"status":{"token":"t","expirationTimestamp":"s3cret"}}'"#, Err("is not a time")),
        ("echo s3cret", Err("an ExecCredential that has a status")),
        ("head -c 2000000 /dev/zero", Err("more than 1 MiB")),
        ("echo s3cret >&2; exit 3", Err("failed: exit status: 3")),
        (
            "echo \"$KUBERNETES_EXEC_INFO\" | grep -q '\"interactive\":false' && echo '{\"status\":{\"token\":\"told\"}}'",
            Ok("told"),
        ),
        ("read answer || echo '{\"status\":{\"token\":\"no-input\"}}'", Ok("no-input")),
    ];
    for (script, expected) in cases {
        let answered = run(&plugin(script), Trust::Anybody, Duration::from_mins(1)).await;
        match (answered, expected) {
            (Ok(credential), Ok(token)) => {
                assert_eq!(credential.token.unwrap_or_default(), token, "{script}");
            }
            (Err(why), Err(part)) => {
                assert!(
                    why.contains(part) && why.contains("`sh`") && !why.contains("s3cret"),
                    "{script}: {why}"
                );
            }
            (answered, _) => panic!("{script}: {:?}", answered.map(|credential| credential.token)),
        }
    }
    let asks = ExecConfig { interactive_mode: Some(ExecInteractiveMode::Always), ..plugin("true") };
    let why = run(&asks, Trust::Anybody, Duration::from_mins(1)).await.map(drop).unwrap_err();
    assert!(why.contains("there is no terminal"), "{why}");
}

/// However often a plugin hangs, the next try is run, and no process is left.
/// A renewal comes long after the kubeconfig was read.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
async fn a_plugin_that_another_user_may_write_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    std::fs::write(&path, "#!/bin/sh\necho '{\"status\":{\"token\":\"t\"}}'\n").unwrap();
    let plugin = ExecConfig { command: Some(path.display().to_string()), ..ExecConfig::default() };
    for (mode, trust, runs) in
        [(0o755, Trust::RootOrSelf, true), (0o777, Trust::RootOrSelf, false), (0o777, Trust::Anybody, true)]
    {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = run(&plugin, trust, Duration::from_mins(1)).await.map(drop);
        assert_eq!(said.is_ok(), runs, "{mode:o}: {said:?}");
        assert!(said.err().is_none_or(|why| why.contains("is not run")));
    }
}

#[tokio::test]
async fn a_plugin_that_hangs_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!("echo $$ >> {0}; sleep 600 & echo $! >> {0}; wait", pids.display());
    for _ in 0..10 {
        let why =
            run(&plugin(&script), Trust::Anybody, Duration::from_millis(100)).await.map(drop).unwrap_err();
        assert!(why.contains("was killed"), "{why}");
    }
    let answered =
        run(&plugin(r#"echo '{"status":{"token":"t"}}'"#), Trust::Anybody, Duration::from_mins(1)).await;
    assert_eq!(answered.map(|credential| credential.token), Ok(Some("t".to_owned())));
    for pid in std::fs::read_to_string(&pids).unwrap_or_default().lines() {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_plugin_that_nobody_waits_for_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 600", pid.display());
    let began = async {
        while !pid.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let plugin = plugin(&script);
    tokio::select! {
        ended = run(&plugin, Trust::Anybody, Duration::from_mins(1)) => panic!("{:?}", ended.map(drop)),
        () = began => {}
    }
    let pid = std::fs::read_to_string(&pid).unwrap();
    while lives(&pid) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn two_plugins_never_run_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let busy = folder.path().join("busy");
    let script =
        format!("mkdir {0} || exit 1; rmdir {0}; echo '{{\"status\":{{\"token\":\"t\"}}}}'", busy.display());
    let plugin = plugin(&script);
    let all = (0..8).map(|_| run(&plugin, Trust::Anybody, Duration::from_mins(1)));
    for answered in futures::future::join_all(all).await {
        assert_eq!(answered.map(|credential| credential.token), Ok(Some("t".to_owned())));
    }
}
