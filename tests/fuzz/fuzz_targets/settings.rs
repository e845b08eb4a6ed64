//! The settings of a device: any files, any values of the controller, any flags. They are complete and within the limits
//! of docs/settings.md, each mistake names its place, and a second reading gives the same.
//!
//! Parts: `file PATH` (below the root), `config` (a file of `--config`), `set KEY` (the value is the content),
//! `controller` (a ConfigItemValueMap). What stands after `@ change` is written over the first state for a live change.
#![no_main]

use std::fs;
use std::path::{Component, Path};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use parts::{Part, parts};
use pubsub::Root;
use runtime::AgentFlags;
use runtime::flags::Assignment;
use runtime::settings::{Loaded, Origin, load};
use schemas::{ConfigItemValueMap, parse};

/// A device as its parts describe it.
#[derive(Default)]
struct Device {
    flags: AgentFlags,
    controller: Option<ConfigItemValueMap>,
}

impl Device {
    fn take(&mut self, root: &Path, part: &Part<'_>) {
        match part.word(0) {
            "file" => write(root, part.word(1), part.content),
            "config" => {
                write(root, "given.toml", part.content);
                self.flags.config = vec![root.join("given.toml")];
            }
            "set" => self.flags.set.push(Assignment { key: part.word(1).to_owned(), value: part.text() }),
            "controller" => self.controller = parse(part.content).ok(),
            _ => {}
        }
    }
}

/// Writes a file below the root; what cannot be a file there is left out.
fn write(root: &Path, name: &str, content: &[u8]) {
    let name = Path::new(name);
    let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
    if let Some(folder) = name.parent().filter(|_| is_below) {
        fs::create_dir_all(root.join(folder)).unwrap_or_default();
        fs::write(root.join(name), content).unwrap_or_default();
    }
}

/// A duration in the notation of the page.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "y" => 365 * 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}

/// The two limits in a sentence such as `a number from 1 to 100`.
fn limits<T>(accepted: &str, before: &str, read: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let (least, rest) = accepted.split_once(before)?.1.split_once(" to ")?;
    let most = rest.split([' ', ',', ';']).next()?;
    Some((read(least)?, read(most)?))
}

/// Every value is within the limits that the page names, and is accepted again as it is shown.
fn check_values(loaded: &Loaded) {
    let mut flags = AgentFlags::default();
    for setting in loaded.shown() {
        let (value, accepted) = (setting.value.as_str(), setting.accepted);
        let number = |text: &str| text.parse::<i64>().ok();
        if let (Some(value), Some((least, most))) =
            (number(value), limits(accepted, "a number from ", number))
        {
            assert!(least <= value && value <= most, "{} = {value}", setting.key);
        }
        let span = limits(accepted, "such as `90s`, from ", duration);
        if let (Some(value), Some((least, most))) = (duration(value), span) {
            assert!(least <= value && value <= most, "{} = {value:?}", setting.key);
        }
        // A default is accepted anyway, and each flag costs time.
        if loaded.origins.contains_key(setting.key) {
            flags.set.push(Assignment { key: setting.key.to_owned(), value: value.to_owned() });
        }
    }
    let nowhere = Root::new("/nowhere");
    let again = load(&nowhere, &flags, None);
    assert_eq!(again.problems, [], "a value in effect is refused");
    let values =
        |loaded: &Loaded| loaded.shown().into_iter().map(|one| (one.key, one.value)).collect::<Vec<_>>();
    assert_eq!(values(&again), values(loaded));
}

fn check_problems(loaded: &Loaded) {
    assert!(loaded.problems.len() <= 200);
    for problem in &loaded.problems {
        let text = problem.to_string();
        assert!(!text.contains(char::is_control) && !problem.accepted.is_empty(), "{text:?}");
        match &problem.origin {
            Origin::File { line: Some(line), .. } => assert!(*line > 0, "{text}"),
            Origin::File { line: None, .. } => assert!(problem.key.is_empty(), "{text}"),
            Origin::Controller | Origin::Flag(_) => {}
            Origin::Default => panic!("a mistake in a default: {text}"),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let place = Path::new("/dev/shm");
    let folder = if place.is_dir() { tempfile::tempdir_in(place) } else { tempfile::tempdir() };
    let folder = folder.expect("a temporary folder");
    let root = Root::new(folder.path());
    let all = parts(input);
    let mut states = all.split(|part| part.word(0) == "change");
    let mut device = Device::default();
    states.next().into_iter().flatten().for_each(|part| device.take(folder.path(), part));
    let mut loaded = load(&root, &device.flags, device.controller.as_ref());
    assert_eq!(load(&root, &device.flags, device.controller.as_ref()), loaded);
    assert_eq!(loaded.reload(&root, &device.flags, device.controller.as_ref()), loaded);
    check_values(&loaded);
    check_problems(&loaded);
    for change in states.take(3) {
        change.iter().for_each(|part| device.take(folder.path(), part));
        loaded = loaded.reload(&root, &device.flags, device.controller.as_ref());
        let again = loaded.reload(&root, &device.flags, device.controller.as_ref());
        assert_eq!(again, loaded, "nothing has changed");
        check_values(&loaded);
        check_problems(&loaded);
    }
});
