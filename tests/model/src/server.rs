//! The API server, the cluster behind it, and the calls to it: each call is carried out at one moment and answered at a
//! later one.

use std::sync::Arc;

use drain::answer::BudgetRefusal;
use drain::cordon::{Claims, CordonChange, UncordonChange, cordon_change, uncordon_change};
use drain::storage::{Attachments, Storage};
use drain::view::{NodeView, PodId, PodView, Snapshot, Terminating};
use session::Event;
use session::OWNER;
use session::event::{CallError, Cordoned, NodeList, SlotError};
use session::slots::{Holder, SlotTable};

/// Name and UID of this device's node.
pub const OWN: &str = "own";

/// Name and UID of the other node.
pub const PEER: &str = "peer";

/// State of the API server and the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The API server answers.
    pub is_reachable: bool,
    /// Our node.
    pub own: NodeView,
    /// Version of our node; changes with each write to it.
    pub version: u32,
    /// The other node; it takes all pods that leave ours.
    pub peer: NodeView,
    /// The pods on our node.
    pub pods: Vec<PodView>,
    /// The slot table.
    pub slots: SlotTable,
}

/// A call to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// List all nodes.
    ListNodes,
    /// Read our node.
    Probe,
    /// Cordon our node.
    Cordon,
    /// Lift our cordon.
    Uncordon,
    /// Mark a cordon as ours.
    Adopt,
    /// Read the slots.
    ReadSlots,
    /// Write our entry of the slot table.
    WriteSlots {
        /// The version of the table on which the write is based.
        based_on: Option<String>,
        /// Our entry; `None` removes it.
        entry: Option<Holder>,
    },
    /// Evict or delete a pod.
    Evict(PodId),
    /// Verify: list the node and its pods freshly.
    Relist,
    /// Ask why pods do not leave.
    Inquire,
}

impl Ask {
    /// True for a write to our node: these are sent one after the other.
    pub fn is_node_write(&self) -> bool {
        matches!(self, Self::Cordon | Self::Uncordon | Self::Adopt)
    }

    /// True if the call changes something, so that it matters when it is carried out late.
    pub fn is_write(&self) -> bool {
        self.is_node_write() || matches!(self, Self::WriteSlots { .. } | Self::Evict(_))
    }
}

/// How the server handles a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The call is carried out and answered.
    Well,
    /// The call is carried out, but its answer is lost.
    AnswerLost,
    /// The call is refused.
    Refused,
}

impl Server {
    /// Two nodes, with `pods` pods on ours.
    pub fn new(pods: usize, boot_id: String) -> Self {
        let node = |name: &str| NodeView {
            name: name.to_owned(),
            uid: name.to_owned(),
            ready: true,
            ..NodeView::default()
        };
        let pods = (1..=pods).map(pod).collect();
        Self {
            is_reachable: true,
            own: NodeView { boot_id, ..node(OWN) },
            version: 1,
            peer: node(PEER),
            pods,
            slots: SlotTable::default(),
        }
    }

    /// The snapshot that watches and a fresh list show. No volume is ever attached.
    pub fn snapshot(&self) -> Snapshot {
        let storage = Storage { attachments: Attachments::Listed(Vec::new()), ..Storage::default() };
        Snapshot { node: Some(self.own.clone()), pods: self.pods.clone(), storage, ..Snapshot::default() }
    }

    /// True if no pod is on the node and none can come.
    pub fn is_drained(&self) -> bool {
        self.pods.is_empty() && self.own.cordoned
    }

    /// True if our entry is in the slot table.
    pub fn holds_slot(&self) -> bool {
        self.slots.of(OWN).is_some()
    }

    /// Writes or removes a node's entry of the slot table.
    pub fn put_holder(&mut self, node: &str, entry: Option<Holder>) {
        self.slots.put(node, entry);
        let version = self.slots.version.as_ref().and_then(|version| version.parse::<u32>().ok());
        self.slots.version = Some((version.unwrap_or(0) + 1).to_string());
    }

    /// The other node takes a slot.
    pub fn give_peer_a_slot(&mut self) {
        let holder = Holder { node: PEER.to_owned(), node_uid: PEER.to_owned(), ..Holder::default() };
        self.put_holder(PEER, Some(holder));
    }

    /// A pod comes to the node.
    pub fn bind_pod(&mut self, number: usize) {
        self.pods.push(pod(number));
    }

    /// A terminating pod is gone.
    pub fn end_pod(&mut self) {
        if let Some(place) = self.pods.iter().position(|pod| pod.terminating.is_some()) {
            self.pods.remove(place);
        }
    }

    /// Changes our node and its version.
    pub fn change_own(&mut self, change: impl FnOnce(&mut NodeView)) {
        change(&mut self.own);
        self.version += 1;
    }

    /// Carries out a call and returns its answer. `serial` is that of the session or of the attempt.
    pub fn serve(&mut self, ask: &Ask, serial: u32, service: Service) -> Event {
        if !self.is_reachable {
            return failed(ask, serial, &CallError::Unreachable("connection refused".to_owned()));
        }
        if service == Service::Refused {
            return failed(ask, serial, &CallError::Other("refused".to_owned()));
        }
        let event = self.serve_well(ask, serial);
        if service == Service::AnswerLost {
            return failed(ask, serial, &CallError::Unreachable("time-out".to_owned()));
        }
        event
    }

    fn serve_well(&mut self, ask: &Ask, serial: u32) -> Event {
        match ask {
            Ask::ListNodes => {
                let nodes = vec![self.own.clone(), self.peer.clone()];
                Event::NodesListed { serial, result: Ok(NodeList { nodes, own: Ok(self.own.clone()) }) }
            }
            Ask::Probe => Event::Probed { serial, result: Ok(Some(self.own.clone())) },
            Ask::Cordon => {
                let before = self.cordon();
                Event::Cordoned { serial, result: Ok(Cordoned { node: self.own.clone(), before }) }
            }
            Ask::Uncordon => {
                self.uncordon();
                Event::Uncordoned { serial, result: Ok(()) }
            }
            Ask::Adopt => Event::Adopted { serial, result: Ok(false) },
            Ask::ReadSlots => Event::Slots { serial, result: Ok(self.slots.clone()) },
            Ask::WriteSlots { based_on, entry } => {
                Event::Slots { serial, result: self.write_slots(based_on.as_ref(), entry.as_ref()) }
            }
            Ask::Evict(pod) => {
                let answer = self.evict(pod);
                Event::Drain(drain::Event::Answer { attempt: serial, uid: pod.uid.clone(), answer })
            }
            Ask::Relist => Event::Drain(drain::Event::Relisted {
                attempt: serial,
                result: Ok(Arc::new(self.snapshot())),
            }),
            Ask::Inquire => Event::Drain(drain::Event::Found { attempt: serial, findings: Arc::default() }),
        }
    }

    /// Cordons our node. Returns true if another owner had cordoned it.
    fn cordon(&mut self) -> bool {
        match cordon_change(&self.own, OWNER) {
            CordonChange::Cordon => {
                self.change_own(|own| (own.cordoned, own.cordoned_by) = (true, Some(OWNER.to_owned())));
                false
            }
            CordonChange::AlreadyOurs => false,
            CordonChange::AlreadyForeign => true,
        }
    }

    fn uncordon(&mut self) {
        // A server without managedFields: the annotation alone tells the owner of the cordon.
        match uncordon_change(&self.own, OWNER, &Claims::default()) {
            UncordonChange::Uncordon => {
                self.change_own(|own| (own.cordoned, own.cordoned_by) = (false, None));
            }
            UncordonChange::RemoveAnnotation | UncordonChange::LeaveCordoned => {
                self.change_own(|own| own.cordoned_by = None);
            }
            UncordonChange::Nothing => {}
        }
    }

    fn write_slots(
        &mut self,
        based_on: Option<&String>,
        entry: Option<&Holder>,
    ) -> Result<SlotTable, SlotError> {
        if based_on != self.slots.version.as_ref() {
            return Err(SlotError::Conflict);
        }
        self.put_holder(OWN, entry.cloned());
        Ok(self.slots.clone())
    }

    fn evict(&mut self, pod: &PodId) -> drain::Answer {
        match self.pods.iter_mut().find(|present| present.id == *pod) {
            Some(present) => {
                present.terminating = Some(Terminating::default());
                drain::Answer::Accepted
            }
            None => drain::Answer::Gone,
        }
    }
}

/// The answer to a call that failed.
pub fn failed(ask: &Ask, serial: u32, call_error: &CallError) -> Event {
    let text = match call_error {
        CallError::Unreachable(text) | CallError::Denied(text) | CallError::Other(text) => text.clone(),
    };
    let is_away = matches!(call_error, CallError::Unreachable(_));
    match ask {
        Ask::ListNodes => Event::NodesListed { serial, result: Err(call_error.clone()) },
        Ask::Probe => Event::Probed { serial, result: Err(call_error.clone()) },
        Ask::Cordon => Event::Cordoned { serial, result: Err(call_error.clone()) },
        Ask::Uncordon => Event::Uncordoned { serial, result: Err(text) },
        Ask::Adopt => Event::Adopted { serial, result: Err(text) },
        Ask::WriteSlots { .. } if !is_away => Event::Slots { serial, result: Err(SlotError::Conflict) },
        Ask::ReadSlots | Ask::WriteSlots { .. } => {
            Event::Slots { serial, result: Err(SlotError::Failed(call_error.clone())) }
        }
        Ask::Evict(pod) => {
            let answer = if is_away {
                drain::Answer::Retry { text }
            } else {
                drain::Answer::Budget(BudgetRefusal { text, after: None })
            };
            Event::Drain(drain::Event::Answer { attempt: serial, uid: pod.uid.clone(), answer })
        }
        Ask::Relist => Event::Drain(drain::Event::Relisted { attempt: serial, result: Err(text) }),
        Ask::Inquire => Event::Drain(drain::Event::Found { attempt: serial, findings: Arc::default() }),
    }
}

fn pod(number: usize) -> PodView {
    let name = format!("p{number}");
    let id = PodId { namespace: "a".to_owned(), name: name.clone(), uid: name };
    PodView { id, ..PodView::default() }
}
