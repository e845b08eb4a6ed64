//! Bearer tokens that change while a connection exists: from a file, or from a credential plugin.
//!
//! The boot clock decides when a token is read again: if the wall clock is set back by a day, an old token must not be
//! kept for a day.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use drain::Moment;
use futures::future::BoxFuture;
use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use kube::config::ExecConfig;
use tokio::sync::Mutex;
use tower::BoxError;
use tower::filter::AsyncPredicate;

use crate::clock::Clock;
use crate::exec_plugin::{self, Credential};
use trust::Trust;

/// Pause before a token file is read again, and before a plugin that has failed is asked again.
const AGAIN: Duration = Duration::from_secs(10);

/// How long before the end of a token a plugin is asked for the next one.
const EARLY: Duration = Duration::from_mins(1);

/// Time limit for reading a token file.
const READING: Duration = Duration::from_secs(5);

/// Source of our credentials, besides a client certificate and data in the kubeconfig itself.
#[derive(Debug)]
pub(crate) enum Origin {
    /// No other source.
    Fixed,
    /// A token in this file.
    File(PathBuf, Trust),
    /// A credential plugin, whose program has to be trusted before each run.
    Plugin(Box<ExecConfig>, Trust),
}

/// Reason for which there is no token. It never quotes a plugin's output or a file's content.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoToken(String);

/// Adds the valid token to every request.
#[derive(Clone)]
pub(crate) struct Tokens(Arc<Source>);

struct Source {
    origin: Origin,
    clock: Clock,
    limit: Duration,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    header: Option<HeaderValue>,
    /// The end of the token: it must not be used later.
    ends: Option<Moment>,
    /// When the token is read again.
    again: Moment,
    failure: Option<NoToken>,
}

impl Tokens {
    /// Creates it for this source; `None` if the source gives no tokens.
    pub(crate) fn of(origin: Origin, clock: Clock) -> Option<Self> {
        Self::within(origin, clock, exec_plugin::LIMIT)
    }

    fn within(origin: Origin, clock: Clock, limit: Duration) -> Option<Self> {
        let brings_tokens = match &origin {
            Origin::Fixed => false,
            Origin::File(..) | Origin::Plugin(..) => true,
        };
        brings_tokens.then(|| Self(Arc::new(Source { origin, clock, limit, kept: Mutex::default() })))
    }

    /// Takes over a plugin's first answer, which was needed at the connect for its certificate.
    pub(crate) async fn take(&self, credential: &Credential) -> Result<(), NoToken> {
        let mut kept = self.0.kept.lock().await;
        kept.take(credential.token.as_deref(), credential.lifetime, (self.0.clock)())
    }

    /// The header that is valid now. Many callers may ask at a time; one of them reads.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, NoToken> {
        let source = &self.0;
        let mut kept = source.kept.lock().await;
        let now = (source.clock)();
        if now < kept.again {
            return kept.current(now);
        }
        let read = match &source.origin {
            Origin::Fixed => return Ok(None),
            Origin::File(path, trust) => {
                read_token(path.clone(), *trust).await.map(|token| (Some(token), Some(AGAIN)))
            }
            Origin::Plugin(exec, trust) => exec_plugin::run(exec, *trust, source.limit)
                .await
                .map(|credential| (credential.token, credential.lifetime)),
        };
        let now = (source.clock)();
        match (read, &source.origin) {
            // The end of a token file's token is not known.
            (Ok((token, _)), Origin::File(..)) => {
                kept.take(token.as_deref(), None, now)?;
                kept.again = now + AGAIN;
            }
            (Ok((token, lifetime)), Origin::Fixed | Origin::Plugin(..)) => {
                kept.take(token.as_deref(), lifetime, now)?;
            }
            (Err(why), _) => {
                (kept.failure, kept.again) = (Some(NoToken(why)), now + AGAIN);
            }
        }
        kept.current(now)
    }
}

impl Kept {
    fn take(&mut self, token: Option<&str>, lifetime: Option<Duration>, now: Moment) -> Result<(), NoToken> {
        let header = token.map(|token| HeaderValue::try_from(format!("Bearer {}", token.trim()))).transpose();
        let mut header =
            header.map_err(|_| NoToken("its token holds characters that HTTP forbids".to_owned()))?;
        if let Some(header) = &mut header {
            header.set_sensitive(true);
        }
        let early = |lifetime: Duration| now + lifetime.saturating_sub(EARLY).max(AGAIN);
        *self = Self {
            header,
            // A wall clock that is ahead makes every token look expired: the server knows better.
            ends: lifetime.map(|lifetime| now + lifetime.max(EARLY)),
            again: lifetime.map_or(Moment::NEVER, early),
            failure: None,
        };
        Ok(())
    }

    /// The last token while it is valid, also if it could not be read again: Kubernetes' own clients also go on with the
    /// last token of a file that is gone.
    fn current(&self, now: Moment) -> Result<Option<HeaderValue>, NoToken> {
        let holds = self.header.is_some() && self.ends.is_none_or(|ends| now < ends);
        match &self.failure {
            Some(failure) if !holds => Err(failure.clone()),
            Some(_) | None => Ok(self.header.clone()),
        }
    }
}

pub(crate) async fn read_token(path: PathBuf, trust: Trust) -> Result<String, String> {
    let shown = path.display().to_string();
    let failed = |what: &str| format!("its token file `{shown}` {what}");
    let reading = tokio::task::spawn_blocking(move || trust.read(&path));
    let read = tokio::time::timeout(READING, reading).await.ok().and_then(Result::ok);
    let bytes = read.ok_or_else(|| failed("could not be read within 5 s"))?;
    let bytes = bytes.map_err(|error| failed(&format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| failed("holds no text"))
}

impl<B: Send + 'static> AsyncPredicate<Request<B>> for Tokens {
    type Future = BoxFuture<'static, Result<Request<B>, BoxError>>;
    type Request = Request<B>;

    fn check(&mut self, mut request: Request<B>) -> Self::Future {
        let tokens = self.clone();
        Box::pin(async move {
            if let Some(header) = tokens.header().await? {
                request.headers_mut().insert(AUTHORIZATION, header);
            }
            Ok(request)
        })
    }
}

#[cfg(test)]
mod tests;
