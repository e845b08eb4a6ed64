//! Starting agents below a temporary root.

use std::fs;
use std::path::Path;

use super::*;
use crate::error_chain;
use crate::flags::Assignment;

fn flags(root: &Path) -> AgentFlags {
    AgentFlags { root: root.to_owned(), ..AgentFlags::default() }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn an_agent_has_its_lock_its_boot_and_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("proc/sys/kernel/random/boot_id"), "boot-1\n");
    write(&folder.path().join("etc/machine-id"), "machine-1\n");
    write(&folder.path().join("etc/ebb/ebb.toml"), "drain.attempts = 3\ncordon.tries = 0");
    let agent = Agent::start("zedkube", &flags(folder.path())).await.unwrap();
    let context = agent.context();
    assert_eq!(
        (context.name(), context.boot_id(), context.machine_id()),
        ("zedkube", "boot-1", Some("machine-1"))
    );
    assert_eq!(context.settings().current().policy.attempts, 3);
    assert_eq!(context.settings().loaded().problems.len(), 1, "a mistake in a file does not stop it");
    assert!(!context.is_beside_zedbox());
    let own = std::process::id();
    assert_eq!(fs::read_to_string(folder.path().join("run/ebb/lock/zedkube/pid")).unwrap(), own.to_string());

    let error = Agent::start("zedkube", &flags(folder.path())).await.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error_chain(&error).contains(&own.to_string()), "names the first's pid: {}", error_chain(&error));
    assert!(
        Agent::start("zedagent", &flags(folder.path())).await.is_ok(),
        "another agent in the same process"
    );

    drop((agent, context));
    assert!(Agent::start("zedkube", &flags(folder.path())).await.is_ok(), "the lock is free again");
}

#[tokio::test]
async fn bad_flags_are_told_together_and_exit_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let set = |key: &str, value: &str| Assignment { key: key.to_owned(), value: value.to_owned() };
    let flags =
        AgentFlags { set: vec![set("drain.attempts", "0"), set("no-peer", "maybe")], ..flags(folder.path()) };
    let error = Agent::start("zedkube", &flags).await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let text = error_chain(&error);
    assert!(text.contains("drain.attempts = 0") && text.contains("no-peer = maybe"), "{text}");
}

#[tokio::test]
async fn zedbox_is_kept_clear_of() {
    let folder = tempfile::tempdir().unwrap();
    let mut zedbox = crate::zedbox::tests::start_zedbox(folder.path());
    write(&folder.path().join("run/zedbox.pid"), &zedbox.id().to_string());
    let error = Agent::start("zedkube", &flags(folder.path())).await.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error_chain(&error).contains("--beside-zedbox"), "{}", error_chain(&error));

    let beside = AgentFlags { beside_zedbox: true, ..flags(folder.path()) };
    let agent = Agent::start("zedkube", &beside).await.unwrap();
    assert!(agent.context().is_beside_zedbox());
    tokio::task::yield_now().await;
    let own = std::process::id().to_string();
    assert_eq!(fs::read_to_string(folder.path().join("run/zedkube.pid")).unwrap(), own, "for EVE's watchdog");
    for touch in ["run/zedkube.touch", "run/ebb/lock/zedkube/touch"] {
        assert!(folder.path().join(touch).exists(), "{touch}");
    }
    zedbox.kill().unwrap();
    zedbox.wait().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_end_is_overdue() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start("zedkube", &flags(folder.path())).await.unwrap();
    let stop = Stop::new();
    let polite = agent.run(stop.clone(), async |context: AgentContext, stop: Stop| {
        stop.request();
        stop.requested().await;
        context.name().to_owned()
    });
    assert_eq!(polite.await, Ok("zedkube".to_owned()));

    let agent = Agent::start("zedkube", &flags(folder.path())).await.unwrap();
    let deaf = agent.run(stop, async |_: AgentContext, _: Stop| std::future::pending::<()>().await);
    assert_eq!(deaf.await, Err(Overdue));
}

#[tokio::test(start_paused = true)]
async fn a_removed_lock_is_made_again_by_the_agent_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let root = pubsub::Root::new(folder.path());
    let agent = Agent::start("zedkube", &flags(folder.path())).await.unwrap();
    let stop = Stop::new();
    let looking = agent.run(stop.clone(), async |_: AgentContext, _: Stop| {
        fs::remove_dir_all(folder.path().join("run")).unwrap();
        assert_eq!(pubsub::lock_holder(&root, "zedkube").unwrap(), None);
        while pubsub::lock_holder(&root, "zedkube").unwrap().is_none() {
            tokio::time::sleep(BEAT).await;
        }
    });
    assert_eq!(looking.await, Ok(()));
    assert!(!stop.is_requested());
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_lock_another_process_took_ends() {
    let folder = tempfile::tempdir().unwrap();
    let root = pubsub::Root::new(folder.path());
    let agent = Agent::start("zedkube", &flags(folder.path())).await.unwrap();
    let ending = agent.run(Stop::new(), async |_: AgentContext, stop: Stop| {
        tokio::task::yield_now().await;
        fs::remove_file(root.lock("zedkube")).unwrap();
        let _other = AgentLock::acquire(&root, "zedkube").unwrap();
        stop.requested().await;
    });
    assert_eq!(ending.await, Ok(()));
}
