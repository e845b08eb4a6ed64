//! Invariants that hold after every step, whatever happens in whatever order.

use drain::answer::BudgetRefusal;
use drain::view::{NodeView, PodId, PodView, Snapshot};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use schemas::DrainOrder;

use super::sim::{Fault, Sim, pod};
use super::*;
use crate::OWNER;
use crate::event::{CallError, Cordoned, NoNode, NodeList, NodeSample, Order, SlotError};
use crate::membership::{Facts, Mode, NodeAgent};
use crate::record::resume;
use crate::requests::ANSWERED;
use crate::slots::{Holder, PassedOver, SlotTable};

fn any_node() -> impl Strategy<Value = NodeView> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(cordoned, ours, ready)| NodeView {
        name: "own".into(),
        uid: "own".into(),
        cordoned,
        cordoned_by: (cordoned && ours).then(|| OWNER.into()),
        ready,
        ..NodeView::default()
    })
}

fn any_trouble() -> impl Strategy<Value = CallError> {
    prop_oneof![
        2 => Just(CallError::Unreachable("u".into())),
        1 => Just(CallError::Denied("d".into())),
        1 => Just(CallError::Busy("b".into())),
        1 => Just(CallError::Other("o".into())),
    ]
}

/// The cluster to which a list belongs, if that is known.
fn any_cluster() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![8 => Just(Some("first")), 1 => Just(Some("second")), 1 => Just(None)]
}

fn any_requests() -> impl Strategy<Value = Vec<Request>> {
    let requester = |r, kept| {
        move |on: bool, at: u8| {
            on.then(|| Request {
                requester: r,
                kept,
                context: String::new(),
                requested_at: at.to_string(),
                publisher: String::new(),
                answer: Answer::None,
                forced_by: String::new(),
            })
        }
    };
    let operator = prop::bool::weighted(0.3);
    (any::<bool>(), any::<bool>(), operator, any::<bool>(), 0..3_u8).prop_map(
        move |(device, update, operator, kept, at)| {
            [
                requester(DrainRequester::None, kept)(operator, at),
                requester(DrainRequester::DeviceOp, false)(device, at),
                requester(DrainRequester::Update, false)(update, at),
            ]
            .into_iter()
            .flatten()
            .collect()
        },
    )
}

fn any_snapshot() -> impl Strategy<Value = Arc<Snapshot>> {
    let pod = |uid: u8| PodView {
        id: PodId { namespace: "a".into(), name: uid.to_string(), uid: uid.to_string() },
        ..PodView::default()
    };
    (prop::option::weighted(0.9, any_node()), prop::collection::btree_set(0..4_u8, 0..3)).prop_map(
        move |(node, pods)| {
            let attachments = drain::storage::Attachments::Listed(vec![]);
            let storage = drain::storage::Storage { attachments, ..Default::default() };
            Arc::new(Snapshot {
                node,
                pods: pods.into_iter().map(pod).collect(),
                storage,
                ..Snapshot::default()
            })
        },
    )
}

/// An event whose serial is taken from the state (`true`), or is an old one (`false`).
#[derive(Clone, Debug)]
enum Draft {
    Plain(Event),
    NodesListed(bool, bool, Option<&'static str>, Result<Vec<NodeView>, CallError>),
    NodesSampled(bool, Option<&'static str>, Option<usize>, Result<Vec<NodeView>, CallError>),
    Probed(bool, Result<Option<NodeView>, CallError>),
    Cordoned(bool, Result<Cordoned, CallError>),
    Uncordoned(bool, Result<(), String>),
    Adopted(bool, Result<bool, String>),
    Marked(bool, Result<(), String>),
    Slots(bool, Result<Vec<(u8, u8)>, bool>),
    Health(bool, bool),
    Restart,
    /// From now on the record can be written, or cannot.
    Writable(bool),
    Answer(bool, u8, drain::Answer),
    Relisted(bool, Result<Arc<Snapshot>, String>),
}

fn any_draft() -> impl Strategy<Value = Draft> {
    let current = || prop::bool::weighted(0.9);
    let answer = prop_oneof![
        Just(drain::Answer::Accepted),
        Just(drain::Answer::Gone),
        Just(drain::Answer::Budget(BudgetRefusal::default())),
        Just(drain::Answer::Rejected { text: String::new() }),
    ];
    let cordoned = (any_node(), any::<bool>()).prop_map(|(node, before)| {
        let cordoned_by = (!before).then(|| OWNER.into());
        Cordoned { node: NodeView { cordoned: true, cordoned_by, ..node }, before }
    });
    let other = any_node().prop_map(|node| NodeView { name: "peer".into(), uid: "peer".into(), ..node });
    let nodes = (any_node(), other, any::<bool>())
        .prop_map(|(own, other, alone)| if alone { vec![own] } else { vec![own, other] })
        .boxed();
    let sample = prop::result::maybe_err(nodes.clone(), any_trouble());
    prop_oneof![
        4 => any_requests().prop_map(|requests| Draft::Plain(Event::Requests(requests))),
        6 => any_snapshot().prop_map(|snapshot| Draft::Plain(Event::Drain(drain::Event::Snapshot(snapshot)))),
        6 => Just(Draft::Plain(Event::Tick)),
        6 => (current(), current(), any_cluster(), prop::result::maybe_err(nodes, any_trouble()))
            .prop_map(|(current, has_own, cluster, result)| Draft::NodesListed(current, has_own, cluster, result)),
        2 => (current(), any_cluster(), prop::option::of(1..4_usize), sample)
            .prop_map(|(current, cluster, total, result)| Draft::NodesSampled(current, cluster, total, result)),
        2 => prop::option::weighted(0.9, any_node()).prop_map(|node| Draft::Plain(Event::OwnSeen(node))),
        1 => Just(Draft::Plain(Event::OwnWatchFailed)),
        3 => (current(), prop::result::maybe_err(prop::option::of(any_node()), any_trouble()))
            .prop_map(|(current, result)| Draft::Probed(current, result)),
        6 => (current(), prop::result::maybe_err(cordoned, any_trouble()))
            .prop_map(|(current, result)| Draft::Cordoned(current, result)),
        3 => (current(), any::<bool>())
            .prop_map(|(current, ok)| Draft::Uncordoned(current, if ok { Ok(()) } else { Err("e".into()) })),
        8 => (current(), prop::result::maybe_err(entries(), any::<bool>()))
            .prop_map(|(current, result)| Draft::Slots(current, result)),
        2 => entries().prop_map(|entries| Draft::Plain(Event::SlotsSeen(table(entries)))),
        1 => Just(Draft::Plain(Event::SlotWatchFailed)),
        4 => (current(), prop::bool::weighted(0.8)).prop_map(|(current, ok)| Draft::Health(current, ok)),
        1 => (current(), prop::result::maybe_err(any::<bool>(), Just("e".to_owned())))
            .prop_map(|(current, result)| Draft::Adopted(current, result)),
        1 => (current(), prop::result::maybe_err(Just(()), Just("e".to_owned())))
            .prop_map(|(current, result)| Draft::Marked(current, result)),
        2 => any_facts().prop_map(|facts| Draft::Plain(Event::Facts(facts))),
        1 => any_order().prop_map(|what| Draft::Plain(Event::Override(Order { what, by: "o".into() }))),
        2 => any::<bool>().prop_map(|renamed| Draft::Plain(Event::OverrideTaken { renamed })),
        1 => Just(Draft::Restart),
        2 => any::<bool>().prop_map(Draft::Writable),
        6 => (current(), 0..4_u8, answer).prop_map(|(current, uid, answer)| Draft::Answer(current, uid, answer)),
        6 => (current(), prop::result::maybe_err(any_snapshot(), Just("e".to_owned())))
            .prop_map(|(current, look)| Draft::Relisted(current, look)),
    ]
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let nodeagent = prop_oneof![
        2 => Just(NodeAgent::Silent),
        2 => Just(NodeAgent::NotActing),
        1 => prop_oneof![Just(DrainRequester::DeviceOp), Just(DrainRequester::Update)]
            .prop_map(NodeAgent::Acting),
    ];
    let mode = prop_oneof![4 => Just(Mode::Auto), 1 => Just(Mode::Always), 1 => Just(Mode::Never)];
    let eve = prop_oneof![3 => Just(None), 1 => any::<bool>().prop_map(Some)];
    (eve, mode, any::<bool>(), any::<bool>(), nodeagent).prop_map(
        |(eve_config_valid, mode, has_kubeconfig, has_kubelet, nodeagent)| Facts {
            eve_config_valid,
            is_beside_eve: eve_config_valid.is_some(),
            mode,
            has_kubeconfig,
            nodeagent,
            has_kubelet,
            obeys_drains: false,
            may_be_kept: false,
        },
    )
}

fn any_order() -> impl Strategy<Value = DrainOrder> {
    prop_oneof![
        2 => Just(DrainOrder::Complete(DrainRequester::None)),
        2 => Just(DrainOrder::Complete(DrainRequester::Update)),
        1 => Just(DrainOrder::Disable),
        2 => Just(DrainOrder::Enable),
    ]
}

fn entries() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0..3_u8, 0..8_u8), 0..3)
}

/// Which nodes have an entry; 6 has passed over all others, 7 is unreadable.
fn table(entries: Vec<(u8, u8)>) -> SlotTable {
    let name = |number: u8| ["own", "a", "b"][usize::from(number)].to_owned();
    let mut table = SlotTable { version: Some("1".into()), ..SlotTable::default() };
    for (number, which) in std::collections::BTreeMap::from_iter(entries) {
        let others = (0..3).filter(|other| which == 6 && *other != number);
        let passed = |other| PassedOver { node: name(other), node_uid: name(other), renewal: 0 };
        let passed_over = others.map(passed).collect();
        let (node, node_uid) = (name(number), name(number));
        if which == 7 {
            table.unreadable.push(node);
        } else {
            table.holders.push(Holder { node, node_uid, passed_over, ..Holder::default() });
        }
    }
    table
}

fn event(draft: Draft, state: &State) -> Event {
    let serial = |current: bool, serial: Option<u32>| if current { serial.unwrap_or(0) } else { 0 };
    let attempt = drain::progress::attempt(&state.drain).map(drain::state::Attempt::number);
    match draft {
        Draft::Plain(event) => event,
        Draft::NodesListed(current, has_own, cluster, result) => Event::NodesListed {
            serial: serial(current, state.api.asked),
            result: result.map(|nodes| {
                let none = || NoNode { why: "n".into(), may_join: current };
                let own = has_own.then(|| nodes[0].clone()).ok_or_else(none);
                NodeList { own, nodes, cluster: cluster.map(str::to_owned) }
            }),
        },
        Draft::NodesSampled(current, cluster, total, result) => Event::NodesSampled {
            serial: serial(current, state.api.asked),
            result: result.map(|nodes| NodeSample { nodes, total, cluster: cluster.map(str::to_owned) }),
        },
        Draft::Probed(current, result) => Event::Probed { serial: serial(current, state.api.asked), result },
        Draft::Cordoned(current, result) => {
            let in_flight = match &state.phase {
                Phase::Cordoning(cordoning) => cordoning.in_flight,
                _ => None,
            };
            Event::Cordoned { serial: serial(current, in_flight), result }
        }
        Draft::Uncordoned(current, result) => {
            Event::Uncordoned { serial: serial(current, state.restoring.in_flight()), result }
        }
        Draft::Adopted(current, result) => {
            Event::Adopted { serial: serial(current, state.restoring.in_flight()), result }
        }
        Draft::Marked(current, result) => {
            Event::MarkedWithoutSlot { serial: serial(current, state.restoring.in_flight()), result }
        }
        Draft::Slots(current, result) => {
            let call = state.slots.in_flight();
            let other = || SlotError::Failed(CallError::Other("o".into()));
            let failure = |conflict| if conflict { SlotError::Conflict } else { other() };
            Event::Slots { serial: serial(current, call), result: result.map(table).map_err(failure) }
        }
        Draft::Health(current, ok) => {
            let call = state.health.in_flight();
            Event::Health { serial: serial(current, call), result: if ok { Ok(()) } else { Err("h".into()) } }
        }
        Draft::Restart | Draft::Writable(_) => Event::Tick,
        Draft::Answer(current, uid, answer) => Event::Drain(drain::Event::Answer {
            attempt: serial(current, attempt),
            uid: uid.to_string(),
            answer,
        }),
        Draft::Relisted(current, look) => {
            let recheck = match state.phase {
                Phase::Complete { recheck, .. } => recheck.map(|recheck| recheck.serial),
                _ => attempt,
            };
            Event::Drain(drain::Event::Relisted { attempt: serial(current, recheck), result: look })
        }
    }
}

fn policy() -> Policy {
    let drain = drain::Policy { attempt_timeout: Duration::from_mins(1), ..drain::Policy::device() };
    let retry_pause = Duration::from_secs(10);
    Policy { drain, attempts: 3, cordon_tries: 3, retry_pause, has_health_command: true, ..Policy::device() }
}

struct Seen<'a> {
    before: &'a State,
    after: &'a State,
    effects: &'a [Effect],
}

impl Seen<'_> {
    fn has(&self, of: fn(&Effect) -> bool) -> bool {
        self.effects.iter().any(of)
    }

    fn evicts(&self) -> bool {
        self.has(|effect| {
            matches!(effect, Effect::Drain(drain::Effect::Evict { .. } | drain::Effect::Delete { .. }))
        })
    }

    fn published_before_acted(&self) {
        if self.before.published != self.after.published {
            let moments_only = self.before.published.status == self.after.published.status
                && self.before.published.requested_by == self.after.published.requested_by;
            let published = self.effects.iter().find(|effect| !is_before_publishing(effect));
            assert!(moments_only || published == Some(&Effect::Publish));
        }
        if self.has(|effect| matches!(effect, Effect::Cordon { .. })) {
            // After a restart an attempt goes on; its cordon is made sure of, and CORDONED was shown before.
            let resumes = matches!(&self.after.phase, Phase::Cordoning(cordoning) if cordoning.resumes);
            let status = self.after.published.status;
            assert!(resumes || matches!(status, DrainStatus::Starting | DrainStatus::DrainRetrying));
        }
        if self.evicts() {
            assert!(matches!(
                self.after.published.status,
                DrainStatus::Cordoned | DrainStatus::DrainRetrying
            ));
        }
    }

    fn attempts_never_exceed_policy(&self) {
        assert!(self.after.session.attempts.len() <= policy().attempts as usize);
    }

    fn no_answer_without_outcome(&self) {
        for request in self.after.requests.iter().filter(|request| request.answer != Answer::None) {
            let is_it = |before: &Request| *request == Request { kept: request.kept, ..before.clone() };
            let known = self.before.requests.iter().any(is_it);
            let ended = match request.answer {
                // An order can also confirm an answer that was given without a drain.
                Answer::Complete | Answer::Forced => {
                    matches!(self.after.phase, Phase::Complete { recheck: None, .. })
                }
                Answer::FailedCordon | Answer::FailedDrain => matches!(self.after.phase, Phase::Failed(_)),
                Answer::None => true,
            };
            assert!(known || ended, "{request:?} in {:?}", self.after.phase);
        }
    }

    /// While the record cannot be written, only an operator's order lets the node go down.
    fn nobody_is_told_complete_off_the_record(&self) {
        let told = |state: &State| -> Vec<(DrainRequester, String)> {
            let told = state.requests.iter().filter(|request| request.answer == Answer::Complete);
            told.map(|request| (request.requester, request.requested_at.clone())).collect()
        };
        if self.after.is_unrecorded {
            let before = told(self.before);
            assert!(told(self.after).iter().all(|request| before.contains(request)));
            let shows = |state: &State| state.published.status == DrainStatus::Complete;
            assert!(!shows(self.after) || shows(self.before) || self.after.is_forced());
        }
    }

    /// This holds whether or not the record can be written.
    fn withdrawals_and_orders_are_heard(&self, event: &Event) {
        if let Event::Requests(standing) = event {
            let names = |requests: &mut dyn Iterator<Item = &Request>| -> Vec<(DrainRequester, String)> {
                requests.map(|request| (request.requester, request.requested_at.clone())).collect()
            };
            assert_eq!(names(&mut self.after.requests.iter()), names(&mut standing.iter()));
        }
        let Some(Order { what, .. }) = &self.before.orders.pending else { return };
        if *event == (Event::OverrideTaken { renamed: true }) {
            let orders = &self.after.orders;
            // Who was answered without a drain keeps that answer, from now on by the order.
            let is_confirmed = |request: &Request| request.answer == Answer::Forced;
            match what {
                DrainOrder::Complete(_) => assert!(
                    orders.needless.is_some()
                        || self.after.is_forced()
                        || orders.disabled.is_some()
                        || self.after.requests.iter().any(is_confirmed)
                ),
                DrainOrder::Disable => assert!(orders.disabled.is_some()),
                DrainOrder::Enable => assert!(orders.disabled.is_none() && orders.complete.is_none()),
            }
        }
    }

    fn an_answer_9_stands_only_while_complete(&self) {
        let told = self.after.requests.iter().any(|request| request.answer == Answer::Complete);
        assert!(
            !told || matches!(self.after.phase, Phase::Complete { .. }),
            "told in {:?}",
            self.after.phase
        );
    }

    fn complete_is_shown_only_while_complete(&self) {
        if self.after.published.status == DrainStatus::Complete {
            assert!(matches!(self.after.phase, Phase::Complete { .. }));
        }
    }

    fn no_uncordon_while_the_node_is_needed(&self) {
        if self.has(|effect| matches!(effect, Effect::Uncordon { .. })) {
            let lifted = self.after.own.as_ref().is_some_and(|node| !node.cordoned);
            let queues = self.after.is_waiting_for_slot() && !self.after.requests.is_any_kept();
            assert!(!self.after.requests.hold_the_node() || queues || lifted);
        }
    }

    /// The slot may be gone, and another node may be going down.
    fn nobody_goes_down_beside_the_slot_that_a_kept_request_gave_back(&self) {
        if self.after.is_set_aside {
            let told = |request: &Request| request.answer == Answer::Complete && !request.kept;
            assert!(!self.after.requests.iter().any(told), "{:?}", self.after.requests);
        }
        let gives_back = |effect: &Effect| matches!(effect, Effect::WriteSlots { entry: None, .. });
        if self.after.is_set_aside && self.has(gives_back) {
            assert!(
                !self.after.is_no_slot_mark_due(),
                "without the mark its cordon takes a slot all the same"
            );
        }
    }

    fn no_pod_leaves_without_a_slot_confirmed_after_the_cordon(&self) {
        if self.evicts() {
            assert!(self.after.slots.confirmed);
        }
        if self.has(|effect| matches!(effect, Effect::Cordon { .. })) {
            assert!(!self.before.slots.confirmed || self.before.phase.name() != "Waiting");
        }
    }

    fn what_an_operator_ordered_is_on_record_before_it_is_done(&self) {
        if self.has(|effect| matches!(effect, Effect::TakeOverride)) {
            assert!(self.after.orders.pending.is_some());
        }
        let ordered = |state: &State| (state.orders.disabled.clone(), state.orders.complete.clone());
        if self.before.orders.pending.is_none() && ordered(self.after) != ordered(self.before) {
            assert!(self.after.orders.disabled.is_none() || self.before.orders.disabled.is_some());
        }
    }

    fn no_eviction_outside_an_attempt(&self) {
        if self.evicts() {
            assert!(matches!(self.after.phase, Phase::Attempting { .. }));
            assert!(!self.after.requests.is_empty());
        }
    }

    fn nobody_asks_means_idle(&self) {
        if self.after.requests.is_empty() && !self.after.is_forced() {
            assert_eq!((&self.after.phase, self.after.is_set_aside), (&Phase::Idle, false));
        }
    }

    /// `no` lets the device go down without a drain.
    fn a_member_becomes_none_only_while_nobody_asks(&self) {
        let (before, after) = (self.before.member, self.after.member);
        if (before, after) == (Member::Yes, Member::No) {
            assert!(self.after.requests.is_empty());
        }
        if self.after.member_now() == Member::No {
            let was_looked = self.after.has_looked || self.after.facts.mode == Mode::Never;
            assert!(was_looked || !self.after.facts.has_kubeconfig, "not because of a stored no alone");
            assert!(!matches!(self.after.phase, Phase::Waiting(_)), "nothing is to be waited for");
        }
    }

    fn nothing_is_undone_after_the_point_of_no_return(&self) {
        let is_acting = |state: &State| state.facts.nodeagent.is_acting();
        let asked = |state: &State| {
            let times =
                state.requests.iter().map(|request| (request.requester, request.requested_at.clone()));
            times.collect::<Vec<_>>()
        };
        let is_answered = self.before.requests.iter().all(|request| request.answer != Answer::None);
        let is_same = asked(self.before) == asked(self.after) && self.before.orders == self.after.orders;
        let keeps_slot = self.before.slots.in_flight().is_none();
        if is_acting(self.before) && is_acting(self.after) && is_answered && is_same && keeps_slot {
            for (before, after) in self.before.requests.iter().zip(self.after.requests.iter()) {
                assert!(before.answer != Answer::Complete || after.answer == Answer::Complete, "taken back");
            }
        }
    }

    /// Nothing that another cluster says about its nodes counts for a drain.
    fn a_drain_stays_in_its_cluster(&self, event: &Event) {
        let Event::NodesListed { result: Ok(look), .. } = event else { return };
        let is_begun = !matches!(self.before.phase, Phase::Idle | Phase::Waiting(_) | Phase::Failed(_));
        if is_begun && self.before.cluster.is_some() && look.cluster != self.before.cluster {
            let seen = |state: &State| (state.cluster.clone(), state.own.clone(), state.nodes.clone());
            assert_eq!(seen(self.after), seen(self.before));
            assert!(
                self.after.published.status != DrainStatus::Complete
                    || self.before.published.status == DrainStatus::Complete
            );
        }
    }

    fn a_cordon_that_was_sent_is_remembered(&self) {
        if self.has(|effect| matches!(effect, Effect::Cordon { .. })) {
            assert!(self.after.restoring.may_be_cordoned);
        }
    }

    fn something_will_happen(&self) {
        let wakes = self.has(|effect| matches!(effect, Effect::WakeAt(_)));
        let in_flight = self.after.api.asked.is_some()
            || self.after.restoring.in_flight().is_some()
            || self.after.slots.in_flight().is_some()
            || self.after.health.in_flight().is_some();
        assert!(wakes || in_flight, "asleep for ever in {:?}", self.after.phase);
    }

    fn check(&self, event: &Event) {
        self.nobody_is_told_complete_off_the_record();
        self.withdrawals_and_orders_are_heard(event);
        self.published_before_acted();
        self.attempts_never_exceed_policy();
        self.no_answer_without_outcome();
        self.an_answer_9_stands_only_while_complete();
        self.complete_is_shown_only_while_complete();
        self.no_uncordon_while_the_node_is_needed();
        self.nobody_goes_down_beside_the_slot_that_a_kept_request_gave_back();
        self.no_pod_leaves_without_a_slot_confirmed_after_the_cordon();
        self.what_an_operator_ordered_is_on_record_before_it_is_done();
        self.no_eviction_outside_an_attempt();
        self.nobody_asks_means_idle();
        self.a_member_becomes_none_only_while_nobody_asks();
        self.nothing_is_undone_after_the_point_of_no_return();
        self.a_drain_stays_in_its_cluster(event);
        self.a_cordon_that_was_sent_is_remembered();
        self.something_will_happen();
    }
}

/// Plays a run from its first step, and shows each step to `see`.
fn play(stored: Member, drafts: Vec<(Draft, u64)>, mut see: impl FnMut(&Seen<'_>, &Event)) {
    let mut now = Moment(1_000_000);
    let facts = Facts { has_kubeconfig: true, ..Facts::default() };
    let mut state = State { facts, ..State::new(stored, "boot".into(), now) };
    let mut disk = record(&state);
    for (draft, millis) in drafts {
        now = now + Duration::from_millis(millis);
        if matches!(draft, Draft::Restart) {
            state = resume(disk.clone(), state.member, "boot".into(), now);
        }
        if let Draft::Writable(is_writable) = draft {
            state.is_unrecorded = !is_writable;
            disk = if is_writable { record(&state) } else { disk };
        }
        let before = state.clone();
        let event = event(draft, &state);
        let (after, effects) = step(state, event.clone(), now, &policy());
        see(&Seen { before: &before, after: &after, effects: &effects }, &event);
        if effects.contains(&Effect::Record) && !after.is_unrecorded {
            disk = record(&after);
        }
        assert!(after.is_unrecorded || disk == record(&after), "what changed is on record");
        state = after;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold(
        stored in any_stored(),
        drafts in prop::collection::vec((any_draft(), 0..20_000_u64), 1..60),
    ) {
        play(stored, drafts, |seen, event| { seen.check(event); });
    }
}

fn any_stored() -> impl Strategy<Value = Member> {
    prop_oneof![3 => Just(Member::Yes), 1 => Just(Member::No), 1 => Just(Member::Unknown)]
}

/// What happens around a session whose effects are answered: by a cluster, by operators, by time.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// These ask from now on: bits of [`ANSWERED`], and when they asked.
    Ask(u8, u8),
    Pass(u16),
    Set(Fault, bool),
    Order(DrainOrder),
    Restart,
    Boot,
    Arrive,
    /// What an operator asks for is kept from now on, or not any more.
    Keep(bool),
    /// A person lifts the cordon.
    Uncordon,
    Peer(bool, bool),
    OthersHold(bool),
    NodeAgent(NodeAgent),
    OwnNode(bool),
    Health(bool),
}

fn any_act() -> impl Strategy<Value = Act> {
    let fault = prop_oneof![
        Just(Fault::Unreachable),
        Just(Fault::CordonRefused),
        Just(Fault::EvictionRefused),
        Just(Fault::SlotsRefused),
        Just(Fault::SlotStolenAtCordon),
        Just(Fault::HealthWithSlot),
        Just(Fault::RenameRefused),
        Just(Fault::ProofHangs),
        Just(Fault::WatchIsOld),
        Just(Fault::LooksDenied),
        Just(Fault::NodeUnknown),
    ];
    let acting = NodeAgent::Acting(DrainRequester::DeviceOp);
    let nodeagent = prop_oneof![Just(NodeAgent::Silent), Just(NodeAgent::NotActing), Just(acting)];
    prop_oneof![
        6 => (0..8_u8, 0..3_u8).prop_map(|(who, at)| Act::Ask(who, at)),
        10 => (0..40_u16).prop_map(Act::Pass),
        2 => (40..700_u16).prop_map(Act::Pass),
        6 => (fault, prop::bool::weighted(0.4)).prop_map(|(fault, on)| Act::Set(fault, on)),
        2 => any_order().prop_map(Act::Order),
        2 => Just(Act::Restart),
        1 => Just(Act::Boot),
        2 => Just(Act::Arrive),
        1 => any::<bool>().prop_map(Act::Keep),
        1 => Just(Act::Uncordon),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(ready, cordoned)| Act::Peer(ready, cordoned)),
        1 => any::<bool>().prop_map(Act::OthersHold),
        1 => nodeagent.prop_map(Act::NodeAgent),
        1 => any::<bool>().prop_map(Act::OwnNode),
        1 => any::<bool>().prop_map(Act::Health),
    ]
}

impl Sim {
    fn act(&mut self, act: Act) {
        match act {
            Act::Ask(who, at) => {
                let at = at.to_string();
                let asks = |bit: &usize| who & (1 << bit) != 0;
                let standing = (0..3).filter(asks).map(|bit| (ANSWERED[bit], at.as_str()));
                self.ask(&standing.rev().collect::<Vec<_>>());
            }
            Act::Pass(seconds) => self.pass(Duration::from_secs(seconds.into())),
            Act::Set(fault, on) => self.set(fault, on),
            Act::Order(what) => self.send(Event::Override(Order { what, by: "o".into() })),
            Act::Restart => self.restart(),
            Act::Boot => self.boot("next"),
            Act::Arrive => {
                let uid = self.now.0.to_string();
                self.pods.push(pod(&uid));
                self.show_snapshot();
            }
            Act::Keep(keeps) => {
                self.keeps = keeps;
                let standing: Vec<_> = self
                    .state
                    .requests
                    .iter()
                    .map(|asks| (asks.requester, asks.requested_at.clone()))
                    .collect();
                self.ask(&standing.iter().map(|(who, at)| (*who, at.as_str())).collect::<Vec<_>>());
            }
            Act::Uncordon => {
                self.own.cordoned = false;
                self.show_snapshot();
            }
            Act::Peer(ready, cordoned) => {
                if let Some(peer) = self.others.first_mut() {
                    (peer.ready, peer.cordoned) = (ready, cordoned);
                }
            }
            Act::OthersHold(hold) => self.others_hold(if hold { &["peer"] } else { &[] }),
            Act::NodeAgent(nodeagent) => {
                self.facts.nodeagent = nodeagent;
                self.send(Event::Facts(self.facts));
            }
            Act::OwnNode(exists) => {
                self.has_own_node = exists;
                self.show_snapshot();
            }
            Act::Health(passes) => self.health = if passes { Ok(()) } else { Err("degraded".into()) },
        }
    }
}

fn any_acts() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(any_act(), 1..50)
}

/// So many random runs reach each transition.
const RUNS: usize = 1400;

/// `docs/reference/states-session.md` shows every way from one phase to another, and no other. `UPDATE_DIAGRAMS=1`
/// rewrites its arrows. The invariants hold here too, where effects are answered and drains go on to their end.
#[test]
fn the_state_diagram_shows_what_step_does() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let acts = any_acts();
    let seen = std::rc::Rc::new(std::cell::RefCell::new(std::collections::BTreeSet::new()));
    for _ in 0..RUNS {
        let seen = std::rc::Rc::clone(&seen);
        let mut sim = Sim::with(policy());
        sim.observer = Some(Box::new(move |before, event, after, effects| {
            Seen { before, after, effects }.check(event);
            let [before, after] = [before, after].map(|state| phase_name(&state.phase));
            if before != after {
                seen.borrow_mut().insert((before.to_owned(), after.to_owned()));
            }
        }));
        for act in acts.new_tree(&mut runner).unwrap().current() {
            sim.act(act);
        }
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/states-session.md");
    diagram::check_diagram(std::path::Path::new(page), &seen.borrow());
}

/// The phase with the part of it that decides about the node.
fn phase_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Complete { outcome: Outcome::Drained, .. } => "Drained",
        Phase::Complete { outcome: Outcome::Forced, .. } => "Forced",
        Phase::Complete { .. } => "Undrained",
        other => other.name(),
    }
}

fn is_before_publishing(effect: &Effect) -> bool {
    matches!(effect, Effect::Record | Effect::Drain(drain::Effect::Abort))
}
