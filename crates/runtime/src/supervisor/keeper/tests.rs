use super::*;

const CRASHED: ExitKind = ExitKind::Signal(Signal::SIGABRT);
const BAD_FLAG: ExitKind = ExitKind::Exit(2);

fn pid(number: i32) -> Pid {
    Pid::from_raw(number)
}

/// Checks the pauses in seconds for one agent that runs and ends as listed, one time after the other.
#[track_caller]
fn check(lives: &[(u64, ExitKind)], expected: &[u64]) {
    let mut keeper = Children::new(&[Agent::Zedkube]);
    let mut now_ms = 5;
    let mut pauses = Vec::new();
    for &(seconds, how) in lives {
        assert_eq!(keeper.due(now_ms), [Agent::Zedkube]);
        keeper.started(Agent::Zedkube, pid(7), now_ms);
        assert_eq!((keeper.due(u64::MAX), keeper.wake_at()), (Vec::new(), None), "it runs");
        now_ms += seconds * 1000;
        let ended = keeper.ended(pid(7), how, now_ms).unwrap();
        assert_eq!((ended.agent, ended.lived_ms), (Agent::Zedkube, seconds * 1000));
        let pause_ms = ended.pause.as_secs() * 1000;
        assert_eq!(keeper.wake_at(), Some(now_ms + pause_ms));
        assert_eq!(keeper.due(now_ms + pause_ms - 1), []);
        now_ms += pause_ms;
        pauses.push(ended.pause.as_secs());
    }
    assert_eq!(pauses, expected, "{lives:?}");
}

#[test]
fn how_long_an_agent_waits() {
    check(&[(0, CRASHED); 9], &[1, 2, 4, 8, 16, 32, 60, 60, 60]);
    check(&[(0, ExitKind::Exit(0)), (59, ExitKind::Exit(1))], &[1, 2]);
    // The agent had run long enough that earlier failures do not count.
    check(&[(0, CRASHED), (0, CRASHED), (60, CRASHED), (0, CRASHED)], &[1, 2, 1, 2]);
    // Wrong flags do not become right by themselves.
    check(&[(0, BAD_FLAG), (0, BAD_FLAG), (60, BAD_FLAG)], &[60, 60, 60]);
}

#[test]
fn any_number_of_failures_has_a_pause() {
    for failures in [0, 1, 33, u32::MAX] {
        let pause = pause_after(failures);
        assert!((FIRST_PAUSE..=LONGEST_PAUSE).contains(&pause), "{failures}: {pause:?}");
    }
}

#[test]
fn each_agent_for_itself() {
    let mut keeper = Children::new(&[Agent::Zedkube, Agent::Baseos]);
    assert_eq!(keeper.due(0), [Agent::Zedkube, Agent::Baseos]);
    keeper.started(Agent::Zedkube, pid(7), 0);
    assert_eq!(keeper.did_not_start(Agent::Baseos, 0), FIRST_PAUSE);
    assert_eq!(keeper.running(), [(Agent::Zedkube, pid(7))]);
    assert_eq!(keeper.ended(pid(8), CRASHED, 0), None, "an orphan that is no agent");
    assert_eq!(keeper.did_not_start(Agent::Baseos, 1000), FIRST_PAUSE * 2);
    assert_eq!((keeper.due(2999), keeper.due(3000)), (vec![], vec![Agent::Baseos]));
    assert!(keeper.ended(pid(7), CRASHED, 3000).is_some());
    assert_eq!(keeper.ended(pid(7), CRASHED, 3000), None, "only once");
    assert_eq!(keeper.wake_at(), Some(3000));
    assert_eq!(keeper.due(4000), [Agent::Zedkube, Agent::Baseos]);
}

/// The touch file keeps the same time for the listed seconds.
#[test]
fn an_agent_that_hangs_is_ended() {
    let mut keeper = Children::new(&[Agent::Zedkube, Agent::Baseos]);
    keeper.started(Agent::Zedkube, pid(7), 0);
    let mut look = |touched: Option<u128>, seconds: u64| {
        let hung = keeper.hung(|agent| touched.filter(|_| agent == Agent::Zedkube), seconds * 1000);
        hung.into_iter().map(|hung| (hung.pid.as_raw(), hung.signal)).collect::<Vec<_>>()
    };
    assert_eq!(look(None, 10_000), [], "no file: it cannot be made, or the agent is about to make it");
    assert_eq!(look(Some(1), 10_000), [], "left from its predecessor, or its first beat");
    assert_eq!(look(Some(1), 10_179), []);
    assert_eq!(look(Some(2), 10_180), [], "a beat");
    assert_eq!(look(Some(2), 10_359), []);
    assert_eq!(look(Some(2), 10_360), [(7, Signal::SIGTERM)]);
    assert_eq!(look(Some(2), 10_361), [], "it has time to end");
    assert_eq!(look(Some(2), 10_362), [(7, Signal::SIGKILL)]);
    assert_eq!(look(Some(2), 10_363), []);
    assert_eq!(look(Some(2), 10_364), [(7, Signal::SIGKILL)], "it hangs in the kernel");
    assert_eq!(look(Some(1), 10_365), [], "any other time is a beat, also an earlier one");
}
