//! Tests on a real bus with a stand-in for logind.

use std::collections::VecDeque;
use std::path::Path;

use tempfile::TempDir;
use tokio::net::UnixListener;

use super::*;
use crate::logind::stand_in::{PrivateBus, Reply, Script, StandIn};

use Operation::{Poweroff, Reboot};

const DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";
const BLOCKED: &str = "org.freedesktop.login1.BlockedByInhibitorLock";

fn device(root: &Path) -> LogindDevice {
    let patience = Patience { looks: 3, pause: Duration::from_millis(1) };
    LogindDevice { patience, ..LogindDevice::new(&Root::new(root)) }
}

async fn bus_with(script: Script) -> (TempDir, PrivateBus, StandIn) {
    let folder = tempfile::tempdir().unwrap();
    let bus = PrivateBus::start(folder.path(), None).await;
    let logind = bus.with_logind(folder.path(), script).await;
    (folder, bus, logind)
}

/// `kind` is the name of the outcome's variant; `words` are parts of its text.
#[track_caller]
fn check_outcome(outcome: &Outcome, kind: &str, words: &[&str]) {
    let found = format!("{outcome:?}");
    assert!(found.starts_with(kind), "{found} is not {kind}");
    for word in words {
        assert!(found.contains(word), "{found} lacks {word}");
    }
}

async fn check(operation: Operation, script: Script, calls: &[&str], kind: &str, words: &[&str]) {
    let (folder, _bus, mut logind) = bus_with(script.clone()).await;
    let outcome = device(folder.path()).take_down(operation).await;
    let found: Vec<String> = logind.calls().into_iter().map(|call| call.words).collect();
    assert_eq!(found, calls, "{script:?}");
    check_outcome(&outcome, kind, words);
}

fn answers(answers: &[Reply]) -> Script {
    Script { answers: answers.iter().copied().collect(), ..Script::default() }
}

#[tokio::test]
async fn logind_takes_the_device_down() {
    let obeys = Script::default;
    check(Reboot, obeys(), &["Reboot false"], "Started", &["begun the reboot"]).await;
    check(Poweroff, obeys(), &["PowerOff false"], "Started", &["begun the poweroff"]).await;
}

#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let denied = answers(&[Reply::Refuse(DENIED)]);
    let words = ["does not reboot", DENIED, "because of the test", "polkit", "device.command"];
    check(Reboot, denied, &["Reboot false"], "Failed", &words).await;
    let no_such = answers(&[Reply::Refuse("org.freedesktop.DBus.Error.UnknownMethod")]);
    check(Poweroff, no_such, &["PowerOff false"], "Failed", &["UnknownMethod"]).await;
}

#[tokio::test]
async fn a_device_that_is_going_down_already_is_not_cut_short() {
    let busy = answers(&[Reply::Refuse("org.freedesktop.login1.OperationInProgress")]);
    check(Reboot, busy, &["Reboot false"], "Started", &["already", "OperationInProgress"]).await;
}

#[tokio::test]
async fn an_inhibitor_that_ends_is_waited_for() {
    let blocked = Reply::Refuse(BLOCKED);
    check(Reboot, answers(&[blocked, blocked]), &["Reboot false"; 3], "Started", &[]).await;
}

#[tokio::test]
async fn an_inhibitor_that_stays_does_not_keep_a_drained_device_up() {
    let stays = answers(&[Reply::Refuse(BLOCKED); 3]);
    let asked = ["Reboot false", "Reboot false", "Reboot false", "RebootWithFlags 16"];
    check(Reboot, stays.clone(), &asked, "Started", &[]).await;
    let asked = ["PowerOff false", "PowerOff false", "PowerOff false", "PowerOffWithFlags 16"];
    check(Poweroff, stays, &asked, "Started", &[]).await;
    let denied =
        [Reply::Refuse(BLOCKED), Reply::Refuse(BLOCKED), Reply::Refuse(BLOCKED), Reply::Refuse(DENIED)];
    let asked = ["Reboot false", "Reboot false", "Reboot false", "RebootWithFlags 16"];
    check(Reboot, answers(&denied), &asked, "Failed", &[DENIED, "forbidden by", BLOCKED]).await;
}

/// Before systemd 257 logind does not apply inhibitors to root, so nodeagent lists them before it requests the
/// operation.
#[tokio::test]
async fn an_older_logind_is_asked_only_once_nothing_forbids_it() {
    let holder =
        ("shutdown:sleep".to_owned(), "apt".to_owned(), "upgrade".to_owned(), "block".to_owned(), 0, 77);
    for error in ["org.freedesktop.DBus.Error.UnknownMethod", "org.freedesktop.DBus.Error.InvalidArgs"] {
        let older = |looks: usize, replies: &[Reply]| Script {
            inhibitors: Some(VecDeque::from(vec![vec![holder.clone()]; looks])),
            flags_error: Some(error),
            ..answers(replies)
        };
        check(Reboot, older(2, &[]), &["Reboot false"], "Started", &[]).await;
        let asked = ["RebootWithFlags 16", "Reboot false"];
        check(Reboot, older(3, &[]), &asked, "Started", &[]).await;
        let denied = older(3, &[Reply::Refuse(DENIED)]);
        check(Reboot, denied, &asked, "Failed", &["apt (process 77: upgrade)"]).await;
    }
}

#[tokio::test]
async fn a_call_that_was_not_answered_may_have_been_obeyed() {
    check(Reboot, answers(&[Reply::Vanish]), &["Reboot false"], "Started", &["may have begun"]).await;
}

#[tokio::test]
async fn a_logind_that_hangs_is_not_waited_for() {
    let (folder, _bus, mut logind) = bus_with(answers(&[Reply::Hang])).await;
    let device = device(folder.path());
    let asking = tokio::spawn(async move { device.take_down(Reboot).await });
    logind.call().await;
    tokio::time::pause();
    check_outcome(&asking.await.unwrap(), "Started", &["may have begun", "no answer within 10 s"]);
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_hangs_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("run/dbus/system_bus_socket");
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let _listening = UnixListener::bind(&socket).unwrap();
    let outcome = device(folder.path()).take_down(Reboot).await;
    check_outcome(&outcome, "Failed", &["does not answer within 10 s"]);
}

#[tokio::test]
async fn a_device_without_logind() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = device(folder.path()).take_down(Reboot).await;
    check_outcome(
        &outcome,
        "Absent",
        &["no systemd-logind", "there is no system bus at", "system_bus_socket"],
    );
    let _bus = PrivateBus::start(folder.path(), None).await;
    let outcome = device(folder.path()).take_down(Reboot).await;
    check_outcome(&outcome, "Absent", &["no systemd-logind", "has none"]);
}

#[tokio::test]
async fn a_logind_that_the_bus_can_start_counts_as_there() {
    let folder = tempfile::tempdir().unwrap();
    let services = folder.path().join("services");
    std::fs::create_dir(&services).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
    std::fs::write(
        services.join("org.freedesktop.login1.service"),
        "[D-BUS Service]\nName=org.freedesktop.login1\nExec=/bin/false\n",
    )
    .unwrap();
    let _bus = PrivateBus::start(folder.path(), Some(&services)).await;
    let outcome = device(folder.path()).take_down(Reboot).await;
    check_outcome(&outcome, "Failed", &["org.freedesktop.DBus.Error.Spawn"]);
}

#[test]
fn the_patience_leaves_time_to_ask_once_more() {
    let all = PATIENCE.pause.saturating_mul(PATIENCE.looks);
    assert!(all < crate::policy::STILL_UP);
}
