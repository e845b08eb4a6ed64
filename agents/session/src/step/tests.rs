//! Scenarios, told on a small simulated cluster with a clock of its own.

use drain::view::{PodId, PodView};

use super::*;
use crate::membership::Mode;
use crate::policy::Otherwise;
use crate::state::{Failed, OWNER};

const SECOND: Duration = Duration::from_secs(1);

/// A cluster that answers effects at once, and a clock that jumps to the next wake-up.
struct Sim {
    state: State,
    now: Moment,
    policy: Policy,
    wake: Option<Moment>,
    reachable: bool,
    cordon_refused: bool,
    own: NodeView,
    others: Vec<NodeView>,
    pods: Vec<PodView>,
    evictable: bool,
    /// Each status that was shown, with the requester's number.
    shown: Vec<(u8, u8)>,
    /// Effects in order, as words.
    done: Vec<String>,
}

impl Sim {
    /// A member of a cluster of two, with two pods here, at rest.
    fn new() -> Self {
        Self::with(Policy::device())
    }

    fn with(policy: Policy) -> Self {
        let node =
            |name: &str| NodeView { name: name.into(), uid: name.into(), ready: true, ..NodeView::default() };
        let mut sim = Self {
            state: State::new(Member::Yes, "boot".into(), Moment(1_000_000)),
            now: Moment(1_000_000),
            policy,
            wake: None,
            reachable: true,
            cordon_refused: false,
            own: node("own"),
            others: vec![node("peer")],
            pods: vec![pod("1"), pod("2")],
            evictable: true,
            shown: vec![],
            done: vec![],
        };
        sim.send(Event::Facts(Facts { mode: Mode::Auto, has_kubeconfig: true, eve_config_valid: None }));
        sim
    }

    fn send(&mut self, event: Event) {
        let mut queue = std::collections::VecDeque::from([event]);
        while let Some(event) = queue.pop_front() {
            let (state, effects) = step(std::mem::take(&mut self.state), event, self.now, &self.policy);
            self.state = state;
            self.wake = None;
            for effect in effects {
                queue.extend(self.perform(effect));
            }
        }
    }

    /// Carries one effect out; what changed is also seen by the watches.
    fn perform(&mut self, effect: Effect) -> Vec<Event> {
        let answer = self.answer_to(effect);
        let picture = self.state.wants_picture().then(|| Event::Picture(self.picture()));
        let changed = matches!(answer, Some(Event::Answer { .. } | Event::Cordoned { .. }));
        answer.into_iter().chain(picture.filter(|_| changed)).collect()
    }

    fn answer_to(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Publish => {
                let next = (self.state.shown.status as u8, self.state.shown.requested_by.number());
                if self.shown.last() != Some(&next) {
                    self.shown.push(next);
                }
                None
            }
            Effect::Look { serial } => {
                let nodes = std::iter::once(&self.own).chain(&self.others).cloned().collect();
                let look = Look { nodes, own: Ok(self.own.clone()) };
                Some(Event::Looked { serial, result: self.answer(look) })
            }
            Effect::Probe { serial } => {
                Some(Event::Probed { serial, result: self.answer(Some(self.own.clone())) })
            }
            Effect::Cordon { serial } => {
                self.done.push("cordon".into());
                Some(Event::Cordoned { serial, result: self.cordon() })
            }
            Effect::Uncordon { serial } => {
                self.done.push("uncordon".into());
                let result = if self.reachable { Ok(()) } else { Err("refused".into()) };
                if result.is_ok() && self.own.cordoned_by.take().is_some() {
                    self.own.cordoned = false;
                }
                Some(Event::Uncordoned { serial, result })
            }
            Effect::Drain(drain::Effect::Prove { attempt, .. }) => {
                let look = if self.reachable { Ok(self.picture()) } else { Err("refused".into()) };
                Some(Event::Proof { attempt, look })
            }
            Effect::Drain(drain::Effect::Evict { attempt, pod, .. }) => {
                self.done.push(format!("evict {pod}"));
                Some(self.evict(attempt, &pod))
            }
            Effect::Drain(_) => None,
            Effect::WakeAt(moment) => {
                self.wake = Some(moment);
                None
            }
        }
    }

    fn answer<T>(&self, value: T) -> Result<T, Trouble> {
        if self.reachable { Ok(value) } else { Err(Trouble::Unreachable("connection refused".into())) }
    }

    fn cordon(&mut self) -> Result<Cordoned, Trouble> {
        if self.cordon_refused {
            return Err(Trouble::Denied("cannot patch nodes".into()));
        }
        let before = self.own.cordoned && self.own.cordoned_by.is_none();
        if self.reachable && !self.own.cordoned {
            (self.own.cordoned, self.own.cordoned_by) = (true, Some(OWNER.into()));
        }
        self.answer(Cordoned { node: self.own.clone(), before })
    }

    fn evict(&mut self, attempt: u32, pod: &PodId) -> Event {
        let answer = if self.evictable {
            self.pods.retain(|present| present.id != *pod);
            drain::Answer::Accepted
        } else {
            drain::Answer::Budget(drain::answer::BudgetRefusal { text: "no".into(), after: None })
        };
        Event::Answer { attempt, uid: pod.uid.clone(), answer }
    }

    fn picture(&self) -> Arc<Picture> {
        Arc::new(Picture { node: Some(self.own.clone()), pods: self.pods.clone(), ..Picture::default() })
    }

    fn show_picture(&mut self) {
        if self.state.wants_picture() {
            self.send(Event::Picture(self.picture()));
        }
    }

    /// Lets time pass, with every wake-up on the way, and the watches speaking each time.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        self.show_picture();
        while let Some(wake) = self.wake.filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.send(Event::Tick);
            self.show_picture();
        }
        self.now = end;
    }

    fn ask(&mut self, requesters: &[(Requester, &str)]) {
        let request = |&(requester, at): &(Requester, &str)| Request {
            requester,
            context: "reboot".into(),
            requested_at: at.into(),
            publisher: "zedagent".into(),
            answer: Answer::None,
        };
        self.send(Event::Requests(requesters.iter().map(request).collect()));
    }

    fn reboot(&mut self) {
        self.ask(&[(Requester::DeviceOp, "1")]);
    }

    fn statuses(&self) -> Vec<u8> {
        self.shown.iter().map(|&(status, _)| status).collect()
    }

    fn outcome(&self) -> Option<Outcome> {
        match &self.state.phase {
            Phase::Complete { outcome, .. } => Some(*outcome),
            _ => None,
        }
    }

    fn count(&self, word: &str) -> usize {
        self.done.iter().filter(|done| done.starts_with(word)).count()
    }
}

fn pod(uid: &str) -> PodView {
    PodView { id: PodId { namespace: "a".into(), name: uid.into(), uid: uid.into() }, ..PodView::default() }
}

#[test]
fn a_reboot_request_is_drained_and_answered() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(2 * SECOND);
    assert_eq!(sim.shown, [(2, 1), (3, 2), (4, 2), (5, 2), (9, 2)]);
    assert_eq!(sim.done, ["cordon", "evict a/1", "evict a/2"]);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    assert_eq!(sim.state.requests.iter().map(|r| r.answer).collect::<Vec<_>>(), [Answer::Complete]);
}

#[test]
fn requested_is_shown_a_second_at_least() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(SECOND.checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!((sim.outcome(), sim.statuses().last()), (Some(Outcome::Drained), Some(&5)));
    sim.pass(Duration::from_millis(1));
    assert_eq!(sim.statuses().last(), Some(&9));
}

#[test]
fn beside_zedbox_nobody_sees_cordoned_and_answers_wait_for_the_redial() {
    let mut sim = Sim::with(Policy { beside_zedbox: true, ..Policy::device() });
    sim.reboot();
    sim.pass(11 * SECOND);
    assert_eq!(sim.statuses(), [2, 3, 4], "EVE's zedagent lets a command through at CORDONED");
    sim.pass(SECOND);
    assert_eq!(sim.statuses(), [2, 3, 4, 9]);
}

#[test]
fn one_drain_answers_all_who_ask_update_first() {
    let mut sim = Sim::new();
    sim.ask(&[(Requester::DeviceOp, "1"), (Requester::Update, "1")]);
    sim.pass(2 * SECOND);
    assert_eq!(sim.shown.last(), Some(&(9, 3)));
    sim.pass(5 * SECOND);
    assert_eq!(sim.shown.last(), Some(&(9, 2)));
    assert_eq!(sim.count("cordon"), 1);
}

#[test]
fn a_late_request_is_answered_after_a_fresh_look() {
    let mut sim = Sim::new();
    sim.ask(&[(Requester::Update, "1")]);
    sim.pass(10 * SECOND);
    sim.ask(&[(Requester::Update, "1"), (Requester::DeviceOp, "1")]);
    sim.pass(10 * SECOND);
    assert_eq!(sim.shown, [(2, 1), (3, 3), (4, 3), (5, 3), (9, 3), (3, 2), (9, 2)]);
    assert_eq!((sim.count("cordon"), sim.state.session.number), (1, 1));
}

#[test]
fn a_late_request_begins_anew_when_the_node_is_not_empty() {
    let mut sim = Sim::new();
    sim.ask(&[(Requester::Update, "1")]);
    sim.pass(10 * SECOND);
    sim.pods = vec![pod("3")];
    sim.ask(&[(Requester::Update, "1"), (Requester::DeviceOp, "1")]);
    sim.pass(SECOND);
    assert_eq!((sim.state.session.number, sim.count("evict a/3")), (2, 1));
    sim.pass(20 * SECOND);
    assert_eq!(sim.shown.iter().filter(|shown| **shown == (9, 3)).count(), 2, "the first is answered again");
}

#[test]
fn complete_falls_back_when_it_is_not_true_any_more() {
    for uncordoned in [true, false] {
        let mut sim = Sim::new();
        sim.reboot();
        sim.pass(10 * SECOND);
        assert_eq!(sim.statuses().last(), Some(&9));
        if uncordoned {
            (sim.own.cordoned, sim.own.cordoned_by) = (false, None);
        } else {
            sim.pods = vec![pod("3")];
        }
        sim.show_picture();
        sim.pass(10 * SECOND);
        assert_eq!(sim.shown, [(2, 1), (3, 2), (4, 2), (5, 2), (9, 2), (3, 2), (4, 2), (5, 2), (9, 2)]);
    }
}

#[test]
fn a_late_watch_does_not_take_complete_back() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(10 * SECOND);
    let old = Picture { pods: vec![pod("1")], ..Picture::clone(&sim.picture()) };
    sim.send(Event::Picture(Arc::new(old)));
    assert_eq!((sim.statuses().last(), sim.state.session.number), (Some(&9), 1));
}

#[test]
fn cancel_uncordons_from_every_phase() {
    let setups: [(&str, fn(&mut Sim)); 5] = [
        ("Waiting", |sim| sim.others.clear()),
        ("Cordoning", |sim| sim.cordon_refused = true),
        ("Attempting", |sim| sim.evictable = false),
        ("Pausing", |sim| {
            sim.evictable = false;
            sim.policy.drain.attempt_timeout = SECOND;
        }),
        ("Complete", |_| {}),
    ];
    for (phase, set_up) in setups {
        let mut sim = Sim::new();
        set_up(&mut sim);
        sim.reboot();
        sim.pass(3 * SECOND);
        assert_eq!(sim.state.phase.name(), phase);
        let evictions = sim.count("evict");
        sim.ask(&[]);
        assert_eq!(sim.state.phase.name(), "Idle", "{phase}");
        assert_eq!(sim.shown.last(), Some(&(2, 1)), "{phase}");
        sim.pass(60 * SECOND);
        assert!(!sim.own.cordoned, "{phase}: the cordon is taken back");
        assert_eq!(sim.count("evict"), evictions, "{phase}: no eviction after the cancel");
    }
}

#[test]
fn somebody_elses_cordon_is_used_and_stays() {
    let mut sim = Sim::new();
    sim.own.cordoned = true;
    sim.reboot();
    sim.pass(2 * SECOND);
    assert_eq!((sim.outcome(), sim.state.session.cordoned_before), (Some(Outcome::Drained), true));
    sim.ask(&[]);
    sim.pass(60 * SECOND);
    assert!(sim.own.cordoned);
    assert_eq!(sim.count("uncordon"), 0);
}

#[test]
fn the_cordon_is_tried_ten_times_five_seconds_apart() {
    let mut sim = Sim::new();
    sim.cordon_refused = true;
    sim.reboot();
    sim.pass((45 * SECOND).checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!((sim.count("cordon"), sim.state.phase.name()), (9, "Cordoning"));
    sim.pass(2 * SECOND);
    assert_eq!((sim.count("cordon"), sim.shown.last()), (10, Some(&(6, 2))));
    assert!(
        matches!(&sim.state.phase, Phase::Failed(Failed::Cordon(text)) if text.contains("cannot patch nodes"))
    );
}

#[test]
fn five_attempts_are_really_five() {
    let mut sim = Sim::new();
    sim.evictable = false;
    sim.policy.drain.attempt_timeout = 10 * SECOND;
    sim.reboot();
    let attempt = 10 * SECOND;
    let pause = sim.policy.retry_pause;
    sim.pass((4 * (attempt + pause) + attempt).checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!((sim.state.session.attempts.len(), sim.shown.last()), (4, Some(&(7, 2))));
    sim.pass(SECOND);
    assert_eq!((sim.state.session.attempts.len(), sim.shown.last()), (5, Some(&(8, 2))));
    assert_eq!(sim.statuses(), [2, 3, 4, 5, 7, 8]);
    sim.pass(60 * SECOND);
    assert!(!sim.own.cordoned, "a failed drain gives the node back");
    assert_eq!(sim.shown.last(), Some(&(8, 2)), "and is still shown as failed");
    sim.ask(&[]);
    assert_eq!(sim.shown.last(), Some(&(2, 1)));
}

#[test]
fn a_new_request_after_a_failure_begins_anew() {
    let mut sim = Sim::new();
    sim.cordon_refused = true;
    sim.reboot();
    sim.pass(60 * SECOND);
    assert_eq!(sim.state.phase.name(), "Failed");
    sim.cordon_refused = false;
    sim.ask(&[(Requester::DeviceOp, "2")]);
    sim.pass(2 * SECOND);
    assert_eq!((sim.outcome(), sim.shown.last()), (Some(Outcome::Drained), Some(&(9, 2))));
}

#[test]
fn an_uncordon_by_hand_costs_the_attempt_and_the_next_one_cordons_again() {
    let mut sim = Sim::new();
    sim.evictable = false;
    sim.reboot();
    sim.pass(2 * SECOND);
    (sim.own.cordoned, sim.evictable) = (false, true);
    sim.show_picture();
    assert_eq!(sim.state.phase.name(), "Pausing");
    sim.pass(sim.policy.retry_pause);
    sim.pass(2 * SECOND);
    assert_eq!((sim.outcome(), sim.own.cordoned, sim.count("cordon")), (Some(Outcome::Drained), true, 2));
}

#[test]
fn an_unreachable_api_is_waited_for_and_then_complete_or_not() {
    for (otherwise, outcome) in
        [(Otherwise::Complete, Some(Outcome::ApiUnreachable)), (Otherwise::Wait, None)]
    {
        let mut sim = Sim::with(Policy { on_unreachable: otherwise, ..Policy::device() });
        sim.reachable = false;
        sim.reboot();
        sim.pass(299 * SECOND);
        assert_eq!((sim.outcome(), sim.statuses().last()), (None, Some(&3)));
        sim.pass(10 * SECOND);
        assert_eq!(sim.outcome(), outcome);
        assert_eq!(sim.count("cordon"), 0);
    }
}

#[test]
fn only_an_outage_on_end_counts() {
    let mut sim = Sim::new();
    sim.others.clear();
    sim.policy.on_no_peer = Otherwise::Wait;
    sim.reboot();
    for _ in 0..3 {
        sim.reachable = false;
        sim.pass(200 * SECOND);
        sim.reachable = true;
        sim.pass(10 * SECOND);
    }
    assert_eq!(sim.outcome(), None);
}

#[test]
fn an_outage_in_mid_drain_stops_the_clocks() {
    let mut sim = Sim::new();
    sim.evictable = false;
    sim.policy.drain.attempt_timeout = 300 * SECOND;
    sim.reboot();
    sim.pass(2 * SECOND);
    sim.reachable = false;
    sim.pass(10 * 60 * SECOND);
    assert_eq!((sim.state.phase.name(), sim.statuses().last()), ("Attempting", Some(&5)));
    (sim.reachable, sim.evictable) = (true, true);
    sim.pass(90 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

#[test]
fn without_a_peer_the_window_passes_and_nothing_is_cordoned() {
    let mut sim = Sim::new();
    sim.others.clear();
    sim.reboot();
    sim.pass(119 * SECOND);
    assert_eq!(sim.outcome(), None);
    sim.pass(10 * SECOND);
    assert_eq!((sim.outcome(), sim.count("cordon")), (Some(Outcome::NoSchedulablePeer), 0));
}

#[test]
fn who_counts_as_a_peer() {
    let change: [(&str, fn(&mut NodeView), bool); 4] = [
        ("ready", |_| {}, true),
        ("cordoned", |node| node.cordoned = true, false),
        ("tie-breaker", |node| node.tie_breaker = true, false),
        ("not ready", |node| node.ready = false, false),
    ];
    for (name, change, is_peer) in change {
        let mut sim = Sim::new();
        change(&mut sim.others[0]);
        sim.reboot();
        sim.pass(10 * SECOND);
        assert_eq!(sim.outcome().is_some(), is_peer, "{name}");
    }
}

#[test]
fn a_peer_that_may_be_rebooting_is_waited_for_longer() {
    let mut sim = Sim::new();
    sim.others[0].ready = false;
    sim.reboot();
    sim.pass(29 * 60 * SECOND);
    assert_eq!(sim.outcome(), None);
    sim.pass(70 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::NoSchedulablePeer));
}

#[test]
fn a_cordon_from_before_the_boot_is_taken_back_when_the_node_is_ready() {
    let mut sim = Sim::new();
    (sim.own.cordoned, sim.own.cordoned_by, sim.own.ready) = (true, Some(OWNER.into()), false);
    sim.pass(130 * SECOND);
    assert!(sim.own.cordoned, "not Ready");
    (sim.own.ready, sim.own.boot_id) = (true, "another boot".into());
    sim.pass(130 * SECOND);
    assert!(sim.own.cordoned, "the kubelet still reports the last boot");
    sim.own.boot_id = "boot".into();
    sim.pass(130 * SECOND);
    assert!(!sim.own.cordoned);
}

#[test]
fn an_uncordon_is_retried_for_ever() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(2 * SECOND);
    sim.reachable = false;
    sim.ask(&[]);
    sim.pass(3600 * SECOND);
    assert!(sim.own.cordoned && sim.count("uncordon") > 10);
    sim.reachable = true;
    sim.pass(600 * SECOND);
    assert!(!sim.own.cordoned);
}

#[test]
fn no_member_is_not_supported_and_nothing_is_drained() {
    let mut sim = Sim::new();
    sim.others.clear();
    sim.pass(120 * SECOND);
    assert_eq!(sim.shown.last(), Some(&(1, 1)), "one node alone is no cluster");
    sim.reboot();
    sim.pass(120 * SECOND);
    assert_eq!((sim.statuses().last(), sim.count("cordon")), (Some(&1), 0));
}

#[test]
fn membership_does_not_change_while_somebody_asks() {
    let mut sim = Sim::new();
    sim.evictable = false;
    sim.reboot();
    sim.pass(2 * SECOND);
    sim.send(Event::Facts(Facts { mode: Mode::Never, ..Facts::default() }));
    assert_eq!((sim.state.member, sim.state.phase.name()), (Member::Yes, "Attempting"));
    sim.ask(&[]);
    sim.send(Event::Facts(Facts { mode: Mode::Never, ..Facts::default() }));
    assert_eq!(sim.shown.last(), Some(&(1, 1)));
}

#[test]
fn a_machine_that_the_cluster_does_not_know_fails_with_words() {
    let mut sim = Sim::new();
    sim.reachable = false;
    sim.reboot();
    let Some(serial) = sim.state.api.asked.or(Some(sim.state.serial + 1)) else { return };
    let look = Look { nodes: vec![], own: Err("no Node of this cluster is this machine".into()) };
    sim.send(Event::Looked { serial, result: Ok(look) });
    assert!(matches!(&sim.state.phase, Phase::Failed(Failed::Cordon(text)) if text.contains("this machine")));
}

#[test]
fn rights_that_are_missing_fail_after_as_many_looks_as_cordon_tries() {
    let mut sim = Sim::new();
    sim.reachable = false;
    sim.reboot();
    for _ in 0..sim.policy.cordon_tries {
        let result = Err(Trouble::Denied("cannot list nodes".into()));
        sim.send(Event::Looked { serial: sim.state.serial + 1, result });
    }
    assert!(
        matches!(&sim.state.phase, Phase::Failed(Failed::Cordon(text)) if text.contains("cannot list nodes"))
    );
}
