//! What goes wrong on demand.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use crate::cluster::FakeCluster;
use crate::reply::Reply;
use crate::settings::Controller;

/// Rules kept at one time; the oldest is dropped for a new one.
const MAX_RULES: usize = 1024;

/// Something that happens to requests that fit.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This answer; the request has no effect.
    Answer(Reply),
    /// The request has its effect, and this is the answer.
    AnswerAfter(Reply),
    /// It waits, then goes on as usual.
    Delay(Duration),
    /// The connection is reset; the request has no effect.
    ResetBefore,
    /// The request has its effect, and the connection is reset instead of an answer.
    ResetAfter,
    /// No effect and no answer, until the client gives up.
    Hang,
    /// The request has its effect, but no answer comes.
    HangAfter,
}

impl Fault {
    /// For the next request with this verb and resource, as the audit log names them: `create` and
    /// `pods/eviction`, `get` and `/readyz`. A `*` fits all; the API group does not count.
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

    /// Only for the object with this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only in this namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only for clients whose `User-Agent` begins like this.
    #[must_use]
    pub fn from_agent(mut self, prefix: &str) -> Self {
        self.user_agent = Some(prefix.to_owned());
        self
    }

    /// Lets this many fitting requests pass first.
    #[must_use]
    pub fn after(mut self, requests: u32) -> Self {
        self.pass = requests;
        self
    }

    /// For this many requests instead of one.
    #[must_use]
    pub fn times(mut self, requests: u32) -> Self {
        self.times = Some(requests);
        self
    }

    /// Until it is cleared.
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

/// What a fault looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) verb: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user_agent: &'a str,
}

/// All that is wrong at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    rules: Vec<Fault>,
    pub(crate) unserved: BTreeSet<String>,
    pub(crate) frozen_cache: Option<u64>,
    pub(crate) paused: BTreeSet<Controller>,
    pub(crate) dead_kubelets: BTreeSet<String>,
    pub(crate) scheduler_is_blind: bool,
    /// Kinds (plural names) whose watches say nothing; `*` = all.
    pub(crate) silent: BTreeSet<String>,
}

impl Conditions {
    /// The effect on this request: that of the first rule that fits and lets no more pass.
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

    /// Watches of this kind say nothing.
    pub(crate) fn is_silent(&self, resource: &str) -> bool {
        self.silent.contains("*") || self.silent.contains(resource)
    }

    fn add(&mut self, fault: Fault) {
        if self.rules.len() >= MAX_RULES {
            self.rules.remove(0);
        }
        self.rules.push(fault);
    }
}

/// Which watches end at once, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut {
    /// Plural name; all watches without it.
    pub(crate) resource: Option<String>,
    /// In the middle of the answer, not at its end.
    pub(crate) is_broken: bool,
}

/// The switches of everything that can go wrong; from [`FakeCluster::faults`].
#[derive(Clone, Copy, Debug)]
pub struct Faults<'a> {
    pub(crate) cluster: &'a FakeCluster,
}

impl Faults<'_> {
    /// Adds a rule. Rules added earlier are asked first; at most 1024 are kept.
    pub fn add(self, fault: Fault) {
        self.cluster.shared().conditions().add(fault);
    }

    /// How many rules still wait for requests.
    pub fn waiting(self) -> usize {
        self.cluster.shared().conditions().rules.len()
    }

    /// Everything works again: no rules, all kinds served, controllers and kubelets on, reads fresh. A server that
    /// was taken down stays down.
    pub fn clear(self) {
        *self.cluster.shared().conditions() = Conditions::default();
        self.cluster.shared().wake();
    }

    /// The API server is gone: connections break, new ones are refused.
    pub fn api_down(self) -> io::Result<()> {
        self.cluster.server().down()
    }

    /// The API server is back on the same address.
    pub fn api_up(self) -> io::Result<()> {
        self.cluster.server().up()
    }

    /// Ends the watches of a kind (plural name), or all, as a server does that restarts.
    pub fn cut_watches(self, resource: Option<&str>) {
        self.cluster.shared().cut(Cut { resource: resource.map(str::to_owned), is_broken: false });
    }

    /// As [`cut_watches`](Self::cut_watches), but in the middle of an answer.
    pub fn break_watches(self, resource: Option<&str>) {
        self.cluster.shared().cut(Cut { resource: resource.map(str::to_owned), is_broken: true });
    }

    /// Watches of a kind (plural name), or all, stay open and say nothing, not even a bookmark, until
    /// [`clear`](Self::clear). Then they go on where they were.
    pub fn silence_watches(self, resource: Option<&str>) {
        self.cluster.shared().conditions().silent.insert(resource.unwrap_or("*").to_owned());
        // A watch looks at its switch under the store's lock: whoever gets the lock now has been heard.
        drop(self.cluster.shared().store());
    }

    /// Forgets all changes: every watch and page of an older version is answered with 410.
    pub fn forget_history(self) {
        self.cluster.shared().store().forget_history();
    }

    /// Lists with `resourceVersion=0` (or an older one) see the cluster as it is now, until
    /// [`thaw_cache`](Self::thaw_cache): a watch cache that has lost its etcd. Watches are not held back.
    pub fn freeze_cache(self) {
        let revision = self.cluster.shared().store().revision();
        self.cluster.shared().conditions().frozen_cache = Some(revision);
    }

    /// Such lists see the present again.
    pub fn thaw_cache(self) {
        self.cluster.shared().conditions().frozen_cache = None;
    }

    /// The server does not know this resource or subresource (`volumeattachments`, `pods/eviction`).
    pub fn unserve(self, resource: &str) {
        self.cluster.shared().conditions().unserved.insert(resource.to_owned());
    }

    /// The server knows it again.
    pub fn serve(self, resource: &str) {
        self.cluster.shared().conditions().unserved.remove(resource);
    }

    /// A controller stands still, as with SIGSTOP. After the return it changes nothing more.
    pub fn pause(self, controller: Controller) {
        self.cluster.shared().conditions().paused.insert(controller);
        // A controller looks at its switch under the store's lock: whoever gets the lock now has seen it.
        drop(self.cluster.shared().store());
    }

    /// It goes on and looks at everything again.
    pub fn resume(self, controller: Controller) {
        self.cluster.shared().conditions().paused.remove(&controller);
        self.cluster.shared().wake();
    }

    /// The kubelet of a node dies: its pods neither start nor end, and later the node is not Ready.
    pub fn stop_kubelet(self, node: &str) {
        self.cluster.shared().conditions().dead_kubelets.insert(node.to_owned());
        self.cluster.shared().wake();
    }

    /// The kubelet is back.
    pub fn start_kubelet(self, node: &str) {
        self.cluster.shared().conditions().dead_kubelets.remove(node);
        self.cluster.shared().wake();
    }

    /// The scheduler's cache is stale: it does not see that nodes are unschedulable.
    pub fn blind_scheduler(self, is_blind: bool) {
        self.cluster.shared().conditions().scheduler_is_blind = is_blind;
        self.cluster.shared().wake();
    }
}
