//! Longhorn's own setting for drains, written if Longhorn is installed.

use std::time::Duration;

use cluster::longhorn::{DrainPolicy, set_node_drain_policy};
use runtime::SettingsWatch;

use crate::link::Link;

/// Pause between two tries. It goes on for ever, because Longhorn may be installed later; EVE's zedkube tries as often.
const AGAIN: Duration = Duration::from_mins(1);

/// Sets Longhorn's policy to the configured value, at the start and after each change of the setting, and tries until it
/// has worked. Never returns.
pub(crate) async fn follow(link: Link, mut settings: SettingsWatch) {
    let mut told = String::new();
    loop {
        let policy = settings.current().longhorn.node_drain_policy.word();
        let said = match set(&link, policy).await {
            Ok(DrainPolicy::NotInstalled) => "Longhorn is not installed".to_owned(),
            Ok(DrainPolicy::Unchanged | DrainPolicy::Changed) => {
                tracing::info!("Longhorn's node-drain-policy is {policy}");
                settings_differ(&mut settings, policy).await;
                continue;
            }
            Err(error) => format!("Longhorn's node-drain-policy cannot be set: {error}"),
        };
        if said != told {
            tracing::info!("{said}");
            told = said;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn set(link: &Link, policy: &str) -> Result<DrainPolicy, String> {
    let text = |failure: cluster::ApiFailure| failure.text().to_owned();
    let (cluster, _) = link.cluster().await.map_err(text)?;
    set_node_drain_policy(&cluster, policy).await.map_err(text)
}

async fn settings_differ(settings: &mut SettingsWatch, policy: &str) {
    while settings.current().longhorn.node_drain_policy.word() == policy {
        settings.changed().await;
    }
}
