//! Handles one request: reads it, applies faults, answers it and logs it.

use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use uuid::Uuid;

use super::connection::Reset;
use super::stream::{self, WatchBody};
use crate::TOKEN;
use crate::api::{self, Answer, Call, Surroundings};
use crate::clock::Moment;
use crate::faults::{Effect, Seen};
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::requests;
use crate::shared::Shared;

/// Greatest length of a body, as on a real server.
const MAX_BODY: usize = 3 * 1024 * 1024;

pub(super) type Body = Either<Full<Bytes>, WatchBody>;

/// The answer: a complete reply, a watch that goes on, or a reply without an end, of which the body is apart.
enum Outgoing {
    Reply(Reply),
    Watch(WatchBody),
    Endless(Reply, WatchBody),
}

/// Answers a request.
pub(super) async fn handle(shared: Arc<Shared>, reset: Reset, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
        let refusal =
            Refusal::bad_request(format!("the body could not be read, or is longer than {MAX_BODY} bytes"));
        return respond(Outgoing::Reply(Reply::from(&refusal)), shared.clock.now());
    };
    let body = body.to_bytes();
    let call = Call::new(&parts.method, &parts.uri, header(&parts.headers, &CONTENT_TYPE), body);
    let ticket = shared.log.begin(record(&shared, &parts, &call));
    let outgoing = with_fault(&shared, &reset, &parts, &call).await;
    ticket.answered(match &outgoing {
        Outgoing::Reply(reply) | Outgoing::Endless(reply, _) => reply.code,
        Outgoing::Watch(_) => 200,
    });
    respond(outgoing, shared.clock.now())
}

async fn with_fault(shared: &Arc<Shared>, reset: &Reset, parts: &Parts, call: &Call) -> Outgoing {
    let effect = fault(shared, parts, call);
    if effect.as_ref().is_some_and(|effect| !matches!(effect, Effect::Delay(_) | Effect::Until(_))) {
        shared.log.meets_fault();
    }
    match effect {
        None => perform(shared, parts, call),
        Some(Effect::Answer(reply)) => Outgoing::Reply(reply),
        Some(Effect::Endless(reply, again)) => {
            let body = stream::endless(reply.body.clone(), again);
            Outgoing::Endless(reply, body)
        }
        Some(Effect::AnswerAfter(reply)) => {
            drop(perform(shared, parts, call));
            Outgoing::Reply(reply)
        }
        Some(Effect::Delay(delay)) => {
            tokio::time::sleep(delay).await;
            perform(shared, parts, call)
        }
        Some(Effect::Until(mut gate)) => {
            // Without a test that could open it, it is open.
            drop(gate.wait_for(|is_open| *is_open).await);
            perform(shared, parts, call)
        }
        Some(Effect::DelayAfter(delay)) => {
            let outgoing = perform(shared, parts, call);
            tokio::time::sleep(delay).await;
            outgoing
        }
        Some(Effect::ResetBefore) => broken(reset).await,
        Some(Effect::ResetAfter) => {
            drop(perform(shared, parts, call));
            broken(reset).await
        }
        Some(Effect::Hang) => std::future::pending().await,
        Some(Effect::HangAfter) => {
            drop(perform(shared, parts, call));
            std::future::pending().await
        }
    }
}

/// Resets the connection; this task ends with it.
async fn broken(reset: &Reset) -> Outgoing {
    reset.now();
    std::future::pending().await
}

fn fault(shared: &Shared, parts: &Parts, call: &Call) -> Option<Effect> {
    let (verb, resource) = (call.verb.name(), call.resource());
    let user_agent = header(&parts.headers, &USER_AGENT);
    let seen = Seen { verb, resource: &resource, namespace: call.namespace(), name: call.name(), user_agent };
    shared.conditions().take(&seen)
}

fn perform(shared: &Arc<Shared>, parts: &Parts, call: &Call) -> Outgoing {
    let authorization = header(&parts.headers, &AUTHORIZATION);
    if !authorization.is_empty() && authorization.strip_prefix("Bearer ") != Some(TOKEN) {
        return Outgoing::Reply(Reply::from(&Refusal::new(401, "Unauthorized", "Unauthorized")));
    }
    let (frozen_cache, unserved) = {
        let conditions = shared.conditions();
        (conditions.frozen_cache, conditions.unserved.clone())
    };
    let around = Surroundings { now: shared.clock.now(), frozen_cache, unserved: &unserved };
    let answer = api::answer(&mut shared.store(), call, around);
    match answer {
        Ok(Answer::Reply(reply)) => Outgoing::Reply(reply),
        Ok(Answer::List(page)) => Outgoing::Reply(Reply::serialized(200, &page)),
        Ok(Answer::Watch(watch)) => Outgoing::Watch(stream::spawn(Arc::clone(shared), watch)),
        Err(refusal) => Outgoing::Reply(Reply::from(&refusal)),
    }
}

fn record(shared: &Shared, parts: &Parts, call: &Call) -> requests::Request {
    requests::Request {
        user_agent: header(&parts.headers, &USER_AGENT).to_owned(),
        identity: identity(&parts.headers),
        verb: call.verb.name().to_owned(),
        resource: call.resource(),
        namespace: call.namespace().to_owned(),
        name: call.name().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body: call.body.clone(),
        at: shared.clock.now().elapsed,
        code: None,
    }
}

fn identity(headers: &HeaderMap) -> Vec<String> {
    let says_who = |name: &HeaderName| *name == AUTHORIZATION || name.as_str().starts_with("impersonate-");
    let told = headers.iter().filter(|(name, _)| says_who(name));
    let mut told: Vec<_> =
        told.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or_default())).collect();
    told.sort();
    told
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn respond(outgoing: Outgoing, now: Moment) -> Response<Body> {
    let (code, content_type, extra, body) = match outgoing {
        Outgoing::Reply(reply) => {
            (reply.code, reply.content_type, reply.headers, Either::Left(Full::new(reply.body)))
        }
        Outgoing::Watch(body) => (200, "application/json".to_owned(), Vec::new(), Either::Right(body)),
        Outgoing::Endless(reply, body) => {
            (reply.code, reply.content_type, reply.headers, Either::Right(body))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (audit_id, date) = (Uuid::new_v4().to_string(), now.http_date());
    let fixed = [
        ("audit-id", audit_id.as_str()),
        ("cache-control", "no-cache, private"),
        ("content-type", content_type.as_str()),
        // Otherwise hyper sends the machine's time, which differs from the time in the objects.
        ("date", date.as_str()),
        ("x-kubernetes-pf-flowschema-uid", "00000000-0000-4000-8000-000000000001"),
        ("x-kubernetes-pf-prioritylevel-uid", "00000000-0000-4000-8000-000000000002"),
    ];
    let extra = extra.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in fixed.into_iter().chain(extra) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
