//! Tests of settings that change while an agent follows them, on real files.

use std::fs;
use std::path::Path;

use pubsub::{AgentLock, Publisher};
use schemas::{ConfigItemType, ConfigItemValue};

use super::*;

/// Time limit that only a failure reaches. The clock of these tests is paused and jumps when no task can run, so the
/// limit is longer than the longest interval.
const TOO_LONG: Duration = Duration::from_mins(10);

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
    fs::write(path, text).unwrap();
}

/// Waits until the settings satisfy the condition.
async fn until(settings: &mut SettingsWatch, expected: impl Fn(&Loaded) -> bool) {
    let reached = async {
        while !expected(&settings.loaded()) {
            settings.changed().await;
        }
    };
    tokio::time::timeout(TOO_LONG, reached).await.expect("the settings should have changed");
}

#[tokio::test(start_paused = true)]
async fn files_and_the_controller_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    let mut settings = SettingsWatch::start(root.clone(), AgentFlags::default());
    assert_eq!(settings.current().policy.attempts, 5);

    // Neither the folder nor the file existed at the start.
    let file = folder.path().join("etc/ebb/ebb.d/10-ours.toml");
    write(&file, "drain.attempts = 7");
    until(&mut settings, |loaded| loaded.settings.policy.attempts == 7).await;

    write(&file, "drain.attempts = 700");
    until(&mut settings, |loaded| loaded.problems.len() == 1).await;
    assert_eq!(settings.current().policy.attempts, 7, "the old value");

    let lock = AgentLock::acquire(&root, agent::ZEDAGENT).unwrap();
    let mut controller = Publisher::open(&root, agent::ZEDAGENT, Persistence::Volatile, &lock).unwrap();
    let hours =
        ConfigItemValue { item_type: ConfigItemType::INT, int_value: 48, ..ConfigItemValue::default() };
    let mut map = ConfigItemValueMap::default();
    map.global_settings.insert("kubernetes.drain.timeout".to_owned(), hours);
    controller.publish(&TopicKey::global(), &map).unwrap();
    until(&mut settings, |loaded| loaded.settings.policy.drain.attempt_timeout == Duration::from_hours(48))
        .await;

    fs::remove_file(&file).unwrap();
    until(&mut settings, |loaded| loaded.settings.policy.attempts == 5 && loaded.problems.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_map_of_the_controller_that_is_refused_is_told_and_the_last_good_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    let file = root.item::<ConfigItemValueMap>(agent::ZEDAGENT, Persistence::Volatile, &TopicKey::global());
    write(&file, r#"{"GlobalSettings":{"kubernetes.drain.timeout":{"ItemType":1,"IntValue":48}}}"#);
    let mut settings = SettingsWatch::start(root.clone(), AgentFlags::default());
    let before = settings.current().policy.drain.attempt_timeout;
    write(&file, "[]");
    until(&mut settings, |loaded| !loaded.refused.is_empty()).await;
    assert_eq!(settings.loaded().refused.first().map(|refusal| refusal.path.clone()), Some(file.clone()));
    assert_eq!(settings.current().policy.drain.attempt_timeout, before);
    fs::remove_file(&file).unwrap();
    until(&mut settings, |loaded| loaded.refused.is_empty()).await;
    // A file that exists at the start.
    write(&file, "[]");
    let mut settings = SettingsWatch::start(root, AgentFlags::default());
    until(&mut settings, |loaded| !loaded.refused.is_empty()).await;
}

/// An editor that empties the file first must not switch a safety setting off for a moment.
#[tokio::test(start_paused = true)]
async fn a_half_written_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    let file = folder.path().join("etc/ebb/ebb.toml");
    write(&file, "no-peer = \"wait\"");
    let sources = Sources::open(root.clone(), AgentFlags::default());
    let before = load(&root, &AgentFlags::default(), None);

    write(&file, "");
    let mut look = Box::pin(sources.settled(&before));
    let half_way = tokio::time::timeout(SETTLE / 2, &mut look).await;
    assert!(half_way.is_err(), "one look is not enough");
    write(&file, "no-peer = \"wait\"\ndrain.attempts = 6");
    let after = look.await;
    assert_eq!(after.settings.policy.attempts, 6);
    assert_eq!(after.settings.policy.on_no_peer, session::policy::OnUnavailable::Wait);
}

#[tokio::test]
async fn fixed_settings_never_change() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = load(&Root::new(folder.path()), &AgentFlags::default(), None);
    let mut settings = SettingsWatch::fixed(loaded.clone());
    assert_eq!(*settings.loaded(), loaded);
    let changed = tokio::time::timeout(Duration::ZERO, settings.changed()).await;
    assert!(changed.is_err());
}
