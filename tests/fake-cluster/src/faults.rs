//! Faults that tests switch on.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::FakeCluster;
use crate::reply::Reply;
use crate::settings::Controller;

/// A rule: an effect on the requests that match.
#[derive(Clone, Debug)]
pub struct Fault {
    verb: String,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    user_agent: Option<String>,
    pass: u32,
    times: Option<u32>,
    effect: Effect,
}

/// The effect of a fault on a request.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The client gets this answer; the request is not carried out.
    Answer(Reply),
    /// The client gets this answer, and then the text again and again, without an end; the request is not carried out.
    Endless(Reply, &'static str),
    /// The request is carried out, and the client gets this answer.
    AnswerAfter(Reply),
    /// The request waits, then goes on as usual.
    Delay(Duration),
    /// The request waits until this is true, then goes on as usual.
    Until(watch::Receiver<bool>),
    /// The request is carried out, and the answer comes later: it tells what was true when the request came.
    DelayAfter(Duration),
    /// The connection is reset; the request is not carried out.
    ResetBefore,
    /// The request is carried out, and the connection is reset instead of an answer.
    ResetAfter,
    /// The request is not carried out, and there is no answer until the client gives up.
    Hang,
    /// The request is carried out, but there is no answer.
    HangAfter,
}

impl Fault {
    /// A rule for the next request with this verb and resource, as the audit log names them: `create` and
    /// `pods/eviction`, `get` and `/readyz`. A `*` matches all; the API group is ignored.
    pub fn on(verb: &str, resource: &str, effect: Effect) -> Self {
        Self {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: None,
            name: None,
            user_agent: None,
            pass: 0,
            times: Some(1),
            effect,
        }
    }

    /// Limits the rule to the object with this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Limits the rule to this namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Limits the rule to clients whose `User-Agent` begins with `prefix`.
    #[must_use]
    pub fn from_agent(mut self, prefix: &str) -> Self {
        self.user_agent = Some(prefix.to_owned());
        self
    }

    /// Lets this many matching requests pass first.
    #[must_use]
    pub fn after(mut self, requests: u32) -> Self {
        self.pass = requests;
        self
    }

    /// Applies the rule to this many requests instead of one.
    #[must_use]
    pub fn times(mut self, requests: u32) -> Self {
        self.times = Some(requests);
        self
    }

    /// Applies the rule until it is cleared.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    fn fits(&self, request: &Seen<'_>) -> bool {
        let is = |wanted: &str, given: &str| wanted == "*" || wanted == given;
        let is_or_any =
            |wanted: &Option<String>, given: &str| wanted.as_deref().is_none_or(|wanted| wanted == given);
        is(&self.verb, request.verb)
            && is(&self.resource, request.resource)
            && is_or_any(&self.namespace, request.namespace)
            && is_or_any(&self.name, request.name)
            && self.user_agent.as_deref().is_none_or(|prefix| request.user_agent.starts_with(prefix))
    }
}

/// The properties of a request that a fault depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) verb: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user_agent: &'a str,
}

/// All faults that are switched on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    rules: Vec<Fault>,
    pub(crate) unserved: BTreeSet<String>,
    pub(crate) frozen_cache: Option<u64>,
    pub(crate) paused: BTreeSet<Controller>,
    pub(crate) dead_kubelets: BTreeSet<String>,
    pub(crate) scheduler_is_blind: bool,
    /// Kinds (plural names) whose watches send nothing; `*` means all.
    pub(crate) silent: BTreeSet<String>,
}

impl Conditions {
    /// The effect on this request: that of the first rule that matches and lets no more requests pass.
    pub(crate) fn take(&mut self, request: &Seen<'_>) -> Option<Effect> {
        let index = self.rules.iter_mut().position(|rule| {
            let fits = rule.fits(request);
            let passes = fits && rule.pass > 0;
            rule.pass -= u32::from(passes);
            fits && !passes && rule.times != Some(0)
        })?;
        let rule = self.rules.get_mut(index)?;
        let effect = rule.effect.clone();
        if let Some(times) = &mut rule.times {
            *times -= 1;
            if *times == 0 {
                self.rules.remove(index);
            }
        }
        Some(effect)
    }

    /// True if watches of this kind send nothing.
    pub(crate) fn is_silent(&self, resource: &str) -> bool {
        self.silent.contains("*") || self.silent.contains(resource)
    }
}

/// The watches that end at once, and how they end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut {
    /// Plural name of the kind; `None` means all watches.
    pub(crate) resource: Option<String>,
    /// The watch ends in the middle of the answer, not at its end.
    pub(crate) is_broken: bool,
}

/// The switches of all faults; from [`FakeCluster::faults`].
#[derive(Clone, Copy, Debug)]
pub struct Faults<'a> {
    pub(crate) cluster: &'a FakeCluster,
}

impl Faults<'_> {
    /// Adds a rule. Earlier rules are tried first.
    pub fn add(self, fault: Fault) {
        self.cluster.shared().conditions().rules.push(fault);
    }

    /// Number of rules that still wait for requests.
    pub fn waiting(self) -> usize {
        self.cluster.shared().conditions().rules.len()
    }

    /// Switches all faults off: no rules, all kinds served, controllers and kubelets on, reads fresh. A server that was
    /// taken down stays down.
    pub fn clear(self) {
        *self.cluster.shared().conditions() = Conditions::default();
        self.cluster.shared().wake();
    }

    /// Takes the API server down: connections break, new ones are refused.
    pub fn api_down(self) -> io::Result<()> {
        self.cluster.server().down()
    }

    /// Brings the API server back on the same address.
    pub fn api_up(self) -> io::Result<()> {
        self.cluster.server().up()
    }

    /// Ends [`silence_watches`](Self::silence_watches) of this kind, or of all that were silenced together.
    pub fn resume_watches(self, resource: Option<&str>) {
        self.cluster.shared().conditions().silent.remove(resource.unwrap_or("*"));
        self.cluster.shared().wake();
    }

    /// Ends the watches of a kind (plural name), or all, as a restarting server does.
    pub fn cut_watches(self, resource: Option<&str>) {
        self.cluster.shared().cut(Cut { resource: resource.map(str::to_owned), is_broken: false });
    }

    /// As [`cut_watches`](Self::cut_watches), but in the middle of an answer.
    pub fn break_watches(self, resource: Option<&str>) {
        self.cluster.shared().cut(Cut { resource: resource.map(str::to_owned), is_broken: true });
    }

    /// Keeps the watches of a kind (plural name), or all, open but silent, without even a bookmark, until
    /// [`clear`](Self::clear). Then they continue where they were.
    pub fn silence_watches(self, resource: Option<&str>) {
        self.cluster.shared().conditions().silent.insert(resource.unwrap_or("*").to_owned());
        // A watch reads its switch under the store's lock: once we have had the lock, no watch can still use the old
        // value.
        drop(self.cluster.shared().store());
    }

    /// Forgets all changes: every watch and page of an older version is answered with 410.
    pub fn forget_history(self) {
        self.cluster.shared().store().forget_history();
    }

    /// Freezes the watch cache, as if it had lost its etcd: until [`clear`](Self::clear), lists with
    /// `resourceVersion=0` (or an older version) see the cluster as it is now. Watches are not affected.
    pub fn freeze_cache(self) {
        let revision = self.cluster.shared().store().revision();
        self.cluster.shared().conditions().frozen_cache = Some(revision);
    }

    /// Makes this resource or subresource unknown to the server (`volumeattachments`, `pods/eviction`).
    pub fn unserve(self, resource: &str) {
        self.cluster.shared().conditions().unserved.insert(resource.to_owned());
    }

    /// Makes the resource known again.
    pub fn serve(self, resource: &str) {
        self.cluster.shared().conditions().unserved.remove(resource);
    }

    /// Pauses a controller, as by SIGSTOP. After this call it changes nothing more.
    pub fn pause(self, controller: Controller) {
        self.cluster.shared().conditions().paused.insert(controller);
        // A controller reads its switch under the store's lock: once we have had the lock, it cannot still use the old
        // value.
        drop(self.cluster.shared().store());
    }

    /// Resumes a controller; it reads everything again.
    pub fn resume(self, controller: Controller) {
        self.cluster.shared().conditions().paused.remove(&controller);
        self.cluster.shared().wake();
    }

    /// Stops the kubelet of a node: its pods neither start nor end, and after some time the node is not Ready.
    pub fn stop_kubelet(self, node: &str) {
        self.cluster.shared().conditions().dead_kubelets.insert(node.to_owned());
        self.cluster.shared().wake();
    }

    /// Starts the kubelet of a node again.
    pub fn start_kubelet(self, node: &str) {
        self.cluster.shared().conditions().dead_kubelets.remove(node);
        self.cluster.shared().wake();
    }

    /// Makes the scheduler's cache stale: it does not see that nodes are unschedulable.
    pub fn blind_scheduler(self, is_blind: bool) {
        self.cluster.shared().conditions().scheduler_is_blind = is_blind;
        self.cluster.shared().wake();
    }
}
