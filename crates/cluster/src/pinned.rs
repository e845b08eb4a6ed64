//! Trusts a server certificate that is itself one of the given roots, as Go's crypto/x509 does.
//!
//! webpki accepts only certificates that a CA has signed, and no CA's as a server's. Many servers have a certificate that
//! they have signed themselves (`openssl req -x509` makes it with CA:TRUE), and their kubeconfigs name just that one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::validity::times_of;

/// Trusts the roots themselves, and every certificate that webpki accepts with these roots.
#[derive(Debug)]
pub(crate) struct Pinned {
    roots: Vec<CertificateDer<'static>>,
    others: Arc<WebPkiServerVerifier>,
}

impl Pinned {
    /// Makes it from the roots in DER. A root that is no certificate counts for nothing; kube refuses it before.
    pub(crate) fn new(roots: &[Vec<u8>]) -> Result<Self, VerifierBuilderError> {
        let roots: Vec<CertificateDer<'static>> = roots.iter().cloned().map(Into::into).collect();
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().cloned());
        Ok(Self { roots, others: WebPkiServerVerifier::builder(store.into()).build()? })
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.roots.contains(certificate) {
            return self.others.verify_server_cert(certificate, intermediates, name, ocsp, now);
        }
        verify_time(certificate, now)?;
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}

fn verify_time(certificate: &[u8], time: UnixTime) -> Result<(), CertificateError> {
    let (begins, ends) = times_of(certificate).ok_or(CertificateError::BadEncoding)?;
    let unix = |at: Timestamp| {
        UnixTime::since_unix_epoch(Duration::from_secs(at.as_second().try_into().unwrap_or_default()))
    };
    let (not_before, not_after) = (unix(begins), unix(ends));
    if time < not_before {
        return Err(CertificateError::NotValidYetContext { time, not_before });
    }
    if time > not_after {
        return Err(CertificateError::ExpiredContext { time, not_after });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

    use super::*;
    use crate::failure::classify;
    use crate::operation::Operation;

    type Signer = Issuer<'static, KeyPair>;

    /// A certificate for this name, valid in these years, and what signs with its key. Without a signer it signs itself.
    fn made(name: &str, years: (i32, i32), is_ca: bool, signer: Option<&Signer>) -> (Vec<u8>, Signer) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = match signer {
            Some(signer) => params.signed_by(&key, signer),
            None => params.self_signed(&key),
        };
        (certificate.unwrap().der().to_vec(), Issuer::new(params, key))
    }

    #[test]
    fn a_certificate_that_is_given_is_trusted_for_its_name_and_time() {
        const NOW: (i32, i32) = (2020, 2060);
        let (ca, signer) = made("ca", NOW, true, None);
        let (leaf, _) = made("edge", NOW, false, Some(&signer));
        let (alone, _) = made("edge", NOW, true, None);
        let (plain, _) = made("edge", NOW, false, None);
        let (twin, _) = made("edge", NOW, true, None);
        let (address, _) = made("10.0.0.1", NOW, true, None);
        let (old, _) = made("edge", (2020, 2021), true, None);
        let (new, _) = made("edge", (2050, 2060), false, Some(&signer));
        let (lower, _) = made("edge", NOW, true, Some(&signer));
        let mut broken = leaf.clone();
        broken.truncate(20);
        // Given roots, the server's certificate, the name that is asked for, and what is said if it is refused.
        let cases: [(&str, &[&[u8]], &[u8], &str, Option<&str>); 17] = [
            ("its CA", &[&ca], &leaf, "edge", None),
            ("itself, its CA is not given", &[&leaf], &leaf, "edge", None),
            ("itself, of a CA", &[&alone], &alone, "edge", None),
            ("itself, self-signed", &[&plain], &plain, "edge", None),
            ("one of two", &[&ca, &alone], &alone, "edge", None),
            ("an address", &[&address], &address, "10.0.0.1", None),
            ("another address", &[&address], &address, "10.0.0.2", Some("not for 10.0.0.2")),
            ("another name", &[&leaf], &leaf, "core", Some("not for core: put one of its names")),
            ("another name, of a CA", &[&alone], &alone, "core", Some("tls-server-name: edge")),
            ("expired", &[&old], &old, "edge", Some("expired at 2021-01-01")),
            ("not valid yet", &[&new], &new, "edge", Some("not valid before 2050-01-01")),
            ("another key", &[&leaf], &plain, "edge", Some("no CA that is given has signed")),
            ("another CA of this name", &[&alone], &twin, "edge", Some("CA:TRUE")),
            ("an unknown CA", &[&alone], &leaf, "edge", Some("no CA that is given has signed")),
            ("a lower CA's as a server's", &[&ca], &lower, "edge", Some("give that very certificate")),
            ("the lower CA's itself", &[&ca, &lower], &lower, "edge", None),
            ("no certificate", &[&ca, &broken], &broken, "edge", Some("cannot be read")),
        ];
        for (what, roots, certificate, name, expected) in cases {
            let roots: Vec<_> = roots.iter().map(|root| root.to_vec()).collect();
            let now = UnixTime::since_unix_epoch(Duration::from_hours(500_000));
            let name = ServerName::try_from(name).unwrap();
            let seen =
                Pinned::new(&roots).unwrap().verify_server_cert(&certificate.into(), &[], &name, &[], now);
            let said = seen.err().map(|error| {
                let error = kube::Error::Service(Box::new(io::Error::other(error)));
                classify(&Operation::on_cluster("list", "nodes", ""), &error).text().to_owned()
            });
            assert_eq!(said.is_some(), expected.is_some(), "{what}: {said:?}");
            assert!(
                said.as_deref().unwrap_or_default().contains(expected.unwrap_or_default()),
                "{what}: {said:?}"
            );
        }
    }
}
