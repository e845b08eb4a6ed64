//! Kills a publisher with SIGKILL at every step of a durable write.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use pubsub::failure_point::{KILL_AT, LIST_IN};
use pubsub::{Persistence, Published};

use crate::again::{check, command, role, say};
use crate::place::{
    AGENT, PERSISTENT, Place, VOLATILE, echo, follows, items, json, key, names, runtime, value,
};

const TEST: &str = "kill::whatever_step_is_the_last_a_file_has_the_old_value_or_the_new";
const ITEM: &str = "global.json";
const BACKUP: &str = "global.json.bak";

/// The operation during which the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    First,
    Overwrite,
    Delete,
    /// The process finds an empty item and its backup.
    Restore,
    /// The process raises the restart counter beside an item.
    Restart,
}

const ACTS: [Act; 5] = [Act::First, Act::Overwrite, Act::Delete, Act::Restore, Act::Restart];

#[derive(Debug, Clone, Copy)]
struct Case {
    persistence: Persistence,
    act: Act,
}

impl Case {
    fn all() -> Vec<Self> {
        let of = |persistence| ACTS.map(|act| Self { persistence, act });
        let all = [of(VOLATILE), of(PERSISTENT)].concat();
        all.into_iter().filter(|case| case.act != Act::Restore || case.persistence == PERSISTENT).collect()
    }

    /// The folder in its state before the operation.
    fn place(self) -> Place {
        let place = Place::with_folder(self.persistence);
        match self.act {
            Act::First => {}
            Act::Overwrite | Act::Delete | Act::Restart => {
                let (_lock, mut publisher) = place.open();
                publisher.publish(&key("global"), &value("oldest")).unwrap();
                publisher.publish(&key("global"), &value("old")).unwrap();
            }
            Act::Restore => {
                echo(&place.file(ITEM), "");
                echo(&place.file(BACKUP), &json("old"));
            }
        }
        place
    }

    /// The steps of the operation in their order, as in the protocol.
    fn steps(self) -> Vec<String> {
        let mut steps = writing("pid", false);
        let has_backup = self.persistence == PERSISTENT;
        steps.extend(match self.act {
            Act::First | Act::Restore => writing(ITEM, false),
            Act::Overwrite => writing(ITEM, has_backup),
            Act::Restart => writing("restarted", false),
            Act::Delete => removing(has_backup),
        });
        steps
    }

    /// The content that readers may see after these steps.
    fn context(self, steps: &[String]) -> Option<&'static str> {
        let has = |step: &str| steps.contains(&format!("{step} {ITEM}"));
        match self.act {
            Act::First => has("after renaming").then_some("new"),
            Act::Overwrite => Some(if has("after renaming") { "new" } else { "old" }),
            Act::Delete => (!has("after removing")).then_some("old"),
            Act::Restore => has("after renaming").then_some("old"),
            Act::Restart => Some("old"),
        }
    }
}

/// The steps of a write: temporary file created, half written, written, synced; backup likewise, renamed; item renamed;
/// folder synced.
fn writing(file: &str, has_backup: bool) -> Vec<String> {
    let filling = ["before writing half of", "before writing the rest of", "before writing through"];
    let renaming = ["before renaming", "after renaming"];
    let mut steps = vec![format!("before writing {file}")];
    steps.extend(filling.map(|step| format!("{step} {file}")));
    if has_backup {
        steps.extend(filling.into_iter().chain(renaming).map(|step| format!("{step} {file}.bak")));
    }
    steps.extend(renaming.into_iter().chain(["after syncing"]).map(|step| format!("{step} {file}")));
    steps
}

fn removing(has_backup: bool) -> Vec<String> {
    let backup = has_backup.then(|| format!("after removing {BACKUP}"));
    let item = ["before removing", "after removing", "after syncing"].map(|step| format!("{step} {ITEM}"));
    backup.into_iter().chain(item).collect()
}

#[test]
fn whatever_step_is_the_last_a_file_has_the_old_value_or_the_new() {
    if let Some(number) = role() {
        return act(Case::all()[number.parse::<usize>().unwrap()]);
    }
    let mut killed = 0;
    for (number, case) in Case::all().into_iter().enumerate() {
        let steps = listed(number, case);
        assert_eq!(steps, case.steps(), "{case:?}");
        // The steps of the lock are the same each time and are printed once.
        let own = if number == 0 { &steps } else { &steps[writing("pid", false).len()..] };
        say(&format!("{:?} {:?}, {} steps: {}", case.persistence, case.act, steps.len(), own.join(", ")));
        for last in 1..=steps.len() {
            check_killed(number, case, &steps[..last]);
            killed += 1;
        }
    }
    say(&format!("killed at {killed} steps"));
    assert!(100 < killed, "there are fewer steps than there were");
}

/// Runs in the process that is killed.
fn act(case: Case) {
    let place = Place::given(case.persistence);
    let (_lock, mut publisher) = place.open();
    match case.act {
        Act::First | Act::Overwrite => {
            publisher.publish(&key("global"), &value("new")).unwrap();
        }
        Act::Delete => assert!(publisher.unpublish(&key("global")).unwrap()),
        Act::Restore => {}
        Act::Restart => publisher.signal_restarted().unwrap(),
    }
}

/// Lets the process finish, and returns the steps that it reached.
fn listed(number: usize, case: Case) -> Vec<String> {
    let place = case.place();
    let list = place.root.path().join("list");
    let mut command = command(TEST, &number.to_string(), place.root.path());
    check(&command.env(LIST_IN, &list).output().unwrap());
    let short = |line: &str| {
        let (step, path) = line.split_once(" /").unwrap();
        let step = step.split_once(' ').unwrap().1;
        format!("{step} {}", path.rsplit('/').next().unwrap())
    };
    fs::read_to_string(list).unwrap().lines().map(short).collect()
}

/// Kills the process at the last of these steps, and checks the files that it left.
fn check_killed(number: usize, case: Case, steps: &[String]) {
    let place = case.place();
    runtime().block_on(async {
        let mut subscription = place.subscribe();
        let output = kill_at(number, &place, steps.len());
        let what = format!("{case:?} killed at {:?}", steps.last());
        assert_eq!(output.status.signal(), Some(9), "{what}: {output:?}");

        let context = case.context(steps);
        let (json, lost) = (context.map(json), (case.act == Act::Restore).then(String::new));
        assert_eq!(place.text(ITEM), json.or(lost), "{what}");
        let backup = place.text(BACKUP);
        assert!(
            backup.is_none_or(|text| ["oldest", "old"].map(crate::place::json).contains(&text)),
            "{what}"
        );
        let expected: Vec<_> = context.map(|context| ("global", context)).into_iter().collect();
        assert_eq!(place.read().items, items(&expected), "{what}");
        follows(&mut subscription, &expected, &what).await;

        let (lock, mut publisher) = place.open();
        let after_start: Vec<_> = if case.act == Act::Restore { vec![("global", "old")] } else { expected };
        assert_eq!(publisher.items(), &items(&after_start), "{what}");
        assert_eq!(publisher.restarted(), u64::from(steps.contains(&"after renaming restarted".to_owned())));
        check_only_finished_files(&place, &what);
        let published = publisher.publish(&key("global"), &value("later")).unwrap();
        assert_eq!(published, Published::Written, "{what}");
        check_only_finished_files(&place, &what);
        follows(&mut subscription, &[("global", "later")], &what).await;
        drop(lock);
    });
}

fn kill_at(number: usize, place: &Place, step: usize) -> Output {
    let mut command = command(TEST, &number.to_string(), place.root.path());
    command.env(KILL_AT, step.to_string()).output().unwrap()
}

#[track_caller]
fn check_only_finished_files(place: &Place, what: &str) {
    let finished = [ITEM, BACKUP, "restarted"];
    let others: Vec<_> = place.names().into_iter().filter(|name| !finished.contains(&&**name)).collect();
    assert_eq!(others, [""; 0], "{what}");
}

#[test]
fn a_kill_while_the_pid_file_is_written_leaves_nothing_behind() {
    let case = Case { persistence: VOLATILE, act: Act::First };
    let number = Case::all().iter().position(|other| other.act == case.act && other.persistence == VOLATILE);
    for step in 2..=5 {
        let place = case.place();
        kill_at(number.unwrap(), &place, step);
        let open = place.open();
        let expected = ["lock".to_owned(), "pid".to_owned()];
        assert_eq!(names(&place.root.lock_folder_of(AGENT)), expected.into(), "killed at step {step}");
        drop(open);
    }
}
