//! Finds out when our credentials end: a client certificate's `notAfter`, a token's `exp`.
//!
//! Credentials that cannot be parsed have no known end. Nothing is verified here: that is the API server's part.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use kube::config::AuthInfo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

/// The times between which a credential is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// `client certificate` or `token`.
    pub(crate) what: &'static str,
    /// The start, if it is known.
    pub(crate) begins: Option<Timestamp>,
    /// The end.
    pub(crate) ends: Timestamp,
}

/// The earliest end of the credentials in a kubeconfig's user.
pub(crate) fn of_user(user: &AuthInfo) -> Option<Validity> {
    let certificate = user.client_certificate_data.as_deref().and_then(|data| STANDARD.decode(data).ok());
    let certificate = certificate.as_deref().and_then(of_certificate);
    // The token is in a type of another crate that reveals it only when it is serialized.
    let written = serde_json::to_value(user).ok();
    let token = written.as_ref().and_then(|user| user.get("token")?.as_str()).and_then(of_token);
    certificate.into_iter().chain(token).min_by_key(|validity| validity.ends)
}

/// The validity of the first certificate of a PEM text.
fn of_certificate(pem: &[u8]) -> Option<Validity> {
    let certificate = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let (begins, ends) = times_of(&certificate)?;
    Some(Validity { what: "client certificate", begins: Some(begins), ends })
}

/// The validity of a JSON Web Token; other kinds of tokens have no known end.
pub(crate) fn of_token(token: &str) -> Option<Validity> {
    let mut parts = token.trim().split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let time = |name: &str| Timestamp::from_second(claims.get(name)?.as_i64()?).ok();
    Some(Validity { what: "token", begins: time("nbf").or_else(|| time("iat")), ends: time("exp")? })
}

/// `notBefore` and `notAfter` (RFC 5280, 4.1): the fifth field of the certificate's first part, after the optional
/// version, the serial number, the signature's algorithm and the issuer.
pub(crate) fn times_of(der: &[u8]) -> Option<(Timestamp, Timestamp)> {
    const VERSION: u8 = 0xa0;
    let (_, certificate, _) = element(der)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    for _ in ["serial number", "algorithm", "issuer"] {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (tag, begins, rest) = element(validity)?;
    let begins = time(tag, begins)?;
    let (tag, ends, _) = element(rest)?;
    Some((begins, time(tag, ends)?))
}

/// Tag and content of the first DER element, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // More than four bytes would mean a length beyond anything that is read.
        let (bytes, rest) =
            rest.split_at_checked(usize::from(first & 0x7f)).filter(|(bytes, _)| bytes.len() <= 4)?;
        (bytes.iter().fold(0_usize, |length, &byte| (length << 8) | usize::from(byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Two digits of the year: 50 and later are of the twentieth century.
        UTC_TIME if text.get(..2)? >= "50" => format!("19{text}"),
        UTC_TIME => format!("20{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = include_str!("connect/tests/server.pem");

    #[test]
    fn the_end_of_a_certificate() {
        let found = of_certificate(CERTIFICATE.as_bytes()).unwrap();
        assert!(found.begins.unwrap() < found.ends, "{found:?}");
        assert!(found.ends.to_string().starts_with(char::is_numeric), "{found:?}");
    }

    #[test]
    fn a_certificate_that_is_cut_anywhere_has_no_end_and_does_not_panic() {
        let certificate = CertificateDer::pem_slice_iter(CERTIFICATE.as_bytes()).next().unwrap().unwrap();
        let whole = times_of(&certificate);
        assert!(whole.is_some());
        for length in 0..certificate.len() {
            assert_eq!(times_of(&certificate[..length]), None, "{length}");
        }
        for index in 0..certificate.len() {
            let mut broken = certificate.to_vec();
            broken[index] ^= 0xff;
            times_of(&broken);
        }
    }

    #[test]
    fn both_forms_of_a_time() {
        let cases = [
            (0x17, "490102030405Z", Some("2049-01-02T03:04:05Z")),
            (0x17, "500102030405Z", Some("1950-01-02T03:04:05Z")),
            (0x18, "20500102030405Z", Some("2050-01-02T03:04:05Z")),
            (0x18, "20501302030405Z", None),
            (0x17, "é", None),
            (0x04, "490102030405Z", None),
        ];
        for (tag, text, expected) in cases {
            let found = time(tag, text.as_bytes()).map(|time| time.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_end_of_a_token() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let found = of_token(&token(r#"{"exp":2000,"iat":1000}"#)).unwrap();
        assert_eq!((found.begins, found.ends), (Some(at(1000)), at(2000)));
        for none in ["", "s3cret", "a.b", "a.b.c", &token("{}"), &token(r#"{"exp":"soon"}"#)] {
            assert_eq!(of_token(none), None, "{none}");
        }
    }

    #[test]
    fn the_earliest_end_counts() {
        let user = serde_json::json!({
            "token": format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(r#"{"exp":2000}"#)),
            "client-certificate-data": STANDARD.encode(CERTIFICATE),
        });
        let user: AuthInfo = serde_json::from_value(user).unwrap();
        assert_eq!(of_user(&user).map(|validity| validity.what), Some("token"));
        assert_eq!(of_user(&AuthInfo::default()), None);
    }
}
