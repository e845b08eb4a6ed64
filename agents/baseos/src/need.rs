//! The next step that an image needs, from its configuration, its record and the version that is running.

use std::collections::BTreeMap;

use schemas::{BaseOsConfig, BaseOsHoldState, Source};

use crate::facts::{Configured, Facts, Running};
use crate::policy::Policy;
use crate::record::{Accepted, ActivationRecord, ImageRecord, Stage};

/// Limit for the starts of an activation that has no result each time, while another version is running.
const MOST_STARTS: u32 = 3;

/// The next step that an image needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: the image is not wanted, or another image was activated after it.
    Nothing,
    /// The activate command has to run.
    Activation,
    /// The image is activated; the device has to boot into it.
    Reboot,
    /// The image was written to the dry run's file in this boot; nothing else happens.
    DryRun,
    Active,
    /// The activation failed, for this reason. A new `RetryUpdateCounter` allows another attempt.
    Error(String),
    /// This device cannot activate images, for this reason: a setting is missing.
    Impossible(String),
    /// The next step is not known now, for this reason.
    Unknown(String),
}

/// Each known image with its configuration and the next step that it needs.
pub(crate) type Needs = BTreeMap<String, (BaseOsConfig, Need)>;

/// What BaseOsHold says of the current image: its state, `BlockedBy` and `Release`.
pub(crate) type Words = (BaseOsHoldState, String, String);

/// The next step that the image with this configuration needs.
pub(crate) fn need(
    record: &ActivationRecord,
    config: &BaseOsConfig,
    running: &Running,
    policy: Policy,
) -> Need {
    let need = need_if_able(record, config, running, policy);
    if need == Need::Activation && !policy.dry_run && !policy.can_activate {
        return impossible();
    }
    need
}

/// The reason to wait while the next step is not known.
pub(crate) fn cannot_tell(why: &str) -> String {
    format!("cannot tell which version is running: {why}")
}

fn impossible() -> Need {
    Need::Impossible("cannot activate: setting baseos.activate is not set".to_owned())
}

/// The next step on a device that can activate images.
fn need_if_able(record: &ActivationRecord, config: &BaseOsConfig, running: &Running, policy: Policy) -> Need {
    if !config.activate {
        return Need::Nothing;
    }
    let uuid = &config.content_tree_uuid;
    let image = record
        .image(uuid)
        .filter(|image| image.config.base_os_version == config.base_os_version)
        .filter(|image| image.stage != Stage::DryRun || (policy.dry_run && image.boot_id == record.boot_id));
    let Some(image) = image else {
        return unrecorded(config, running, policy);
    };
    let need = recorded(image, record, running);
    if matches!(need, Need::Error(_) | Need::Nothing)
        && image.config.retry_update_counter != config.retry_update_counter
    {
        return Need::Activation;
    }
    need
}

/// The next step of an image without a record. It may be running already, because a controller also wants the running
/// image to be active. While the running version is not known, nothing is activated, except in a dry run, which
/// writes no image.
fn unrecorded(config: &BaseOsConfig, running: &Running, policy: Policy) -> Need {
    let version = &config.base_os_version;
    match running {
        Running::Version(running) if running == version => Need::Active,
        Running::Version(_) => Need::Activation,
        Running::Untold { system } if system == version => Need::Active,
        Running::Untold { .. } if policy.dry_run => Need::Activation,
        Running::Untold { .. } if !policy.can_activate => impossible(),
        Running::Untold { system } if system.is_empty() => {
            Need::Unknown("set baseos.current; os-release names no version".to_owned())
        }
        Running::Untold { system } => Need::Unknown(format!(
            "set baseos.current; os-release names version {system} of the system and no IMAGE_VERSION"
        )),
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

/// The device has booted since the activation: the running version shows whether it booted into this image.
fn after_boot(image: &ImageRecord, record: &ActivationRecord, running: &Running) -> Need {
    let is_superseded = record.is_superseded(&image.config.content_tree_uuid);
    match running {
        Running::Version(version) if *version == image.config.base_os_version => Need::Active,
        Running::Untold { system } if *system == image.config.base_os_version => Need::Active,
        Running::Untold { .. } | Running::Version(_) if is_superseded => Need::Nothing,
        Running::Untold { .. } if image.stage == Stage::Finished => Need::Active,
        Running::Untold { .. } => Need::Error(
            "interrupted: the activation has no result, and it is not known which version is running; set \
             baseos.current"
                .to_owned(),
        ),
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

/// The configuration of an accepted image that is in effect; None if it was reverted. A missing file counts as
/// reverted only in the boot that accepted the image or has seen its file (D14), or if another image that does not
/// run yet is to be activated: the controller has changed its mind while the device was down. That of the cluster is
/// reverted when the cluster may not command any more.
pub(crate) fn config_in_effect(current: &Accepted, facts: &Facts) -> Option<BaseOsConfig> {
    let accepted = || Some(current.config.clone());
    match facts.configs.get(&current.config.content_tree_uuid) {
        Some(Configured::Given(config)) => config.activate.then(|| config.clone()),
        Some(Configured::Unreadable | Configured::Refused(_)) => accepted(),
        None if current.source == Source::Cluster && !facts.obeys_cluster => None,
        None if facts.is_partial => accepted(),
        None if current.carried_over && !is_another_wanted(facts) => accepted(),
        None => None,
    }
}

fn is_another_wanted(facts: &Facts) -> bool {
    let runs = |version: &str| matches!(&facts.running, Running::Version(running) if running == version);
    let mut given = facts.configs.values().filter_map(Configured::given);
    given.any(|config| config.activate && !runs(&config.base_os_version))
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
            ..BaseOsConfig::default()
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

    const POLICY: Policy =
        Policy { retry: runtime::settings::Retry::Never, dry_run: false, can_activate: true };

    fn untold() -> Running {
        Running::Untold { system: String::new() }
    }

    /// The need as text, so that a table is readable; an error by its first word.
    fn words(need: Need) -> String {
        match need {
            Need::Error(error) => format!("error {}", error.split([':', ' ']).next().unwrap_or_default()),
            Need::Unknown(why) => format!("unknown {}", why.split(';').next().unwrap_or_default()),
            Need::Impossible(_) => "impossible".to_owned(),
            Need::Nothing | Need::Activation | Need::Reboot | Need::DryRun | Need::Active => {
                format!("{need:?}")
            }
        }
    }

    #[track_caller]
    fn check(record: &ActivationRecord, running: &Running, same_counter: &str, new_counter: &str) {
        for (counter, expected) in [(1, same_counter), (2, new_counter)] {
            let found = words(need(record, &config(counter), running, POLICY));
            assert_eq!(found, expected, "{record:?} {running:?} counter {counter}");
        }
    }

    #[test]
    fn an_image_without_a_record() {
        let none = ActivationRecord::new("now");
        check(&none, &untold(), "unknown set baseos.current", "unknown set baseos.current");
        let system = |system: &str| Running::Untold { system: system.to_owned() };
        check(&none, &system("12"), "unknown set baseos.current", "unknown set baseos.current");
        check(&none, &system("2.0"), "Active", "Active");
        check(&none, &version("1.0"), "Activation", "Activation");
        check(&none, &version("2.0"), "Active", "Active");
        check(&none, &Running::Unknown("busy".to_owned()), "unknown busy", "unknown busy");
        let unwanted = BaseOsConfig { activate: false, ..config(1) };
        assert_eq!(need(&none, &unwanted, &untold(), POLICY), Need::Nothing);
    }

    #[test]
    fn an_image_of_this_boot() {
        for running in [untold(), version("1.0")] {
            check(&record("now", Stage::Started, 1), &running, "error interrupted", "Activation");
            check(&record("now", Stage::Failed, 1), &running, "error exit", "Activation");
            check(&record("now", Stage::Finished, 1), &running, "Reboot", "Reboot");
        }
    }

    #[test]
    fn an_image_of_an_earlier_boot() {
        let started = |starts| record("before", Stage::Started, starts);
        let finished = record("before", Stage::Finished, 1);
        check(&finished, &untold(), "Active", "Active");
        check(&finished, &version("2.0"), "Active", "Active");
        check(&finished, &version("1.0"), "error image", "Activation");
        check(&started(1), &untold(), "error interrupted", "Activation");
        check(&started(1), &Running::Untold { system: "2.0".to_owned() }, "Active", "Active");
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
            let policy = Policy { dry_run, ..POLICY };
            assert_eq!(need(&record, &config(1), &version("1.0"), policy), expected, "{boot_id}");
        }
    }

    /// EVE's configuration of the image that is running must not reboot a device that has no settings.
    #[test]
    fn without_a_command_nothing_is_activated() {
        let policy = Policy { can_activate: false, ..POLICY };
        let none = ActivationRecord::new("now");
        let failed = record("before", Stage::Failed, 1);
        for running in [untold(), version("1.0")] {
            assert_eq!(words(need(&none, &config(1), &running, policy)), "impossible");
            assert_eq!(words(need(&failed, &config(2), &running, policy)), "impossible");
        }
        assert_eq!(need(&none, &config(1), &version("2.0"), policy), Need::Active);
        let dry_run = Policy { dry_run: true, ..policy };
        assert_eq!(need(&none, &config(1), &untold(), dry_run), Need::Activation);
        let finished = record("now", Stage::Finished, 1);
        assert_eq!(need(&finished, &config(1), &untold(), policy), Need::Reboot, "it is written already");
    }

    /// Two configurations that are both to be activated must not make the device alternate between them.
    #[test]
    fn an_image_that_another_one_replaced_is_not_activated_again() {
        let mut record = record("before", Stage::Finished, 1);
        let newer = BaseOsConfig { content_tree_uuid: "b".to_owned(), ..config(1) };
        record.start(&newer, Stage::Finished);
        check(&record, &untold(), "Nothing", "Activation");
        check(&record, &version("3.0"), "Nothing", "Activation");
        check(&record, &version("2.0"), "Active", "Active");
    }
}
