use std::future::ready;

use super::*;
use crate::agent::Agent;
use crate::flags::AgentFlags;

async fn context() -> (tempfile::TempDir, AgentContext) {
    let folder = tempfile::tempdir().unwrap();
    let flags = AgentFlags { root: folder.path().to_owned(), ..AgentFlags::default() };
    let agent = Agent::start("zedagent", &flags).await.unwrap();
    let context = agent.context();
    (folder, context)
}

/// The duration of the wait in milliseconds, and the event that ended it.
async fn waited(agent_loop: &AgentLoop, changed: impl Future<Output = &'static str>) -> (u128, &'static str) {
    let before = Instant::now();
    let ended_by = agent_loop.wait(changed).await.unwrap_or("time");
    (before.elapsed().as_millis(), ended_by)
}

#[tokio::test(start_paused = true)]
async fn what_ends_a_wait() {
    let (_folder, context) = context().await;
    let mut agent_loop = AgentLoop::begin(&context, Stop::new());
    assert_eq!(waited(&agent_loop, ready("file")).await, (0, "file"));
    agent_loop.succeeded(Some(Duration::from_secs(3)));
    assert_eq!(waited(&agent_loop, pending()).await, (3000, "time"));
    assert_eq!(waited(&agent_loop, ready("file")).await, (0, "file"));
    agent_loop.succeeded(None);
    let (millis, ended_by) = waited(&agent_loop, pending()).await;
    assert!((10_000..=25_000).contains(&millis) && ended_by == "time", "liveness: {millis}");
    // A time far beyond any calendar.
    agent_loop.succeeded(Some(Duration::MAX));
    assert_eq!(waited(&agent_loop, ready("file")).await, (0, "file"));
}

#[tokio::test(start_paused = true)]
async fn nothing_cuts_the_pause_after_a_failure_short_but_the_stop() {
    let (_folder, context) = context().await;
    let stop = Stop::new();
    let mut agent_loop = AgentLoop::begin(&context, stop.clone());
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        agent_loop.failed("disk full");
        assert_eq!(waited(&agent_loop, ready("file")).await, (seconds * 1000, "time"));
    }
    agent_loop.succeeded(None);
    assert_eq!(waited(&agent_loop, ready("file")).await, (0, "file"));
    agent_loop.failed("disk full");
    assert_eq!(waited(&agent_loop, ready("file")).await, (1000, "time"), "from the beginning");
    stop.request();
    assert_eq!(waited(&agent_loop, ready("file")).await, (0, "time"));
    assert!(agent_loop.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_when_it_is_new_and_then_once_a_minute() {
    let (_folder, context) = context().await;
    let mut agent_loop = AgentLoop::begin(&context, Stop::new());
    let mut logs = Vec::new();
    for (error, seconds) in [("a", 0), ("a", 30), ("a", 29), ("a", 1), ("a", 59), ("b", 0), ("a", 0)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let before = agent_loop.logged.clone();
        agent_loop.failed(error);
        logs.push(agent_loop.logged != before);
    }
    assert_eq!(logs, [true, false, false, true, false, true, true]);
}

#[test]
fn the_next_look_is_the_earliest_wake_up_or_at_once() {
    for (effects, expected) in [
        (&[][..], None),
        (&[Some(3_000)], Some(2_000)),
        (&[Some(3_000), Some(1_500)], Some(500)),
        (&[Some(500)], Some(0)),
        (&[Some(u64::MAX), None], Some(0)),
        (&[None, None], Some(0)),
    ] {
        let expected = expected.map(Duration::from_millis);
        assert_eq!(until_next_look(effects.iter().copied(), 1_000), expected, "{effects:?}");
    }
}
