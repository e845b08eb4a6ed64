//! Invariants that hold after every step, whatever happens in whatever order.

use proptest::prelude::*;

use super::*;
use crate::answer::BudgetRefusal;
use crate::view::{BudgetView, NodeView, Phase, PodView, Terminating};
use selector::Selector;

fn any_pod() -> impl Strategy<Value = PodView> {
    (0..12_u8, any::<bool>(), any::<bool>()).prop_map(|(uid, terminating, mirror)| PodView {
        id: PodId { namespace: "a".into(), name: format!("pod-{uid}"), uid: uid.to_string() },
        phase: Phase::Running,
        mirror: mirror && uid % 4 == 0,
        terminating: terminating.then(Terminating::default),
        ..PodView::default()
    })
}

fn any_picture() -> impl Strategy<Value = Picture> {
    let node = prop_oneof![8 => Just(Some(true)), 1 => Just(Some(false)), 1 => Just(None)];
    let budget = (0..4_i32, 0..9_u8).prop_map(|(allowed, version)| BudgetView {
        namespace: "a".into(),
        name: "b".into(),
        version: version.to_string(),
        selector: Some(Selector::default()),
        disruptions_allowed: allowed,
        ..BudgetView::default()
    });
    let pods = prop_oneof![Just(vec![]), prop::collection::vec(any_pod(), 0..8)];
    (node, pods, prop::option::of(budget)).prop_map(|(node, mut pods, budget)| {
        pods.sort_by(|a: &PodView, b| a.id.cmp(&b.id));
        pods.dedup_by(|a, b| a.id == b.id);
        let node = node.map(|cordoned| NodeView { cordoned, ..NodeView::default() });
        Picture { node, pods, budgets: budget.into_iter().collect(), ..Picture::default() }
    })
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let text = String::new;
    prop_oneof![
        Just(Answer::Accepted),
        Just(Answer::Gone),
        Just(Answer::Budget(BudgetRefusal::default())),
        Just(Answer::TwoBudgets),
        Just(Answer::Webhook { text: text() }),
        Just(Answer::NamespaceTerminating),
        Just(Answer::Throttled { after: None, text: text() }),
        Just(Answer::Retry { text: text() }),
        Just(Answer::Final { text: text() }),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (1..3_u32).prop_map(|attempt| Event::Start { attempt, api_back: None }),
        1 => Just(Event::Cancel),
        8 => any_picture().prop_map(|picture| Event::Picture(Arc::new(picture))),
        8 => (1..3_u32, 0..12_u8, any_answer())
            .prop_map(|(attempt, uid, answer)| Event::Answer { attempt, uid: uid.to_string(), answer }),
        6 => (1..3_u32, any_picture())
            .prop_map(|(attempt, picture)| Event::Proof { attempt, look: Ok(Arc::new(picture)) }),
        1 => (1..3_u32).prop_map(|attempt| Event::Proof { attempt, look: Err(String::new()) }),
        1 => Just(Event::ApiAway),
        1 => Just(Event::ApiBack),
        4 => Just(Event::Tick),
    ]
}

fn policy() -> Policy {
    Policy {
        concurrency: 4,
        attempt_timeout: Duration::from_mins(2),
        freeze_limit: Duration::from_mins(1),
        ..Policy::device()
    }
}

fn attempt(state: &State) -> Option<&Attempt> {
    crate::progress::attempt(state)
}

/// One step as the invariants see it.
struct Seen<'a> {
    before: &'a State,
    event: &'a Event,
    after: &'a State,
    effects: &'a [Effect],
    now: Moment,
}

impl Seen<'_> {
    fn ended_as(state: &State, outcome: &Outcome) -> bool {
        matches!(state, State::Ended(_, found) if found == outcome)
    }

    fn sends(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Evict { .. } | Effect::Delete { .. }))
    }

    fn drained_means_no_evictable_pod(&self) {
        if Self::ended_as(self.after, &Outcome::Drained) && !Self::ended_as(self.before, &Outcome::Drained) {
            let Event::Proof { look: Ok(picture), .. } = self.event else {
                panic!("drained without a fresh list, by {:?}", self.event)
            };
            let left = crate::plan::plan(picture, &policy()).iter().any(crate::plan::Planned::must_leave);
            assert!(!left && picture.node.as_ref().is_some_and(|node| node.cordoned));
        }
    }

    fn no_eviction_while_schedulable(&self) {
        if self.sends() {
            let picture = attempt(self.after).and_then(|attempt| attempt.picture.as_ref());
            assert!(picture.is_some_and(|picture| picture.node.as_ref().is_some_and(|node| node.cordoned)));
        }
    }

    fn one_drain_at_a_time(&self) {
        if let (
            State::Draining(before) | State::Proving(before, _),
            State::Draining(after) | State::Proving(after, _),
        ) = (self.before, self.after)
        {
            assert_eq!((before.number, before.started), (after.number, after.started));
        }
    }

    fn failed_or_cancelled_never_completes_later(&self) {
        let over = matches!(self.before, State::Idle | State::Ended(..));
        if over && !matches!(self.event, Event::Start { .. } | Event::Cancel) {
            assert_eq!(self.before, self.after);
            assert!(self.effects.is_empty());
        }
    }

    fn deadline_is_never_success(&self) {
        if let State::Ended(attempt, Outcome::Drained) = self.after
            && self.before != self.after
        {
            assert!(self.now < attempt.deadline);
        }
    }

    fn no_effect_after_cancel(&self) {
        if matches!(self.event, Event::Cancel) {
            assert_eq!(self.after, &State::Idle);
            assert!(self.effects.iter().all(|effect| *effect == Effect::Abort));
        }
    }

    fn nothing_is_sent_while_the_api_is_away(&self) {
        if attempt(self.after).is_some_and(|attempt| attempt.away_since.is_some()) {
            assert!(!self.sends());
        }
    }

    fn in_flight_is_limited(&self) {
        let sent = attempt(self.after)
            .map_or(0, |attempt| attempt.pods.values().filter(|track| track.stage == Stage::Sent).count());
        assert!(sent <= policy().concurrency, "{sent} in flight");
    }

    fn a_live_attempt_always_wakes(&self) {
        if matches!(self.after, State::Draining(_) | State::Proving(..))
            && !matches!(self.event, Event::Start { .. })
        {
            assert!(self.effects.iter().any(|effect| matches!(effect, Effect::WakeAt(_))));
        }
    }

    fn check(&self) {
        self.drained_means_no_evictable_pod();
        self.no_eviction_while_schedulable();
        self.one_drain_at_a_time();
        self.failed_or_cancelled_never_completes_later();
        self.deadline_is_never_success();
        self.no_effect_after_cancel();
        self.nothing_is_sent_while_the_api_is_away();
        self.in_flight_is_limited();
        self.a_live_attempt_always_wakes();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold(events in prop::collection::vec((any_event(), 0..20_000_u64), 1..40)) {
        let mut state = State::Idle;
        let mut now = Moment(1_000_000);
        for (event, millis) in events {
            now = now + Duration::from_millis(millis);
            let before = state.clone();
            let (after, effects) = step(state, event.clone(), now, &policy());
            Seen { before: &before, event: &event, after: &after, effects: &effects, now }.check();
            state = after;
        }
    }

    /// A cluster that does what it is told is always drained, whatever refusals come in between.
    #[test]
    fn a_cooperative_cluster_is_drained(refusals in prop::collection::vec(any::<bool>(), 0..40), count in 0..30_u8) {
        let pods = (0..count).map(|uid| PodView {
            id: PodId { namespace: "a".into(), name: format!("pod-{uid}"), uid: uid.to_string() },
            ..PodView::default()
        }).collect();
        let mut cluster = Cluster { pods, refusals, now: Moment(1_000_000) };
        prop_assert_eq!(cluster.drain(), Outcome::Drained);
    }
}

/// A cluster that ends each evicted pod at once, after some refusals.
struct Cluster {
    pods: Vec<PodView>,
    refusals: Vec<bool>,
    now: Moment,
}

impl Cluster {
    fn drain(&mut self) -> Outcome {
        let policy = Policy { attempt_timeout: Duration::from_hours(24), ..policy() };
        let start = Event::Start { attempt: 1, api_back: None };
        let mut queue = std::collections::VecDeque::from([start, Event::Picture(self.picture())]);
        let mut state = State::Idle;
        let mut wake = Moment::NEVER;
        for _ in 0..10_000 {
            let event = queue.pop_front().unwrap_or_else(|| {
                self.now = self.now.max(wake);
                Event::Tick
            });
            let (after, effects) = step(state, event, self.now, &policy);
            for effect in effects {
                match effect {
                    Effect::Evict { pod, .. } | Effect::Delete { pod, .. } => queue.extend(self.evict(&pod)),
                    Effect::Prove { attempt, .. } => {
                        queue.push_back(Event::Proof { attempt, look: Ok(self.picture()) });
                    }
                    Effect::WakeAt(at) => wake = at,
                    Effect::Inquire { .. } | Effect::Abort => {}
                }
            }
            if let State::Ended(_, outcome) = after {
                return outcome;
            }
            state = after;
        }
        panic!("not drained after 10,000 steps: {state:?}")
    }

    fn picture(&self) -> Arc<Picture> {
        let node = Some(NodeView { cordoned: true, ..NodeView::default() });
        Arc::new(Picture { node, pods: self.pods.clone(), ..Picture::default() })
    }

    fn evict(&mut self, pod: &PodId) -> Vec<Event> {
        let answered = |answer| Event::Answer { attempt: 1, uid: pod.uid.clone(), answer };
        if self.refusals.pop() == Some(true) {
            return vec![answered(Answer::Budget(BudgetRefusal::default()))];
        }
        self.pods.retain(|present| present.id != *pod);
        vec![answered(Answer::Accepted), Event::Picture(self.picture())]
    }
}
