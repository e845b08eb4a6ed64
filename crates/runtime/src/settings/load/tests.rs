//! Tests of layers, origins, problems, and the values in effect after a mistake.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use drain::policy::{
    MaxRetries, Method, OnDetachTimeout, Stateful, StatefulOrder, StatefulParallel, UnhealthyNode, Volumes,
};
use drain::rule::{Behaviour, Rule};
use schemas::{ConfigItemType, ConfigItemValue, OnTimeout};
use session::policy::{Mode, OnUnavailable};
use tempfile::TempDir;

use super::super::notation::Retry;
use super::*;
use crate::flags::Assignment;

const VENDOR: &str = "usr/lib/ebb/ebb.toml";
const MAIN: &str = "etc/ebb/ebb.toml";

/// The settings files of a device in a folder.
struct Device {
    folder: TempDir,
    flags: AgentFlags,
    controller: Option<ConfigItemValueMap>,
}

impl Device {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), flags: AgentFlags::default(), controller: None }
    }

    fn with(self, path: &str, text: &str) -> Self {
        self.write(path, text);
        self
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    fn set(mut self, key: &str, value: &str) -> Self {
        self.flags.set.push(Assignment { key: key.to_owned(), value: value.to_owned() });
        self
    }

    fn config(mut self, path: &str) -> Self {
        self.flags.config.push(self.path(path));
        self
    }

    fn controlled(mut self, key: &str, value: ConfigItemValue) -> Self {
        self.controller.get_or_insert_default().global_settings.insert(key.to_owned(), value);
        self
    }

    fn load(&self) -> Loaded {
        load(&Root::new(self.folder.path()), &self.flags, self.controller.as_ref())
    }

    fn reload(&self, before: &Loaded) -> Loaded {
        before.reload(&Root::new(self.folder.path()), &self.flags, self.controller.as_ref())
    }

    /// The problems, with paths relative to the root.
    fn told(&self, loaded: &Loaded) -> Vec<String> {
        let root = format!("{}/", self.folder.path().display());
        loaded.problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
    }

    /// A value with its origin, relative to the root.
    fn value(&self, loaded: &Loaded, key: &str) -> String {
        let root = format!("{}/", self.folder.path().display());
        loaded.in_effect(&by_key(&*loaded.settings), key).replace(&root, "")
    }
}

fn integer(number: u32) -> ConfigItemValue {
    ConfigItemValue { item_type: ConfigItemType::INT, int_value: number, ..ConfigItemValue::default() }
}

fn text(text: &str) -> ConfigItemValue {
    ConfigItemValue {
        item_type: ConfigItemType::STRING,
        str_value: text.to_owned(),
        ..ConfigItemValue::default()
    }
}

#[test]
fn without_any_layer_the_defaults_hold() {
    let loaded = Device::new().load();
    assert_eq!(loaded.problems, []);
    assert!(loaded.shown().iter().all(|shown| shown.origin == "default"));
    assert_eq!(*loaded.settings, Settings::default());
}

/// Every value differs from its default and from the others, so that two keys that are mixed up are found.
const EVERY_KEY: &str = r#"
    unhealthy-node = "force"
    api-unreachable = "wait"
    no-peer = "wait"
    force.ttl = "57s"
    cordon = { tries = 59, pause = "60s" }
    slots = { limit = 72, group = "line-3", wait = "73s", down-max = "74s" }
    drain = { attempts = 75, retry-pause = "76s", attempt-timeout = "61m", settle = "62s" }
    api = { freeze-limit = "63s", unreachable-timeout = "77s" }
    peer.window = "78s"
    evict = { concurrency = 64, retry = "65s", max-retries = 66 }
    stateful = { parallel = 61, order = "lowest-first" }
    volumes = { detach-timeout = "67s", reattach-timeout = "68s", on-detach-timeout = "proceed" }

    [pods]
    force = false
    ignore-daemonsets = false
    delete-emptydir-data = false
    grace-period = "69s"
    skip-wait-for-delete-timeout = "70s"
    wait-finished = true
    keep-apps = ["mine"]

    [[rule]]
    name = "first"
    selector = "app in (db), !canary"
    namespace = "shop"
    owner-kind = "StatefulSet"
    behaviour = "skip"
    order = -7
    grace = "71s"

    [[rule]]
    name = "second"
    behaviour = "wait-completed"

    [[rule]]
    name = "third"

    [health]
    command = ["true"]
    interval = "58s"
"#;

#[test]
fn every_key_is_found_in_the_policy() {
    let seconds = Duration::from_secs;
    let first = Rule {
        name: "first".into(),
        selector: Some("app in (db), !canary".parse().unwrap()),
        namespace: Some("shop".into()),
        owner_kind: Some("StatefulSet".into()),
        behaviour: Behaviour::Skip,
        order: -7,
        grace: Some(seconds(71)),
    };
    let second = Rule { name: "second".into(), behaviour: Behaviour::WaitCompleted, ..Rule::default() };
    let third = Rule { name: "third".into(), ..Rule::default() };
    let drain = drain::Policy {
        force: false,
        ignore_daemonsets: false,
        delete_emptydir_data: false,
        grace_period: Some(seconds(69)),
        skip_wait_for_delete: Some(seconds(70)),
        wait_finished: true,
        keep_apps: BTreeSet::from(["mine".to_owned()]),
        pod_selector: None,
        rules: vec![first, second, third],
        method: Method::Evict,
        max_retries: MaxRetries::Times(66),
        unhealthy_node: UnhealthyNode::Force,
        stateful: Stateful { parallel: StatefulParallel::Count(61), order: StatefulOrder::LowestFirst },
        volumes: Volumes {
            detach_timeout: seconds(67),
            reattach_timeout: seconds(68),
            on_detach_timeout: OnDetachTimeout::Proceed,
        },
        concurrency: 64,
        retry: seconds(65),
        attempt_timeout: Duration::from_mins(61),
        settle: seconds(62),
        freeze_limit: seconds(63),
        deadline_freezes: true,
    };
    let expected = session::Policy {
        drain,
        attempts: 75,
        retry_pause: seconds(76),
        cordon_tries: 59,
        cordon_pause: seconds(60),
        unreachable_timeout: seconds(77),
        on_unreachable: OnUnavailable::Wait,
        peer_window: seconds(78),
        on_no_peer: OnUnavailable::Wait,
        down_max: seconds(74),
        wait_limit: Some(seconds(73)),
        slots_limit: 72,
        slots_group: Some("kube-system/line-3".to_owned()),
        has_health_command: true,
        health_interval: seconds(58),
        force_ttl: seconds(57),
        beside_zedbox: false,
    };
    let loaded = Device::new().with(MAIN, EVERY_KEY).load();
    assert_eq!(loaded.problems, []);
    assert_eq!(loaded.settings.policy, expected);
}

#[test]
fn words_of_zero_and_of_no_limit_have_their_meaning() {
    let policy = |text: &str| Device::new().with(MAIN, text).load().settings.policy.clone();
    for (text, expected) in [
        ("evict.max-retries = \"-\"", MaxRetries::Unlimited),
        ("evict.max-retries = \"auto\"", MaxRetries::Auto),
        ("evict.max-retries = 0", MaxRetries::Times(0)),
    ] {
        assert_eq!(policy(text).drain.max_retries, expected, "{text}");
    }
    assert_eq!(policy("slots.wait = \"0s\"").wait_limit, None);
    for (text, expected) in [("0s", Retry::Never), ("1m", Retry::After(Duration::from_mins(1)))] {
        assert_eq!(Device::new().set("baseos.retry", text).load().settings.baseos.retry, expected);
    }
}

/// Each layer in turn sets its number; the last one counts.
#[test]
fn later_layers_win() {
    let key = "kubernetes.drain.timeout";
    let toml = |hours: u32| format!("{key} = {hours}\n");
    let mut device = Device::new();
    let expect = |device: &Device, value: &str| {
        let loaded = device.load();
        assert_eq!(loaded.problems, []);
        assert_eq!(device.value(&loaded, key), value);
    };
    expect(&device, "24 (default)");
    device = device.with(VENDOR, &toml(1));
    expect(&device, "1 (usr/lib/ebb/ebb.toml:1)");
    device = device.with(MAIN, &format!("# ours\n\n{}", toml(2)));
    expect(&device, "2 (etc/ebb/ebb.toml:3)");
    device = device.with("etc/ebb/ebb.d/20-b.toml", &toml(4)).with("etc/ebb/ebb.d/10-a.toml", &toml(3));
    expect(&device, "4 (etc/ebb/ebb.d/20-b.toml:1)");
    // Files that editors leave beside the settings.
    device = device.with("etc/ebb/ebb.d/.30-c.toml", "half").with("etc/ebb/ebb.d/30-c.toml~", &toml(99));
    expect(&device, "4 (etc/ebb/ebb.d/20-b.toml:1)");
    device = device.controlled(key, integer(5)).controlled("network.fallback.any.eth", text("enabled"));
    expect(&device, "5 (controller)");
    device = device
        .with("first.toml", &toml(6))
        .config("first.toml")
        .with("second.toml", &toml(7))
        .config("second.toml");
    expect(&device, "7 (second.toml:1)");
    device = device.set(key, "8").set(key, "9");
    expect(&device, "9 (--set)");
}

#[test]
fn tables_and_dotted_keys_are_equal() {
    for file in [
        "drain.attempts = 7\ndrain.start.timeout = \"1m\"",
        "[drain]\nattempts = 7\nstart.timeout = \"1m\"",
        "[drain]\nattempts = 7\n[drain.start]\ntimeout = \"1m\"",
        "drain = { attempts = 7, start = { timeout = \"1m\" } }",
        "\"drain.attempts\" = 7\n[\"drain.start\"]\ntimeout = \"1m\"",
        "\u{feff}drain.attempts = 7\r\n[cordon]\r\n[drain.start]\r\ntimeout = \"1m\"\r\n",
    ] {
        let loaded = Device::new().with(MAIN, file).load();
        assert_eq!(loaded.problems, [], "{file}");
        assert_eq!(loaded.settings.policy.attempts, 7, "{file}");
        assert_eq!(loaded.settings.drain.start_timeout, Duration::from_mins(1), "{file}");
    }
}

#[test]
fn an_empty_section_says_nothing_but_an_empty_value_is_a_mistake() {
    let device = Device::new().with(MAIN, "[cordon]\n[slots]\n# limit = 2\n[drain]\nattempts = {}");
    let problem = "etc/ebb/ebb.toml:5: drain.attempts = a table with 0 entries is not accepted; \
                   accepted: a number from 1 to 100; in effect: 5 (default)";
    assert_eq!(device.told(&device.load()), [problem]);
}

#[test]
fn our_durations_win_over_eves_numbers() {
    let device = Device::new()
        .with(MAIN, "[drain]\nattempt-timeout = \"90m\"\n[api]\nunreachable-timeout = \"2s\"\n[peer]\nwindow = \"3s\"")
        .controlled("kubernetes.drain.timeout", integer(1));
    let settings = device.load().settings;
    assert_eq!(settings.policy.drain.attempt_timeout, Duration::from_mins(90));
    assert_eq!(settings.policy.unreachable_timeout, Duration::from_secs(2));
    assert_eq!(settings.policy.peer_window, Duration::from_secs(3));
    // `-` makes the setting with the number count again.
    let settings = device.set("drain.attempt-timeout", "-").load().settings;
    assert_eq!(settings.policy.drain.attempt_timeout, Duration::from_hours(1));
}

/// D26.
#[test]
fn nothing_overflows_at_any_allowed_value() {
    let settings = Device::new()
        .controlled("kubernetes.drain.timeout", integer(u32::MAX))
        .controlled("drain.skip.k8sapinotreachable.timeout", integer(u32::MAX))
        .controlled("kubernetes.drain.allnodes.config.multiple", integer(1000))
        .controlled("timer.config.interval", integer(86_400))
        .load()
        .settings;
    assert_eq!(settings.eve.drain_timeout, Duration::from_hours(u32::MAX.into()));
    assert_eq!(settings.policy.drain.attempt_timeout, Duration::from_hours(4_294_967_295));
    assert_eq!(settings.policy.unreachable_timeout, Duration::from_secs(4_294_967_295));
    assert_eq!(settings.policy.peer_window, Duration::from_hours(24_000));
    // The sum with any boot clock fits into the milliseconds that decisions use.
    let millis = u64::try_from(settings.policy.drain.attempt_timeout.as_millis()).unwrap();
    assert!(millis.checked_add(1000 * 365 * 86_400_000).is_some());
}

#[test]
fn every_problem_is_told_at_once() {
    let device = Device::new()
        .with(VENDOR, "[drain]\nattempts = 0\nfoo = 1\n\n[[rule]]\nnmae = \"x\"")
        .with(MAIN, "[cordon]\ntries = \"ten\"\nunhealthy-node = \"off\"\n[slots]\nwait = 24")
        .with("etc/ebb/ebb.d/bad.toml", "a = \nb = ]\n")
        .controlled("kubernetes.drain.timeout", integer(0))
        .controlled("timer.config.interval", text("60"))
        .config("missing.toml")
        .set("drain.attempts", "101")
        .set("nonsense", "1");
    let loaded = device.load();
    let safe = "in effect: api-unreachable = wait (missing.toml), no-peer = wait (missing.toml), \
                drain.start.on-timeout = wait (missing.toml)";
    let told = device.told(&loaded);
    let expected = [
        "usr/lib/ebb/ebb.toml:2: drain.attempts = 0 is not accepted; accepted: a number from 1 to 100; in effect: 5 (default)".to_owned(),
        "usr/lib/ebb/ebb.toml:3: drain.foo = 1 is not accepted; accepted: drain.attempt-timeout, drain.attempts, \
         drain.retry-pause, drain.settle, drain.skip.k8sapinotreachable.timeout, drain.start.timeout, drain.start.on-timeout".to_owned(),
        "usr/lib/ebb/ebb.toml:6: rule.nmae = \"x\" is not accepted; accepted: name, selector, namespace, owner-kind, behaviour, order, grace; \
         in effect: no rule of this file".to_owned(),
        "usr/lib/ebb/ebb.toml:5: rule.name = nothing is not accepted; accepted: a text of 1 to 63 characters; in effect: no rule of this file".to_owned(),
        "etc/ebb/ebb.toml:2: cordon.tries = \"ten\" is not accepted; accepted: a number from 1 to 100; in effect: 10 (default)".to_owned(),
        "etc/ebb/ebb.toml:3: cordon.unhealthy-node = \"off\" is not accepted; accepted: `unhealthy-node`; it must stand above the first [section]".to_owned(),
        "etc/ebb/ebb.toml:5: slots.wait = 24 is not accepted; accepted: a duration such as `90s`, from 0s to 10y; `0s` for ever; in effect: 1d (default)".to_owned(),
    ];
    for (told, expected) in told.iter().zip(&expected) {
        assert_eq!(told, expected);
    }
    let (bad_file, rest): (Vec<&String>, Vec<&String>) =
        told.iter().skip(expected.len()).partition(|line| line.starts_with("etc/ebb/ebb.d/bad.toml:"));
    for start in
        ["etc/ebb/ebb.d/bad.toml:1: the file is ignored: ", "etc/ebb/ebb.d/bad.toml:2: the file is ignored: "]
    {
        assert!(bad_file.iter().any(|line| line.starts_with(start) && line.ends_with(safe)), "{start}");
    }
    assert_eq!(
        rest,
        [
            "controller: kubernetes.drain.timeout = 0 is not accepted; accepted: a number from 1 to 4294967295 (hours, without unit); in effect: 24 (default)",
            "controller: timer.config.interval = \"60\" is not accepted; accepted: a number from 5 to 86400 (seconds, without unit); in effect: 60 (default)",
            &format!(
                "missing.toml: the file is ignored: there is no such file; accepted: a settings file; {safe}"
            ),
            "--set: drain.attempts = 101 is not accepted; accepted: a number from 1 to 100; in effect: 5 (default)",
            "--set: nonsense = 1 is not accepted; accepted: a setting that `ebb config show` lists",
        ]
    );
    assert_eq!(loaded.bad_flags().len(), 2);
}

/// A typo must not make a device go down undrained.
#[test]
fn three_bad_values_become_wait_and_later_layers_still_win() {
    let device = Device::new()
        .with(VENDOR, "api-unreachable = \"complete\"\nno-peer = \"complete\"\ndrain.attempts = 9")
        .with(MAIN, "api-unreachable = \"wiat\"\nno-peer = true\ndrain.attempts = \"x\"\n[drain.start]\non-timeout = \"complete\"");
    let loaded = device.load();
    assert_eq!(loaded.problems.len(), 4);
    assert_eq!(device.value(&loaded, "api-unreachable"), "wait (etc/ebb/ebb.toml:1)");
    assert_eq!(device.value(&loaded, "no-peer"), "wait (etc/ebb/ebb.toml:2)");
    assert_eq!(device.value(&loaded, "drain.start.on-timeout"), "wait (etc/ebb/ebb.toml:5)");
    assert_eq!(device.value(&loaded, "drain.attempts"), "9 (usr/lib/ebb/ebb.toml:3)");

    let loaded = device.set("no-peer", "complete").load();
    assert_eq!(loaded.settings.policy.on_no_peer, OnUnavailable::Complete);
    assert_eq!(loaded.settings.policy.on_unreachable, OnUnavailable::Wait);
}

#[test]
fn an_unusable_file_is_passed_over_and_the_three_wait() {
    type Spoil = fn(&Device);
    let cases: [(&str, Spoil); 6] = [
        ("syntax", |device| device.write(MAIN, "drain.attempts = 9\n[broken\n")),
        ("writable by others", |device| {
            device.write(MAIN, "drain.attempts = 9");
            fs::set_permissions(device.path(MAIN), fs::Permissions::from_mode(0o666)).unwrap();
        }),
        ("a link", |device| {
            device.write("real.toml", "drain.attempts = 9");
            fs::create_dir_all(device.path("etc/ebb")).unwrap();
            std::os::unix::fs::symlink(device.path("real.toml"), device.path(MAIN)).unwrap();
        }),
        ("a folder", |device| fs::create_dir_all(device.path(MAIN)).unwrap()),
        ("too long", |device| device.write(MAIN, &format!("drain.attempts = 9\n{}", "#".repeat(300_000)))),
        ("nested", |device| device.write(MAIN, &format!("{}a = 1", "a.".repeat(100_000)))),
    ];
    for (name, spoil) in cases {
        let device = Device::new().with(VENDOR, "drain.attempts = 7");
        spoil(&device);
        let loaded = device.load();
        assert_eq!(loaded.settings.policy.attempts, 7, "{name}");
        assert!(!loaded.problems.is_empty(), "{name}");
        assert!(loaded.problems.iter().all(|problem| problem.origin.is_from(&device.path(MAIN))), "{name}");
        assert_eq!(loaded.settings.policy.on_unreachable, OnUnavailable::Wait, "{name}");
        assert_eq!(loaded.settings.policy.on_no_peer, OnUnavailable::Wait, "{name}");
        assert_eq!(loaded.settings.drain.start_on_timeout, OnTimeout::Wait, "{name}");
    }
}

/// A typo must not let a command begin at the wrong time. A change with a mistake keeps the window from before it.
#[test]
fn a_window_with_a_mistake_never_opens() {
    let good = "[window]\nfrom = \"02:00\"\nto = \"04:00\"\n";
    for (text, is_mistaken) in [
        (good, false),
        ("drain.attempts = \"x\"", false),
        ("[window]\ndays = [\"su\"]\nfrom = \"02:00\"\nto = \"04:00\"", true),
        ("[window]\nfrom = 2\nto = 4", true),
        ("[window]\nform = \"02:00\"", true),
        ("[windows]\nfrom = \"02:00\"", true),
        ("window = \"02:00\"", true),
        ("[broken", true),
    ] {
        let device = Device::new().with(MAIN, text);
        let loaded = device.load();
        assert_eq!(loaded.settings.window.is_mistaken, is_mistaken, "{text}");
        let told = device.told(&loaded).join("; ");
        let has_key = is_mistaken && text != "[broken";
        assert_eq!(told.contains("in effect: the window never opens"), has_key, "{told}");
        assert_eq!(device.reload(&loaded), loaded);

        device.write(MAIN, good);
        let mended = device.reload(&loaded);
        assert!(!mended.settings.window.is_mistaken && mended.settings.window.is_set(), "{text}");
        device.write(MAIN, &format!("{text}\n"));
        let window = &device.reload(&mended).settings.window;
        assert!(!window.is_mistaken, "{text}");
        assert!(!is_mistaken || *window == mended.settings.window, "{text}: {window:?}");
    }
}

#[test]
fn no_content_of_a_file_is_a_panic_or_endless() {
    let garbage: Vec<String> = (0..400_u32).map(|n| format!("k{n} = {n}")).collect();
    for text in
        ["\0", "\u{7f}", "= = =", "[[[", "a = 99999999999999999999999", "a = nan", "'''", &garbage.join("\n")]
    {
        let loaded = Device::new().with(MAIN, text).load();
        assert!((1..=MOST_PROBLEMS).contains(&loaded.problems.len()), "{text:?}");
    }
    let device = Device::new().with(MAIN, "");
    #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
    fs::write(device.path(MAIN), [0xff, 0xfe]).unwrap();
    assert_eq!(device.load().problems[0].value, "it is not UTF-8");
}

#[test]
fn the_controller_may_set_eves_keys_only() {
    let loaded = Device::new()
        .controlled("storage.longhorn.node-drain-policy", text("always-allow"))
        .controlled("drain.attempts", integer(1))
        .controlled("no-peer", text("wait"))
        .load();
    assert_eq!(loaded.problems, []);
    assert_eq!(loaded.settings.longhorn.node_drain_policy.word(), "always-allow");
    assert_eq!(loaded.settings.policy.attempts, 5);
    assert_eq!(loaded.settings.policy.on_no_peer, OnUnavailable::Auto);
}

#[test]
fn a_bad_live_change_keeps_the_old_values() {
    let device = Device::new().with(MAIN, "drain.attempts = 9\ncordon.tries = 3\nno-peer = \"complete\"");
    let first = device.load();

    device.write(MAIN, "drain.attempts = 0\ncordon.tries = 4\nno-peer = \"nonsense\"");
    let second = device.reload(&first);
    assert_eq!(second.problems.len(), 2);
    assert_eq!((second.settings.policy.attempts, second.settings.policy.cordon_tries), (9, 4));
    assert_eq!(second.settings.policy.on_no_peer, OnUnavailable::Complete, "the old value");

    device.write(MAIN, "drain.attempts = 0\n[broken");
    let third = device.reload(&second);
    assert_eq!(
        (third.settings.policy.attempts, third.settings.policy.cordon_tries),
        (9, 4),
        "all of the file stays"
    );
    assert_eq!(device.reload(&third), third, "and goes on to stay");

    let fresh = Device::new().with(MAIN, "");
    let defaults = fresh.load();
    fresh.write(MAIN, "drain.attempts = 0");
    let same = fresh.reload(&defaults);
    assert_eq!((same.problems.len(), same.settings, same.origins), (1, defaults.settings, defaults.origins));

    device.write(MAIN, "drain.attempts = 2");
    let fourth = device.reload(&third);
    assert_eq!(fourth.problems, []);
    assert_eq!((fourth.settings.policy.attempts, fourth.settings.policy.cordon_tries), (2, 10));
}

/// A folder that cannot be listed for the moment may hold a file with a safe word.
#[test]
fn an_unusable_folder_keeps_what_came_from_its_files() {
    let drop_in = "etc/ebb/ebb.d/10-ours.toml";
    let device = Device::new().with(drop_in, "no-peer = \"wait\"\n[[rule]]\nname = \"quiet\"");
    let first = device.load();
    fs::remove_dir_all(device.path("etc/ebb/ebb.d")).unwrap();
    device.write("etc/ebb/ebb.d", "not a folder");
    let second = device.reload(&first);
    assert_eq!(second.problems.len(), 1);
    assert_eq!(second.settings, first.settings);
    assert_eq!(device.value(&second, "no-peer"), "wait (etc/ebb/ebb.d/10-ours.toml:1)");
}

#[test]
fn a_file_that_was_bad_at_the_start_goes_on_to_wait() {
    let device = Device::new().with(MAIN, "[broken");
    let first = device.load();
    assert_eq!(device.reload(&first), first);
    device.write(MAIN, "# nothing");
    assert_eq!(device.reload(&first).settings.policy.on_no_peer, OnUnavailable::Auto);
}

#[test]
fn what_cannot_change_live_waits_for_a_restart() {
    let device = Device::new().with(MAIN, "[cluster]\nmode = \"always\"");
    let first = device.load();
    device.write(MAIN, "[cluster]\nmode = \"never\"\n[slots]\nlimit = 2");
    let second = device.reload(&first);
    assert_eq!(second.settings.cluster.mode, Mode::Always);
    assert_eq!(second.settings.policy.slots_limit, 2);
    assert_eq!(second.after_restart, ["cluster.mode"]);
    assert_eq!(second.problems, []);
    assert_eq!(device.load().settings.cluster.mode, Mode::Never);
}

#[test]
fn node_and_kubeconfig_are_settings() {
    let mut device = Device::new().with(MAIN, "node.name = \"from-file\"");
    device.flags.node = Some("edge".to_owned());
    device.flags.kubeconfig = Some("k.yaml".into());
    let loaded = device.load();
    assert_eq!(loaded.problems, []);
    assert_eq!(loaded.settings.node.name.as_deref(), Some("edge"));
    assert_eq!(loaded.settings.cluster.kubeconfig, Some(std::path::absolute("k.yaml").unwrap()));
    device.flags.node = Some("Not A Node".to_owned());
    let loaded = device.load();
    assert_eq!(loaded.bad_flags()[0].origin, Origin::Flag("--node"));
    assert_eq!(loaded.settings.node.name.as_deref(), Some("from-file"));
}

mod rules;
