use std::sync::{Arc, Mutex};

use super::*;
use crate::agent::Agent;
use crate::flags::AgentFlags;

/// A machine that adds up the numbers of events from a task beside the loop.
#[derive(Debug)]
struct Counting;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Happened {
    Looked,
    Came(u32),
}

impl Machine for Counting {
    type Event = Happened;
    type State = u32;
    type Effect = u32;
    type Policy = ();

    fn step(state: u32, event: &Happened, _: Moment, (): &()) -> (u32, Vec<u32>) {
        match event {
            Happened::Looked => (state, Vec::new()),
            Happened::Came(number) => (state + number, vec![state + number]),
        }
    }

    fn wake_at(_: &u32) -> Option<u64> {
        None
    }
}

/// The effects that the shell has carried out, in order, and the events that are still to come.
#[derive(Debug, Default)]
struct World {
    done: Vec<String>,
    to_come: Option<u32>,
    on_disk: u32,
    /// Number of effects that fail.
    failures: u32,
    stop: Option<Stop>,
}

static WORLD: Mutex<Option<Arc<Mutex<World>>>> = Mutex::new(None);

struct CountingShell(Arc<Mutex<World>>);

impl CountingShell {
    fn note(&self, what: String) {
        self.0.lock().unwrap().done.push(what);
    }
}

impl Shell for CountingShell {
    type Machine = Counting;
    const NAME: &'static str = "counting";
    const FAILED: &'static str = "cannot count";

    fn open(_: &AgentContext) -> Result<Self, OpenError> {
        Ok(Self(WORLD.lock().unwrap().clone().unwrap()))
    }

    fn resume(&self) -> u32 {
        self.0.lock().unwrap().on_disk
    }

    fn policy(&self) {}

    fn look(&mut self, state: &u32, _: Moment) -> Happened {
        self.note(format!("look at {state}"));
        Happened::Looked
    }

    fn perform(&mut self, effect: &u32) -> Result<(), EffectError> {
        let mut world = self.0.lock().unwrap();
        if 0 < world.failures {
            world.failures -= 1;
            return Err("disk full".into());
        }
        world.on_disk = *effect;
        world.done.push(format!("write {effect}"));
        Ok(())
    }

    async fn changed(&mut self, _: &u32) -> Option<Happened> {
        let (next, is_over) = {
            let mut world = self.0.lock().unwrap();
            (world.to_come.take(), world.done.last().is_some_and(|done| done == "look at 2"))
        };
        if is_over {
            self.0.lock().unwrap().stop.as_ref().unwrap().request();
        } else if next.is_none() {
            std::future::pending::<()>().await;
        }
        next.map(Happened::Came)
    }

    fn show_trouble(&mut self, state: &u32, wanted: &u32, error: &str) {
        self.note(format!("{state}, not {wanted}: {error}"));
    }

    fn tell(&self, before: &u32, after: &u32, is_first: bool) {
        if is_first || before != after {
            self.note(format!("is {after}"));
        }
    }
}

/// After a failure the loop goes on from what is on disk: the event from the task is used again, and a snapshot
/// follows.
#[tokio::test(start_paused = true)]
async fn what_comes_from_beside_is_not_lost_by_a_failure() {
    let stop = Stop::new();
    let world = World { to_come: Some(2), failures: 2, stop: Some(stop.clone()), ..World::default() };
    let world = Arc::new(Mutex::new(world));
    *WORLD.lock().unwrap() = Some(world.clone());
    let folder = tempfile::tempdir().unwrap();
    let flags = AgentFlags { root: folder.path().to_owned(), ..AgentFlags::default() };
    let agent = Agent::start("zedagent", &flags).await.unwrap();
    run::<CountingShell>(agent.context(), stop).await.unwrap();
    assert_eq!(
        world.lock().unwrap().done,
        ["look at 0", "is 0", "0, not 2: disk full", "0, not 2: disk full", "write 2", "is 2", "look at 2"]
    );
}

#[test]
fn a_line_of_the_log_has_separated_parts() {
    assert_eq!(
        log_line(["reboot 2: deferred", "all slots are taken", "wait"]),
        "reboot 2: deferred; all slots are taken; wait"
    );
    assert_eq!(log_line(["no operation is pending", "", ""]), "no operation is pending");
}
