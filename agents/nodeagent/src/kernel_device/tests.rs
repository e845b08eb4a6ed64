//! Tests with a kernel that only notes its calls.

use std::sync::Mutex;
use std::sync::mpsc;

use tokio::sync::Notify;

use super::*;

#[derive(Debug, Default)]
struct Paper {
    refusal: Option<String>,
    written: Mutex<Vec<String>>,
    /// A sync waits until this channel is closed.
    holding: Mutex<Option<mpsc::Receiver<()>>>,
    syncing: Notify,
}

impl Paper {
    fn write(&self, what: impl Into<String>) {
        self.written.lock().unwrap().push(what.into());
    }

    fn written(&self) -> Vec<String> {
        self.written.lock().unwrap().clone()
    }
}

impl Kernel for Paper {
    fn refusal(&self) -> Option<String> {
        self.refusal.clone()
    }

    fn sync(&self) {
        self.write("sync begins");
        self.syncing.notify_one();
        if let Some(holding) = self.holding.lock().unwrap().take() {
            holding.recv().unwrap_err();
        }
        self.write("sync ends");
        self.syncing.notify_one();
    }

    fn take_down(&self, switch: Switch) -> String {
        self.write(format!("{switch:?}"));
        "EPERM".to_owned()
    }
}

#[tokio::test]
async fn sync_and_then_down() {
    for (operation, expected) in [
        (Operation::Reboot, &["sync begins", "sync ends", "Restart"][..]),
        (Operation::Poweroff, &["sync begins", "sync ends", "Off"]),
        (Operation::Shutdown, &[]),
    ] {
        let kernel = Arc::new(Paper::default());
        let outcome = KernelDevice::new(kernel.clone()).take_down(operation).await;
        assert_eq!(kernel.written(), expected);
        assert!(matches!(&outcome, Outcome::Failed(_)), "whoever comes back has failed: {outcome:?}");
    }
}

#[tokio::test]
async fn what_must_not_be_tried_is_not_tried() {
    let kernel = Arc::new(Paper { refusal: Some("in a container".to_owned()), ..Paper::default() });
    let outcome = KernelDevice::new(kernel.clone()).take_down(Operation::Reboot).await;
    assert_eq!(outcome, Outcome::Failed("reboot(2) is not tried: in a container".to_owned()));
    assert!(kernel.written().is_empty());
}

#[tokio::test]
async fn a_disk_that_is_gone_does_not_keep_the_device_up() {
    let (release, holding) = mpsc::channel();
    let kernel = Arc::new(Paper { holding: Mutex::new(Some(holding)), ..Paper::default() });
    let device = KernelDevice { kernel: kernel.clone(), sync_limit: Duration::ZERO };
    device.take_down(Operation::Reboot).await;
    assert!(kernel.written().contains(&"Restart".to_owned()));
    assert!(!kernel.written().contains(&"sync ends".to_owned()));
    drop(release);
}

/// The next means has begun or none is left, so a late reboot(2) must not follow.
#[tokio::test]
async fn when_dropped_it_only_ends_its_sync() {
    let (release, holding) = mpsc::channel();
    let kernel = Arc::new(Paper { holding: Mutex::new(Some(holding)), ..Paper::default() });
    let device = KernelDevice::new(kernel.clone());
    tokio::select! {
        outcome = device.take_down(Operation::Reboot) => panic!("{outcome:?}"),
        () = kernel.syncing.notified() => {}
    }
    drop(release);
    kernel.syncing.notified().await;
    assert_eq!(kernel.written(), ["sync begins", "sync ends"]);
}

#[test]
fn the_limit_of_a_sync_leaves_time_to_go_down() {
    assert!(SYNC_LIMIT < crate::policy::STILL_UP);
}

#[test]
fn who_may_take_the_machine_down() {
    const FIRST: &str = "pid:[4026531836]";
    for (capabilities, namespace, refusal) in [
        ("CapEff:\t000001ffffffffff", FIRST, None),
        ("CapEff:\t0000000000400000", FIRST, None),
        ("CapEff:\t000001ffffbfffff", FIRST, Some("CAP_SYS_BOOT")),
        ("CapEff:\t0000000000000000", FIRST, Some("CAP_SYS_BOOT")),
        ("CapPrm:\t000001ffffffffff", FIRST, Some("CAP_SYS_BOOT")),
        ("CapEff:\tunreadable", FIRST, Some("CAP_SYS_BOOT")),
        ("", "", Some("CAP_SYS_BOOT")),
        ("CapEff:\t000001ffffffffff", "pid:[4026532551]", Some("container")),
        ("CapEff:\t000001ffffffffff", "", Some("container")),
    ] {
        let status = format!("Name:\tebb\n{capabilities}\nSeccomp:\t0\n");
        let found = super::refusal(&status, namespace);
        assert_eq!(found.is_some(), refusal.is_some(), "{capabilities} {namespace}: {found:?}");
        assert!(found.unwrap_or_default().contains(refusal.unwrap_or_default()));
    }
}

#[test]
fn below_another_root_there_is_no_kernel() {
    for root in ["/srv/test", "/proc/self/root", ".", ""] {
        assert!(running_system(&Root::new(root), Arc::new(Paper::default())).is_none(), "{root}");
    }
}
