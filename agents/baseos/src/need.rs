//! What an image needs, from its configuration, its record and the version that runs.

use schemas::BaseOsConfig;

use crate::facts::{Configured, Facts, Running};
use crate::record::{Accepted, ActivationRecord, ImageRecord, Stage};

/// So often an activation is started that ends without a result and with another version running.
const MOST_STARTS: u32 = 3;

/// What an image needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is not wanted, or another one was activated after it.
    Nothing,
    /// To be activated.
    Activation,
    /// It is activated: the device has to boot into it.
    Reboot,
    /// It was written down in this boot; nothing else happens.
    DryRun,
    /// It runs.
    Active,
    /// It failed, and why. A new `RetryUpdateCounter` allows another try.
    Error(String),
    /// That cannot be told now, and why.
    Unknown(String),
}

/// What an image with this configuration needs. `dry_run` is the setting.
pub(crate) fn need(
    record: &ActivationRecord,
    config: &BaseOsConfig,
    running: &Running,
    dry_run: bool,
) -> Need {
    if !config.activate {
        return Need::Nothing;
    }
    let uuid = &config.content_tree_uuid;
    let image = record
        .image(uuid)
        .filter(|image| image.config.base_os_version == config.base_os_version)
        .filter(|image| image.stage != Stage::DryRun || (dry_run && image.boot_id == record.boot_id));
    let Some(image) = image else {
        return unrecorded(config, running);
    };
    let need = recorded(image, record, running);
    if matches!(need, Need::Error(_) | Need::Nothing)
        && image.config.retry_update_counter != config.retry_update_counter
    {
        return Need::Activation;
    }
    need
}

fn unrecorded(config: &BaseOsConfig, running: &Running) -> Need {
    match running {
        Running::Version(version) if *version == config.base_os_version => Need::Active,
        Running::Version(_) | Running::NotAsked => Need::Activation,
        Running::Unknown(why) => Need::Unknown(why.clone()),
    }
}

fn recorded(image: &ImageRecord, record: &ActivationRecord, running: &Running) -> Need {
    let is_this_boot = image.boot_id == record.boot_id;
    match image.stage {
        Stage::DryRun => Need::DryRun,
        Stage::Failed => Need::Error(image.error.clone()),
        Stage::Started if is_this_boot => {
            Need::Error("interrupted: the activation was started in this boot and has no result".to_owned())
        }
        Stage::Finished if is_this_boot => Need::Reboot,
        Stage::Started | Stage::Finished => after_boot(image, record, running),
    }
}

/// The device has booted since the activation: into this image?
fn after_boot(image: &ImageRecord, record: &ActivationRecord, running: &Running) -> Need {
    let is_superseded = record.is_superseded(&image.config.content_tree_uuid);
    match running {
        Running::Version(version) if *version == image.config.base_os_version => Need::Active,
        Running::NotAsked | Running::Version(_) if is_superseded => Need::Nothing,
        Running::NotAsked => Need::Active,
        Running::Unknown(why) => Need::Unknown(why.clone()),
        Running::Version(version) => did_not_stay(image, version),
    }
}

fn did_not_stay(image: &ImageRecord, running: &str) -> Need {
    match image.stage {
        Stage::Finished => Need::Error(format!("image did not stay: {running} is running")),
        Stage::Started if image.starts < MOST_STARTS => Need::Activation,
        Stage::Started | Stage::Failed | Stage::DryRun => Need::Error(format!(
            "interrupted: the activation was started {} times without a result, and {running} is running",
            image.starts
        )),
    }
}

/// The configuration that counts for an accepted image, or nothing when it was reverted. An absent one is reverted
/// only in the boot that accepted it, or has seen it again (D14).
pub(crate) fn standing(current: &Accepted, facts: &Facts) -> Option<BaseOsConfig> {
    let accepted = || Some(current.config.clone());
    match facts.configs.get(&current.config.content_tree_uuid) {
        Some(Configured::Given(config)) => config.activate.then(|| config.clone()),
        Some(Configured::Unreadable | Configured::Refused(_)) => accepted(),
        None if current.carried_over || facts.is_partial => accepted(),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(retry_update_counter: u32) -> BaseOsConfig {
        BaseOsConfig {
            base_os_version: "2.0".to_owned(),
            content_tree_uuid: "a".to_owned(),
            retry_update_counter,
            activate: true,
        }
    }

    fn version(version: &str) -> Running {
        Running::Version(version.to_owned())
    }

    fn record(boot_id: &str, stage: Stage, starts: u32) -> ActivationRecord {
        let image = ImageRecord {
            config: config(1),
            boot_id: boot_id.to_owned(),
            stage,
            starts,
            error: "exit 1".to_owned(),
        };
        ActivationRecord { images: vec![image], ..ActivationRecord::new("now") }
    }

    /// In words, so that a table is readable; an error by its first word.
    fn words(need: Need) -> String {
        match need {
            Need::Error(error) => format!("error {}", error.split([':', ' ']).next().unwrap_or_default()),
            Need::Unknown(why) => format!("unknown {why}"),
            Need::Nothing | Need::Activation | Need::Reboot | Need::DryRun | Need::Active => {
                format!("{need:?}")
            }
        }
    }

    #[track_caller]
    fn check(record: &ActivationRecord, running: &Running, same_counter: &str, new_counter: &str) {
        for (counter, expected) in [(1, same_counter), (2, new_counter)] {
            let found = words(need(record, &config(counter), running, false));
            assert_eq!(found, expected, "{record:?} {running:?} counter {counter}");
        }
    }

    #[test]
    fn an_image_without_a_record() {
        let none = ActivationRecord::new("now");
        check(&none, &Running::NotAsked, "Activation", "Activation");
        check(&none, &version("1.0"), "Activation", "Activation");
        check(&none, &version("2.0"), "Active", "Active");
        check(&none, &Running::Unknown("busy".to_owned()), "unknown busy", "unknown busy");
        let unwanted = BaseOsConfig { activate: false, ..config(1) };
        assert_eq!(need(&none, &unwanted, &Running::NotAsked, false), Need::Nothing);
    }

    #[test]
    fn an_image_of_this_boot() {
        for running in [Running::NotAsked, version("1.0")] {
            check(&record("now", Stage::Started, 1), &running, "error interrupted", "Activation");
            check(&record("now", Stage::Failed, 1), &running, "error exit", "Activation");
            check(&record("now", Stage::Finished, 1), &running, "Reboot", "Reboot");
        }
    }

    #[test]
    fn an_image_of_an_earlier_boot() {
        let started = |starts| record("before", Stage::Started, starts);
        let finished = record("before", Stage::Finished, 1);
        check(&finished, &Running::NotAsked, "Active", "Active");
        check(&finished, &version("2.0"), "Active", "Active");
        check(&finished, &version("1.0"), "error image", "Activation");
        check(&started(1), &Running::NotAsked, "Active", "Active");
        check(&started(1), &version("2.0"), "Active", "Active");
        check(&started(1), &version("1.0"), "Activation", "Activation");
        check(&started(2), &version("1.0"), "Activation", "Activation");
        check(&started(3), &version("1.0"), "error interrupted", "Activation");
        check(&started(3), &version("2.0"), "Active", "Active");
        check(&started(1), &Running::Unknown("busy".to_owned()), "unknown busy", "unknown busy");
        check(&record("before", Stage::Failed, 1), &version("1.0"), "error exit", "Activation");
    }

    #[test]
    fn a_dry_run_counts_in_its_boot_while_the_setting_is_on() {
        for (boot_id, dry_run, expected) in [
            ("now", true, Need::DryRun),
            ("now", false, Need::Activation),
            ("before", true, Need::Activation),
        ] {
            let record = record(boot_id, Stage::DryRun, 1);
            assert_eq!(need(&record, &config(1), &Running::NotAsked, dry_run), expected, "{boot_id}");
        }
    }

    /// Two configurations that both say Activate must not make the device go to and fro between them.
    #[test]
    fn an_image_that_another_one_replaced_is_not_activated_again() {
        let mut record = record("before", Stage::Finished, 1);
        let newer = BaseOsConfig { content_tree_uuid: "b".to_owned(), ..config(1) };
        record.start(&newer, Stage::Finished);
        check(&record, &Running::NotAsked, "Nothing", "Activation");
        check(&record, &version("3.0"), "Nothing", "Activation");
        check(&record, &version("2.0"), "Active", "Active");
    }
}
