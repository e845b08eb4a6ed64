//! Longhorn's own setting for drains, written if Longhorn is installed.

use std::time::Duration;

use cluster::ApiFailure;
use cluster::longhorn::{DrainPolicy, set_node_drain_policy};
use runtime::SettingsWatch;
use tokio::sync::watch;

use crate::link::Link;

/// Pause after a try without Longhorn, or without the right to its settings: both may come later. The next drain tries
/// again at once.
const ABSENT: Duration = Duration::from_hours(24);

/// Pause after a try that failed.
const AGAIN: Duration = Duration::from_mins(5);

/// Sets Longhorn's policy to the configured value: at the start, after each change of the setting, and, until it has
/// worked, at the beginning of each drain (`drain` changes then) and after a pause. Never returns.
pub(crate) async fn follow(link: Link, mut settings: SettingsWatch, mut drain: watch::Receiver<u64>) {
    let mut told = String::new();
    loop {
        link.pace().until_back().await;
        let policy = settings.current().longhorn.node_drain_policy.word();
        let (said, pause) = match set(&link, policy).await {
            Ok(DrainPolicy::NotInstalled) => ("Longhorn is not installed".to_owned(), ABSENT),
            Ok(DrainPolicy::Unchanged | DrainPolicy::Changed) => {
                tracing::info!("Longhorn's node-drain-policy is {policy}");
                settings_differ(&mut settings, policy).await;
                continue;
            }
            Err(failure) => {
                let pause = if matches!(failure, ApiFailure::Denied { .. }) { ABSENT } else { AGAIN };
                (format!("Longhorn's node-drain-policy cannot be set: {failure}"), pause)
            }
        };
        if said != told {
            tracing::info!("{said}");
            told = said;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = settings_differ(&mut settings, policy) => {}
            Ok(()) = drain.changed() => {}
        }
    }
}

async fn set(link: &Link, policy: &str) -> Result<DrainPolicy, ApiFailure> {
    let (cluster, _) = link.cluster().await?;
    set_node_drain_policy(&cluster, policy).await
}

async fn settings_differ(settings: &mut SettingsWatch, policy: &str) {
    while settings.current().longhorn.node_drain_policy.word() == policy {
        settings.changed().await;
    }
}
