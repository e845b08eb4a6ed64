//! Invariants that hold after every step, whatever happens in whatever order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use selector::{Requirement, Selector};

use super::*;
use crate::answer::BudgetRefusal;
use crate::event::Record;
use crate::plan::DRAIN_LABEL;
use crate::policy::{
    MaxRetries, Method, OnDetachTimeout, Stateful, StatefulOrder, StatefulParallel, UnhealthyNode, Volumes,
};
use crate::rule::Rule;
use crate::state::{DeletionMethod, Stage};
use crate::storage::{AttachmentView, Attachments, ClaimView, CsiSource, Storage, VolumeView};
use crate::turns::Turn;
use crate::view::{BudgetView, Controller, NodeView, Phase, PodClaim, PodView, Terminating, Unhealthy};
use crate::volumes::{VolumeStage, VolumeTrack};

fn any_pod() -> impl Strategy<Value = PodView> {
    let claims =
        prop_oneof![2 => Just(vec![]), 1 => Just(vec![0]), 1 => Just(vec![1]), 1 => Just(vec![0, 1])];
    (0..12_u8, any::<bool>(), any::<bool>(), claims, 0..4_u8, 0..3_i32).prop_map(
        |(uid, terminating, mirror, claims, owner, priority)| PodView {
            id: PodId { namespace: "a".into(), name: format!("pod-{uid}"), uid: uid.to_string() },
            phase: Phase::Running,
            mirror: mirror && uid % 4 == 0,
            terminating: terminating.then(Terminating::default),
            controller: (owner > 0).then(|| Controller {
                kind: "Set".into(),
                uid: owner.to_string(),
                ..Controller::default()
            }),
            labels: labels(uid, priority),
            claims: claims.into_iter().map(claim_of).collect(),
            priority,
            ..PodView::default()
        },
    )
}

/// Most pods are to be drained; some end by themselves.
fn labels(uid: u8, priority: i32) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([("order".to_owned(), (uid % 3).to_string())]);
    if uid > 5 && priority == 0 {
        labels.insert(DRAIN_LABEL.to_owned(), "wait-completed".to_owned());
    }
    labels
}

fn claim_of(n: u8) -> PodClaim {
    PodClaim { name: format!("claim-{n}"), ephemeral: false }
}

fn csi(n: u8) -> CsiSource {
    CsiSource { driver: "d".into(), handle: n.to_string() }
}

fn csi_name(handle: &str) -> String {
    CsiSource { driver: "d".into(), handle: handle.to_owned() }.attached_name()
}

fn any_storage() -> impl Strategy<Value = Storage> {
    let attachment =
        (0..3_u8, any::<bool>(), any::<bool>()).prop_map(|(volume, is_here, attached)| AttachmentView {
            name: format!("va-{volume}"),
            driver: "d".into(),
            volume: Some(format!("pv-{volume}")),
            node: if is_here { "n" } else { "other" }.to_owned(),
            attached,
            ..AttachmentView::default()
        });
    let attachments = prop_oneof![
        8 => prop::collection::vec(attachment, 0..3).prop_map(Attachments::Listed),
        1 => Just(Attachments::NotAsked),
        1 => Just(Attachments::NotServed),
        1 => Just(Attachments::Unreadable("403".into())),
    ];
    let claim = |n: u8| ClaimView {
        namespace: "a".into(),
        name: format!("claim-{n}"),
        owner: None,
        volume: format!("pv-{n}"),
    };
    let volume = |n: u8| VolumeView { name: format!("pv-{n}"), csi: Some(csi(n)) };
    (attachments, prop::option::of(any::<bool>())).prop_map(move |(attachments, peer_takes_pods)| Storage {
        claims: vec![claim(0), claim(1)],
        volumes: vec![volume(0), volume(1)],
        attachments,
        peer_takes_pods,
        ..Storage::default()
    })
}

fn any_node() -> impl Strategy<Value = Option<NodeView>> {
    let unhealthy = prop::option::of((0..400_u64).prop_map(|seconds| Unhealthy {
        condition: "NotReady".into(),
        lasting: Duration::from_secs(seconds),
    }));
    let listed = prop::collection::vec(0..3_u8, 0..2);
    let node =
        (prop::bool::weighted(0.9), unhealthy, listed).prop_map(|(cordoned, unhealthy, listed)| NodeView {
            name: "n".into(),
            cordoned,
            unhealthy,
            volumes_attached: listed.into_iter().map(|n| csi(n).attached_name()).collect(),
            ..NodeView::default()
        });
    prop_oneof![9 => node.prop_map(Some), 1 => Just(None)]
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let budget = (0..4_i32, 0..9_u8).prop_map(|(allowed, version)| BudgetView {
        namespace: "a".into(),
        name: "b".into(),
        version: version.to_string(),
        selector: Some(Selector::default()),
        disruptions_allowed: allowed,
        ..BudgetView::default()
    });
    let pods = prop_oneof![Just(vec![]), prop::collection::vec(any_pod(), 0..8)];
    (any_node(), pods, prop::option::of(budget), any_storage()).prop_map(
        |(node, mut pods, budget, storage)| {
            pods.sort_by(|a: &PodView, b| a.id.cmp(&b.id));
            pods.dedup_by(|a, b| a.id == b.id);
            Snapshot { node, pods, budgets: budget.into_iter().collect(), storage }
        },
    )
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
        Just(Answer::NoEvictions),
        Just(Answer::NotSent),
        Just(Answer::Throttled { after: None, text: text() }),
        Just(Answer::Retry { text: text() }),
        Just(Answer::Denied { text: text() }),
        Just(Answer::Rejected { text: text() }),
    ]
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (1..3_u32).prop_map(|attempt| Event::Start { attempt, api_back: None }),
        1 => (1..3_u32, 0..2_000_000_u64).prop_map(|(attempt, deadline)| Event::Resume {
            attempt,
            api_back: None,
            record: Box::new(Record { deadline: Moment(deadline), ..Record::default() }),
        }),
        1 => Just(Event::Cancel),
        8 => any_snapshot().prop_map(|snapshot| Event::Snapshot(Arc::new(snapshot))),
        8 => (1..3_u32, 0..12_u8, any_answer())
            .prop_map(|(attempt, uid, answer)| Event::Answer { attempt, uid: uid.to_string(), answer }),
        6 => (1..3_u32, any_snapshot())
            .prop_map(|(attempt, snapshot)| Event::Relisted { attempt, result: Ok(Arc::new(snapshot)) }),
        1 => (1..3_u32).prop_map(|attempt| Event::Relisted { attempt, result: Err(String::new()) }),
        1 => (1..3_u32).prop_map(|attempt| Event::Found { attempt, findings: Arc::default() }),
        1 => Just(Event::Unseen { why: String::new() }),
        1 => Just(Event::ApiAway),
        1 => Just(Event::ApiBack),
        4 => Just(Event::Tick),
    ]
}

fn policy() -> Policy {
    Policy {
        concurrency: 4,
        attempt_timeout: Duration::from_mins(10),
        freeze_limit: Duration::from_mins(1),
        ..Policy::device()
    }
}

/// Every choice that a policy has, and orders.
pub(super) fn any_policy() -> impl Strategy<Value = Policy> {
    let method =
        prop_oneof![4 => Just(Method::Evict), 1 => Just(Method::Delete), 1 => Just(Method::ForceDelete)];
    let retries = prop_oneof![
        Just(MaxRetries::Unlimited),
        (0..4_u32).prop_map(MaxRetries::Times),
        Just(MaxRetries::Auto)
    ];
    let unhealthy = prop_oneof![Just(UnhealthyNode::Off), Just(UnhealthyNode::Force)];
    let parallel = (0..3_usize)
        .prop_map(|most| if most == 0 { StatefulParallel::Auto } else { StatefulParallel::Count(most) });
    let order = prop_oneof![Just(StatefulOrder::HighestFirst), Just(StatefulOrder::LowestFirst)];
    let late = prop_oneof![Just(OnDetachTimeout::Fail), Just(OnDetachTimeout::Proceed)];
    let seconds = |most: u64| (0..most).prop_map(Duration::from_secs);
    let rules = prop_oneof![Just(vec![]), Just(orders())];
    let grace = prop::option::weighted(0.2, (1..20_u64).prop_map(Duration::from_secs));
    let allows = (prop::bool::weighted(0.8), grace);
    (method, retries, unhealthy, (parallel, order), (seconds(120), seconds(90), late), rules, allows)
        .prop_map(
            |(
                method,
                max_retries,
                unhealthy_node,
                (parallel, order),
                volumes,
                rules,
                (force, grace_period),
            )| Policy {
                force,
                grace_period,
                method,
                max_retries,
                unhealthy_node,
                stateful: Stateful { parallel, order },
                volumes: Volumes {
                    detach_timeout: volumes.0,
                    reattach_timeout: volumes.1,
                    on_detach_timeout: volumes.2,
                },
                rules,
                ..policy()
            },
        )
}

/// Label `order` says the order.
fn orders() -> Vec<Rule> {
    let rule = |order: i32| Rule {
        name: order.to_string(),
        selector: Some(Selector {
            requirements: vec![Requirement::In("order".into(), vec![order.to_string()])],
        }),
        order,
        ..Rule::default()
    };
    (0..3).map(rule).collect()
}

fn attempt(state: &State) -> Option<&Attempt> {
    crate::progress::attempt(state)
}

/// One step as the invariants see it.
struct Seen<'a> {
    policy: &'a Policy,
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
            let Event::Relisted { result: Ok(snapshot), .. } = self.event else {
                panic!("drained without a fresh list, by {:?}", self.event)
            };
            let left = crate::plan::plan(snapshot, self.policy).iter().any(crate::plan::Planned::must_leave);
            assert!(!left && snapshot.node.as_ref().is_some_and(|node| node.cordoned));
        }
    }

    fn no_eviction_while_schedulable(&self) {
        if self.sends() {
            let snapshot = attempt(self.after).and_then(|attempt| attempt.snapshot());
            assert!(
                snapshot.is_some_and(|snapshot| snapshot.node.as_ref().is_some_and(|node| node.cordoned))
            );
        }
    }

    fn one_drain_at_a_time(&self) {
        if let (
            State::Draining(before) | State::Verifying(before, _),
            State::Draining(after) | State::Verifying(after, _),
        ) = (self.before, self.after)
        {
            assert_eq!((before.number(), before.started()), (after.number(), after.started()));
        }
    }

    fn failed_or_cancelled_never_completes_later(&self) {
        let over = matches!(self.before, State::Idle | State::Ended(..));
        if over && !matches!(self.event, Event::Start { .. } | Event::Resume { .. } | Event::Cancel) {
            assert_eq!(self.before, self.after);
            assert!(self.effects.is_empty());
        }
    }

    fn deadline_is_never_success(&self) {
        if let State::Ended(attempt, Outcome::Drained) = self.after
            && self.before != self.after
        {
            assert!(self.now < attempt.deadline());
        }
    }

    fn no_effect_after_cancel(&self) {
        if matches!(self.event, Event::Cancel) {
            assert_eq!(self.after, &State::Idle);
            assert!(self.effects.iter().all(|effect| *effect == Effect::Abort));
        }
    }

    fn nothing_is_sent_while_the_api_is_away(&self) {
        if attempt(self.after).is_some_and(Attempt::is_away) {
            assert!(!self.sends());
        }
    }

    fn in_flight_is_limited(&self) {
        let sent = attempt(self.after).map_or(0, |attempt| {
            attempt.pods().values().filter(|track| *track.stage() == Stage::Evicting).count()
        });
        assert!(sent <= self.policy.concurrency, "{sent} in flight");
    }

    fn a_live_attempt_always_wakes(&self) {
        if matches!(self.after, State::Draining(_) | State::Verifying(..))
            && !matches!(self.event, Event::Start { .. } | Event::Resume { .. })
        {
            assert!(self.effects.iter().any(|effect| matches!(effect, Effect::WakeAt(_))));
        }
    }

    /// Whoever drives this would turn in a loop.
    fn no_wake_up_lies_in_the_past(&self) {
        for effect in self.effects {
            assert!(!matches!(effect, Effect::WakeAt(at) if *at <= self.now), "{effect:?} at {:?}", self.now);
        }
    }

    fn is_forced(&self) -> bool {
        attempt(self.after).is_some_and(|attempt| attempt.is_forced(self.now, self.policy))
    }

    fn grace_0_only_by_force(&self) {
        let kills = self.effects.iter().any(|effect| match effect {
            Effect::Evict { grace, .. } | Effect::Delete { grace, .. } => grace == &Some(Duration::ZERO),
            Effect::Relist { .. } | Effect::Inquire { .. } | Effect::WakeAt(_) | Effect::Abort => false,
        });
        assert!(!kills || self.is_forced());
    }

    /// An answer to an eviction has said so.
    fn was_by_deletion(&self, uid: &str) -> bool {
        let told = matches!(self.event, Event::Answer { answer: Answer::NamespaceTerminating, .. });
        let before = attempt(self.before).and_then(|attempt| attempt.pods().get(uid));
        told || before.is_some_and(|track| track.by() != DeletionMethod::Eviction)
    }

    fn deletion_only_if_evictions_do_not_work_or_are_not_wanted(&self) {
        let Some(attempt) = attempt(self.after) else { return };
        for effect in self.effects {
            if let Effect::Delete { pod, .. } = effect {
                let track = &attempt.pods()[&pod.uid];
                let allowed = self.policy.method != Method::Evict
                    || self.is_forced()
                    || track.by() == DeletionMethod::Escalation
                    || self.was_by_deletion(&pod.uid)
                    || attempt.no_evictions();
                assert!(allowed, "{track:?}");
                assert!(
                    track.by() != DeletionMethod::Escalation
                        || self.policy.max_retries != MaxRetries::Unlimited
                );
            }
        }
    }

    /// A pod with attached volumes is sent only while the others' turns leave room: not too many, or none of its owner
    /// and none of a pod that comes before it. A pod that was on its way when its volumes were first seen has a turn as
    /// well, whatever room there is.
    fn turns_are_limited(&self) {
        let Some(after) = attempt(self.after).filter(|_| !self.is_forced()) else { return };
        let had_turn = |uid: &str| {
            attempt(self.before).is_some_and(|before| before.turns().any(|turn| turn.pod.uid == uid))
        };
        let is_sent = |uid: &str| {
            let is_sent = |effect: &Effect| match effect {
                Effect::Evict { pod, .. } | Effect::Delete { pod, .. } => pod.uid == uid,
                Effect::Relist { .. } | Effect::Inquire { .. } | Effect::WakeAt(_) | Effect::Abort => false,
            };
            *after.pods()[uid].stage() == Stage::Evicting && self.effects.iter().any(is_sent)
        };
        let pods = after.pods();
        let begun = after.turns().filter(|turn| pods.contains_key(&turn.pod.uid) && !had_turn(&turn.pod.uid));
        for sent in begun.filter(|turn| is_sent(&turn.pod.uid)) {
            let Stateful { parallel, order } = self.policy.stateful;
            let goes_beside = |other: &Turn| {
                other.owner != sent.owner && !order.compare(other.priority, sent.priority).is_lt()
            };
            let has_room = match parallel {
                StatefulParallel::Count(most) => after.turns().count() <= most,
                StatefulParallel::Auto => {
                    after.turns().all(|other| other.pod == sent.pod || goes_beside(other))
                }
            };
            assert!(has_room, "{sent:?}: {:?}", self.effects);
        }
    }

    fn orders_are_kept(&self) {
        let Some(attempt) = attempt(self.after).filter(|_| !self.is_forced()) else { return };
        let lowest = attempt.pods().values().map(Track::order).min();
        for effect in self.effects {
            if let Effect::Evict { pod, .. } | Effect::Delete { pod, .. } = effect {
                assert_eq!(Some(attempt.pods()[&pod.uid].order()), lowest);
            }
        }
    }

    fn drained_means_no_volume_is_left_attached(&self) {
        if let State::Ended(attempt, Outcome::Drained) = self.after
            && self.before != self.after
            && self.policy.volumes.on_detach_timeout == OnDetachTimeout::Fail
            && !self.is_forced()
        {
            let attached =
                |volume: &VolumeTrack| matches!(volume.stage, VolumeStage::Detaching | VolumeStage::TimedOut);
            assert!(!attempt.volumes().values().any(attached), "{:?}", attempt.volumes());
        }
    }

    /// Whatever the attempt had seen or forgotten: the look that proves it shows nothing attached to the node but what pods
    /// use that stay, in the look or in what a watch has shown since it was asked for.
    fn drained_means_nothing_is_attached_that_belongs_to_no_pod_that_stays(&self) {
        let is_new = Self::ended_as(self.after, &Outcome::Drained) && self.before != self.after;
        let waits = self.policy.volumes.on_detach_timeout == OnDetachTimeout::Fail
            && !self.policy.volumes.detach_timeout.is_zero()
            && !self.is_forced();
        if !is_new || !waits {
            return;
        }
        let Event::Relisted { result: Ok(look), .. } = self.event else { panic!("{:?}", self.event) };
        let merged = attempt(self.after).and_then(|attempt| attempt.snapshot().cloned());
        let mut kept: Vec<String> = Vec::new();
        for snapshot in [Some(look), merged.as_ref()].into_iter().flatten() {
            let staying = snapshot.pods.iter().zip(crate::plan::plan(snapshot, self.policy));
            let staying = staying.filter(|(_, planned)| !planned.must_leave());
            kept.extend(staying.flat_map(|(pod, _)| {
                pod.claims.iter().map(|claim| claim.name.replace("claim-", "")).collect::<Vec<_>>()
            }));
        }
        let kept =
            |volume: &str| kept.iter().any(|kept| volume == format!("pv-{kept}") || volume == csi_name(kept));
        let listed = look.node.iter().flat_map(|node| &node.volumes_attached);
        assert!(listed.clone().all(|name| kept(name)), "{look:?}");
        match &look.storage.attachments {
            Attachments::NotServed => {}
            Attachments::Listed(all) => {
                let mut here = all.iter().filter(|attachment| attachment.node == "n");
                assert!(here.all(|here| here.volume.as_deref().is_some_and(kept)), "{look:?}");
            }
            Attachments::NotAsked | Attachments::Unreadable(_) => panic!("nothing proves that: {look:?}"),
        }
    }

    fn no_pod_leaves_whose_claims_nobody_has_asked_for(&self) {
        let Some(attempt) = attempt(self.after).filter(|_| !self.is_forced()) else { return };
        let Some(snapshot) = attempt.snapshot() else { return };
        if self.policy.volumes.detach_timeout.is_zero()
            || snapshot.storage.attachments != Attachments::NotAsked
        {
            return;
        }
        for effect in self.effects {
            if let Effect::Evict { pod, .. } | Effect::Delete { pod, .. } = effect {
                let sent = snapshot.pods.iter().find(|seen| seen.id == *pod);
                assert!(sent.is_some_and(|sent| sent.claims.is_empty()), "{sent:?}");
            }
        }
    }

    fn check(&self) {
        self.drained_means_nothing_is_attached_that_belongs_to_no_pod_that_stays();
        self.no_pod_leaves_whose_claims_nobody_has_asked_for();
        self.no_wake_up_lies_in_the_past();
        self.grace_0_only_by_force();
        self.deletion_only_if_evictions_do_not_work_or_are_not_wanted();
        self.turns_are_limited();
        self.orders_are_kept();
        self.drained_means_no_volume_is_left_attached();
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

/// 10,000, or what `PROPTEST_CASES` says.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold(
        events in prop::collection::vec((any_event(), 0..20_000_u64), 1..40),
        policy in any_policy(),
    ) {
        let mut state = State::Idle;
        let mut now = Moment(1_000_000);
        for (event, millis) in events {
            now = now + Duration::from_millis(millis);
            let before = state.clone();
            let (after, effects) = step(state, event.clone(), now, &policy);
            Seen { policy: &policy, before: &before, event: &event, after: &after, effects: &effects, now }.check();
            state = after;
        }
    }

    /// A cluster that follows every request is always drained, whatever refusals come in between.
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
        let mut queue = std::collections::VecDeque::from([start, Event::Snapshot(self.snapshot())]);
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
                    Effect::Relist { attempt, .. } => {
                        queue.push_back(Event::Relisted { attempt, result: Ok(self.snapshot()) });
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

    fn snapshot(&self) -> Arc<Snapshot> {
        let node = Some(NodeView { cordoned: true, ..NodeView::default() });
        let storage = Storage { attachments: Attachments::Listed(vec![]), ..Storage::default() };
        Arc::new(Snapshot { node, pods: self.pods.clone(), storage, ..Snapshot::default() })
    }

    fn evict(&mut self, pod: &PodId) -> Vec<Event> {
        let answered = |answer| Event::Answer { attempt: 1, uid: pod.uid.clone(), answer };
        if self.refusals.pop() == Some(true) {
            return vec![answered(Answer::Budget(BudgetRefusal::default()))];
        }
        self.pods.retain(|present| present.id != *pod);
        vec![answered(Answer::Accepted), Event::Snapshot(self.snapshot())]
    }
}
