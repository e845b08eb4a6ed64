//! Meaning of a failed call to the API server.
//!
//! Every failure is classified here or, for evictions, in [`crate::answer`]; no other module looks at status codes or
//! at `kube::Error`. The texts are whole sentences for people: they name the operation, its object, and the error. They
//! never contain a token, a key, or a part of an object.

use std::error::Error;
use std::io;

use jiff::Timestamp;
use kube::client::{AuthError, RustlsTlsError};
use kube::config::{KubeconfigError, LoadDataError};
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage};
use text::first_chars;

use crate::bounds::TooLong;
use crate::operation::Operation;

/// A call to the API server that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiFailure {
    /// The API server cannot be reached or cannot serve: connection refused, DNS, TLS, time-out, 5xx, and a
    /// kubeconfig that is missing or broken.
    #[error("{text}")]
    Unreachable {
        /// The operation and what happened.
        text: String,
    },
    /// The API server answered and refused our credentials or rights (401, 403): the verb and the resource are named.
    #[error("{text}")]
    Denied {
        /// The operation, the server's message, and the right that is missing.
        text: String,
    },
    /// The object does not exist (404).
    #[error("{text}")]
    NotFound {
        /// The operation.
        text: String,
    },
    /// Another client changed the object since it was read (409).
    #[error("{text}")]
    Conflict {
        /// The operation and the server's message.
        text: String,
    },
    /// The API server answered that it is too busy (429, unless a disruption budget is the cause).
    #[error("{text}")]
    Busy {
        /// The operation and the server's message.
        text: String,
    },
    /// Any other failure: a request that the server does not understand, an answer that we do not understand.
    #[error("{text}")]
    Other {
        /// The operation and what happened.
        text: String,
    },
}

impl ApiFailure {
    /// The failure as a sentence for people.
    pub fn text(&self) -> &str {
        match self {
            Self::Unreachable { text }
            | Self::Denied { text }
            | Self::NotFound { text }
            | Self::Conflict { text }
            | Self::Busy { text }
            | Self::Other { text } => text,
        }
    }

    /// True if the API server is away, as far as this call can tell.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    pub(crate) fn unreachable(text: impl Into<String>) -> Self {
        Self::Unreachable { text: text.into() }
    }

    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self::Other { text: text.into() }
    }
}

/// Classifies an error of the kube client.
pub(crate) fn classify(operation: &Operation<'_>, error: &kube::Error) -> ApiFailure {
    use kube::Error as E;
    let failed = |what: &str| format!("cannot {operation}: {what}");
    if let Some(tls) = tls_error(error) {
        if let Some(clock) = clock_text(tls) {
            return ApiFailure::unreachable(format!("{clock} (cannot {operation})"));
        }
        if let Some(said) = tls_text(tls) {
            return ApiFailure::unreachable(failed(&words(&said)));
        }
    }
    match error {
        E::Api(status) => refused(operation, status.code, &status.message),
        E::HyperError(error) => ApiFailure::unreachable(failed(&chain(error))),
        E::Service(error) if error.is::<TooLong>() => ApiFailure::other(failed(&error.to_string())),
        E::Service(error) => ApiFailure::unreachable(failed(&chain(error.as_ref()))),
        E::ReadEvents(error) => ApiFailure::unreachable(failed(&chain(error))),
        E::Auth(error) => ApiFailure::unreachable(failed(auth_text(error))),
        E::InferKubeconfig(error) => ApiFailure::unreachable(failed(&kubeconfig_text(error))),
        E::RustlsTls(error) => ApiFailure::unreachable(failed(&setup_text(error))),
        E::InferConfig(_) => ApiFailure::unreachable(failed("no usable kubeconfig and not in a cluster")),
        E::ProxyProtocolUnsupported { .. } | E::ProxyProtocolDisabled { .. } => {
            ApiFailure::unreachable(failed("a proxy is configured, which is not supported"))
        }
        E::TlsRequired => ApiFailure::unreachable(failed("TLS is required")),
        E::SerdeError(error) => ApiFailure::other(failed(&json_text(error))),
        E::FromUtf8(_) | E::LinesCodecMaxLineLengthExceeded | E::Discovery(_) => {
            ApiFailure::other(failed("the answer is not what an API server sends"))
        }
        E::HttpError(_) | E::BuildRequest(_) => ApiFailure::other(failed("the request cannot be built")),
    }
}

/// The TLS error inside this error, if there is one.
pub(crate) fn tls_error(error: &kube::Error) -> Option<&rustls::Error> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref() {
            return Some(tls);
        }
        // `io::Error::source` skips the error that it wraps, so that one is taken out by hand.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// The text for a server certificate that is not valid at the time of this machine's clock. A wrong clock on this
/// machine looks like a wrong server, so the clock has to be checked first.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other complaint is not about time; rustls adds more"
)]
fn clock_text(error: &rustls::Error) -> Option<String> {
    use CertificateError as E;
    let rustls::Error::InvalidCertificate(error) = error else { return None };
    let (now, what) = match error {
        E::NotValidYet => (None, "is not valid yet".to_owned()),
        E::NotValidYetContext { time, not_before } => {
            (Some(time), format!("is not valid before {}", shown(*not_before)))
        }
        E::Expired => (None, "has expired".to_owned()),
        E::ExpiredContext { time, not_after } => (Some(time), format!("expired at {}", shown(*not_after))),
        _ => return None,
    };
    let clock = now.map_or_else(String::new, |now| format!(", which shows {}", shown(*now)));
    Some(format!(
        "by this machine's clock{clock}, the API server's certificate {what}: set the clock, or renew the certificate"
    ))
}

/// Text for the other refusals of a TLS connection: what is wrong, and what to give. `None` for those that mean a broken
/// connection.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the rest is rare, and its own words must do; rustls adds more"
)]
fn tls_text(error: &rustls::Error) -> Option<String> {
    use rustls::Error as E;
    let said = match error {
        E::InvalidCertificate(error) => return certificate_text(error),
        E::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion)
        | E::PeerIncompatible(_) => {
            "the API server and this program have no TLS algorithm in common: give the server a key of RSA, P-256, P-384 \
             or Ed25519 (P-521 is not supported), and TLS 1.2 or 1.3"
        }
        E::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what answers there does not speak TLS: give another port as `server`, or http:// instead of https://"
        }
        _ => return None,
    };
    Some(said.to_owned())
}

/// Text for a server certificate that is refused for another reason than the clock.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the rest is rare, and its own words must do; rustls adds more"
)]
fn certificate_text(error: &CertificateError) -> Option<String> {
    use CertificateError as E;
    let what = match error {
        E::UnknownIssuer | E::BadSignature => {
            "no CA that is given has signed the API server's certificate: give the CA that has signed it, or that \
             certificate itself, as certificate-authority"
        }
        // webpki's own errors come without a type.
        E::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            "the API server's certificate is that of a CA (CA:TRUE), which is trusted only if it is given: give that very \
             certificate as certificate-authority, or make one without CA:TRUE"
        }
        E::NotValidForNameContext { expected, presented } => {
            return Some(name_text(&expected.to_str(), presented));
        }
        E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the API server's certificate is signed with an algorithm that is not supported here, such as P-521: sign it \
             with RSA, P-256, P-384 or Ed25519, or give that very certificate as certificate-authority"
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "the API server's certificate is not one of a server: make one with the extended key usage serverAuth"
        }
        E::BadEncoding | E::UnhandledCriticalExtension => "the API server's certificate cannot be read",
        _ => return None,
    };
    Some(what.to_owned())
}

/// Text for a certificate with other names; webpki gives them as `DnsName("a")` and `IpAddress(10.0.0.1)`.
fn name_text(expected: &str, presented: &[String]) -> String {
    let names = presented.iter().filter_map(|name| name.split_once('('));
    let names: Vec<&str> = names.map(|(_, name)| name.trim_matches(['"', ')'])).collect();
    let remedy = if names.is_empty() {
        "it has no names (subjectAltName); make one that has".to_owned()
    } else {
        format!("put one of its names into `server`, or into tls-server-name: {}", names.join(", "))
    };
    format!("the API server's certificate is not for {expected}: {remedy}")
}

/// Reason for which there can be no TLS at all: what the kubeconfig gives for it is of no use.
fn setup_text(error: &RustlsTlsError) -> String {
    use RustlsTlsError as E;
    match error {
        E::InvalidIdentityPem(_) | E::MissingCertificate => "the client certificate is not PEM".to_owned(),
        E::MissingPrivateKey | E::UnknownPrivateKeyFormat => {
            "the client key is not a private key in PEM (PKCS#1, PKCS#8 or SEC1)".to_owned()
        }
        E::InvalidPrivateKey(error) => {
            format!(
                "the client key cannot be used (RSA, P-256, P-384 and Ed25519 are supported): {}",
                chain(error)
            )
        }
        E::AddRootCertificate(_) => "the certificate-authority is not a certificate".to_owned(),
        E::NoValidNativeRootCA(error) => format!("this machine's own CAs cannot be read: {}", chain(error)),
        E::InvalidServerName(_) => "the tls-server-name is not the name of a server".to_owned(),
    }
}

/// The day alone: a text that changed with every try would be logged and published each time.
fn shown(time: UnixTime) -> String {
    let time = i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "an impossible time".to_owned(), |time| time.strftime("%F").to_string())
}

/// True for the Node authorizer's refusal to let a kubelet read a pod, claim or volume by name, because no pod bound to
/// its node needs the object (any more): for this node the object is gone. It is not a missing right, and the final
/// check does not rely on it: it uses lists. For any other object, such as the slots, the same message means a missing
/// right.
fn is_not_ours(operation: &Operation<'_>, message: &str) -> bool {
    let of_pods = ["pods", "persistentvolumeclaims", "persistentvolumes", "volumeattachments"];
    operation.verb == "get" && of_pods.contains(&operation.resource) && is_hidden(message)
}

/// True for the words with which the Node authorizer hides an object from a kubelet, whether it exists or not.
pub(crate) fn is_hidden(message: &str) -> bool {
    message.contains("no relationship found between node")
}

/// The meaning of a status code of the API server, outside evictions.
pub(crate) fn refused(operation: &Operation<'_>, code: u16, message: &str) -> ApiFailure {
    let message = words(message);
    let said = if message.is_empty() {
        format!("cannot {operation}: the API server answered {code}")
    } else {
        format!("cannot {operation}: {message}")
    };
    match code {
        401 => ApiFailure::Denied {
            text: format!("cannot {operation}: the API server does not accept our credentials (401)"),
        },
        403 if is_not_ours(operation, &message) => ApiFailure::NotFound { text: said },
        403 => ApiFailure::Denied {
            text: format!("{said}; needs the right to `{}` `{}`", operation.verb, operation.resource),
        },
        404 => ApiFailure::NotFound { text: said },
        409 => ApiFailure::Conflict { text: said },
        429 => ApiFailure::Busy { text: said },
        500..=599 => ApiFailure::unreachable(format!("{said} ({code})")),
        _ => ApiFailure::other(said),
    }
}

/// True if the server has answered and would give the same answer again: it does not have the object, refuses us, or
/// sends what cannot be read. A server that is away, busy (429), slow (408), broken (5xx) or has forgotten a version
/// (410) may answer differently next time.
pub(crate) fn is_refusal(error: &kube::Error) -> bool {
    if let kube::Error::Api(status) = error {
        return !matches!(status.code, 408 | 410 | 429 | 500..=599);
    }
    matches!(error, kube::Error::SerdeError(_))
}

/// Reason for which a JSON text cannot be read. It quotes no part of the text, because objects may contain secrets.
pub(crate) fn json_text(error: &serde_json::Error) -> String {
    format!(
        "the answer is not the object that was asked for (line {}, column {})",
        error.line(),
        error.column()
    )
}

/// Reason for which a kubeconfig cannot be used. It quotes no part of the file, because the file contains keys and
/// parsers like to quote.
pub(crate) fn kubeconfig_text(error: &KubeconfigError) -> String {
    use KubeconfigError as E;
    match error {
        E::CurrentContextNotSet => "it has no current-context".to_owned(),
        E::KindMismatch | E::ApiVersionMismatch => "its parts are of different kinds or versions".to_owned(),
        E::LoadContext(name) => format!("its current-context `{}` does not exist in it", words(name)),
        E::LoadClusterOfContext(name) => format!("its cluster `{}` does not exist in it", words(name)),
        E::FindPath => "its path cannot be found out".to_owned(),
        E::ReadConfig(error, _) => io_text(error),
        E::Parse(_) => "it is not the YAML of a kubeconfig".to_owned(),
        E::MissingClusterUrl => "its cluster has no server".to_owned(),
        E::ParseClusterUrl(_) => "its cluster's server is not a URL".to_owned(),
        E::ParseProxyUrl(_) => "the proxy-url in it, or HTTPS_PROXY, is not a URL".to_owned(),
        E::LoadCertificateAuthority(error) => format!("its certificate-authority {}", load_text(error)),
        E::LoadClientCertificate(error) => format!("its client-certificate {}", load_text(error)),
        E::LoadClientKey(error) => format!("its client-key {}", load_text(error)),
        E::ParseCertificates(_) => "its certificate-authority is not PEM".to_owned(),
    }
}

/// Reason for which credentials could not be obtained. It does not quote a plugin's output, which may be the
/// credentials.
pub(crate) fn auth_text(error: &AuthError) -> &'static str {
    use AuthError as E;
    match error {
        E::InvalidBasicAuth(_) | E::InvalidBearerToken(_) => {
            "the credentials hold characters that HTTP forbids"
        }
        E::AuthExecStart(_) | E::MissingCommand => "the credential plugin cannot be started",
        E::AuthExecRun { .. } | E::AuthExec(_) | E::ExecPluginFailed => "the credential plugin failed",
        E::AuthExecParse(_)
        | E::AuthExecSerialize(_)
        | E::MalformedTokenExpirationDate(_)
        | E::ExecMissingClusterInfo => "the credential plugin did not answer as it should",
        E::ReadTokenFile(..) => "the token file cannot be read",
        E::UnrefreshableTokenResponse | E::ParseTokenKey(_) | E::NoValidNativeRootCA(_) => {
            "the credentials cannot be made"
        }
    }
}

/// A foreign text, made fit for one line of a report: no control characters, at most 600 characters.
pub(crate) fn words(text: &str) -> String {
    const LONGEST: usize = 600;
    first_chars(text.trim(), LONGEST)
}

/// The error and its causes, each text once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(auth) = error.downcast_ref::<AuthError>() {
            return auth_text(auth).to_owned();
        }
        let said = error.to_string();
        // kube puts this before every failure of the layers below it.
        let said = said.strip_prefix("ServiceError: ").unwrap_or(&said);
        if !text.contains(said) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(said);
        }
        next = error.source();
    }
    words(&text)
}

fn load_text(error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => "is not base64".to_owned(),
        LoadDataError::ReadFile(error, path) => {
            format!("file `{}` cannot be read: {}", path.display(), io_text(error))
        }
        LoadDataError::NoBase64DataOrFile => "is missing".to_owned(),
    }
}

fn io_text(error: &io::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests;
