//! Counts requests by the API server's audit log: the requests that a client really sent.
//!
//! The server writes the line of stage `RequestReceived` before it handles a request, so a client that has its answer
//! finds the request in the log. Each request is counted once, by its audit id. The code of the answer comes from a
//! later line: `ResponseComplete`, or `ResponseStarted` for a watch.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{plane::ControlPlane, wait::until};

/// How long the code of a received request may take to be logged. A request that is still open then is counted without
/// a code.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A moment in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditMark {
    offset: u64,
}

/// One request to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedRequest {
    /// The user who sent the request, for example `system:serviceaccount:default:me`; with impersonation the
    /// impersonated user.
    pub user: String,
    /// The header `User-Agent`, empty if there was none.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …; for other paths the HTTP method in lower case.
    pub verb: String,
    /// The path with its query.
    pub uri: String,
    /// The API group, for example `apps`; empty for the core group and for other paths.
    pub group: String,
    /// The resource, for example `pods`; empty for other paths.
    pub resource: String,
    /// The subresource, for example `eviction`; mostly empty.
    pub subresource: String,
    /// Namespace of the object; empty if it has none.
    pub namespace: String,
    /// Name of the object; empty for lists and creations.
    pub name: String,
    /// HTTP status of the answer; `None` if the request was still open.
    pub code: Option<u16>,
}

/// Requests in the order in which the server received them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests(Vec<AuditedRequest>);

impl Requests {
    /// The requests whose user agent begins with `prefix`, for example `ebb/`.
    #[must_use]
    pub fn of_agent(&self, prefix: &str) -> Self {
        Self(self.iter().filter(|request| request.user_agent.starts_with(prefix)).cloned().collect())
    }

    /// The requests of this user.
    #[must_use]
    pub fn of_user(&self, user: &str) -> Self {
        Self(self.iter().filter(|request| request.user == user).cloned().collect())
    }

    /// Number of requests.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Number of requests by user agent and verb.
    pub fn by_agent_and_verb(&self) -> BTreeMap<(&str, &str), usize> {
        self.tally(|request| (request.user_agent.as_str(), request.verb.as_str()))
    }

    /// Number of requests by the kind that `key` returns.
    pub fn tally<'a, K: Ord>(&'a self, key: impl Fn(&'a AuditedRequest) -> K) -> BTreeMap<K, usize> {
        let mut counts = BTreeMap::new();
        for request in &self.0 {
            *counts.entry(key(request)).or_default() += 1;
        }
        counts
    }

    /// The requests themselves.
    pub fn iter(&self) -> impl Iterator<Item = &AuditedRequest> {
        self.0.iter()
    }
}

impl ControlPlane {
    /// Remembers this moment: requests sent from now on are counted by [`ControlPlane::audit_since`].
    pub fn audit_mark(&self) -> Result<AuditMark> {
        mark(&self.coordinates().audit_log)
    }

    /// All requests that the API server received since `mark`, of all clients, each once.
    ///
    /// Waits up to 5 s for the codes of requests that are still being answered.
    pub fn audit_since(&self, mark: AuditMark) -> Result<Requests> {
        between(&self.coordinates().audit_log, mark, None, ANSWER_LIMIT)
    }

    /// As [`ControlPlane::audit_since`], but only requests that the server received before `end`, a later mark.
    pub fn audit_between(&self, mark: AuditMark, end: AuditMark) -> Result<Requests> {
        between(&self.coordinates().audit_log, mark, Some(end), ANSWER_LIMIT)
    }
}

fn mark(log: &Path) -> Result<AuditMark> {
    let length = log.metadata().with_context(|| format!("cannot read audit log `{}`", log.display()))?.len();
    Ok(AuditMark { offset: length })
}

fn between(log: &Path, mark: AuditMark, end: Option<AuditMark>, limit: Duration) -> Result<Requests> {
    let context = || format!("cannot read audit log `{}`", log.display());
    let mut reader = BufReader::new(File::open(log).with_context(context)?);
    reader.seek(SeekFrom::Start(mark.offset)).with_context(context)?;
    let mut tally = Tally { position: mark.offset, end, ..Tally::default() };
    tally.read(&mut reader).with_context(context)?;
    // Only the requests that are open now: on a busy control plane some request is always open.
    let open: BTreeSet<String> = tally.unanswered().cloned().collect();
    let answered = until("audited requests are answered", limit, || {
        tally.read(&mut reader)?;
        Ok((!tally.unanswered().any(|id| open.contains(id))).then_some(()))
    });
    if answered.is_err() {
        // Requests that are still open are counted without a code, as documented; a log that cannot be read is an
        // error.
        tally.read(&mut reader).with_context(context)?;
    }
    Ok(tally.requests())
}

/// The received requests by audit id, with the order of their arrival.
#[derive(Default)]
struct Tally {
    by_id: BTreeMap<String, (usize, AuditedRequest)>,
    /// The start of a line that the server is still writing.
    partial: Vec<u8>,
    /// Position of that line in the log.
    position: u64,
    /// Requests that were received from this position on do not count, only answers do.
    end: Option<AuditMark>,
}

impl Tally {
    /// Reads all complete lines.
    fn read(&mut self, reader: &mut impl BufRead) -> Result<()> {
        while reader.read_until(b'\n', &mut self.partial)? != 0 && self.partial.ends_with(b"\n") {
            // The first line may be cut by the mark; its request was received before the mark.
            if let Ok(event) = serde_json::from_slice(&self.partial) {
                self.add(event);
            }
            self.position += u64::try_from(self.partial.len())?;
            self.partial.clear();
        }
        Ok(())
    }

    fn add(&mut self, event: Event) {
        let code = event.response_status.as_ref().and_then(|status| status.code);
        // A request without valid credentials is logged only once, when it is refused.
        let received =
            event.stage == "RequestReceived" || (event.stage == "ResponseStarted" && code == Some(401));
        let first = received && self.end.is_none_or(|end| self.position < end.offset);
        let arrival = self.by_id.len();
        let request = match self.by_id.entry(event.audit_id.clone()) {
            Entry::Occupied(known) => &mut known.into_mut().1,
            Entry::Vacant(new) if first => &mut new.insert((arrival, event.request())).1,
            Entry::Vacant(_) => return,
        };
        request.code = request.code.or(code);
    }

    fn unanswered(&self) -> impl Iterator<Item = &String> {
        self.by_id.iter().filter(|(_, (_, request))| request.code.is_none()).map(|(id, _)| id)
    }

    fn requests(self) -> Requests {
        let mut requests: Vec<_> = self.by_id.into_values().collect();
        requests.sort_by_key(|(arrival, _)| *arrival);
        Requests(requests.into_iter().map(|(_, request)| request).collect())
    }
}

/// An audit event: those fields that are needed (`audit.k8s.io/v1`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    #[serde(rename = "requestURI", default)]
    request_uri: String,
    #[serde(default)]
    verb: String,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    user: User,
    impersonated_user: Option<User>,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectRef {
    #[serde(rename = "apiGroup")]
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl Event {
    fn request(self) -> AuditedRequest {
        let object = self.object_ref.unwrap_or_default();
        AuditedRequest {
            user: self.impersonated_user.unwrap_or(self.user).username,
            user_agent: self.user_agent,
            verb: self.verb,
            uri: self.request_uri,
            group: object.group,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: object.name,
            code: None,
        }
    }
}

#[cfg(test)]
mod tests;
