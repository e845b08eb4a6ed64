//! Credentials of kubelets: client certificates of `system:node:<name>`.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

use crate::{
    components::{CLIENT_CA, CLIENT_CA_KEY, Site},
    credentials::{User, kubeconfig, write_private},
    plane::ControlPlane,
};

/// Creates the authority whose client certificates the API server accepts.
pub(crate) fn make_client_ca(site: &Site) -> Result<()> {
    let key = KeyPair::generate().context("cannot make a key")?;
    let certificate = authority().self_signed(&key).context("cannot make a certificate authority")?;
    write_private(&site.path(CLIENT_CA_KEY), key.serialize_pem().as_bytes())?;
    write_private(&site.path(CLIENT_CA), certificate.pem().as_bytes())
}

/// The authority's parameters. They are the same each time, so its key alone is enough to sign more certificates.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("plane-clients", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        named.push(DnType::OrganizationName, organization);
    }
    named
}

impl ControlPlane {
    /// The kubeconfig of this node's kubelet, user `system:node:<node>` of group `system:nodes`. The Node authorizer
    /// and NodeRestriction confine this user to that node. The file is readable by its owner only, and exists as long
    /// as this handle.
    pub fn node_kubeconfig(&self, node: &str) -> Result<PathBuf> {
        self.node_kubeconfig_for(node, None)
    }

    /// As [`ControlPlane::node_kubeconfig`], with a certificate that expires after `validity`; without a time it
    /// outlives the handle.
    pub fn node_kubeconfig_for(&self, node: &str, validity: Option<Duration>) -> Result<PathBuf> {
        let ca = self.coordinates().folder.join(CLIENT_CA_KEY);
        let ca = fs::read_to_string(&ca).with_context(|| format!("cannot read `{}`", ca.display()))?;
        let ca = KeyPair::from_pem(&ca).context("the client authority's key is no key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&format!("system:node:{node}"), Some("system:nodes"));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        #[expect(clippy::disallowed_methods, reason = "certificates end by the wall clock")]
        if let Some(end) = validity.and_then(|validity| SystemTime::now().checked_add(validity)) {
            params.not_after = end.into();
        }
        let key = KeyPair::generate().context("cannot make a key")?;
        let certificate = params
            .signed_by(&key, &Issuer::new(authority(), ca))
            .with_context(|| format!("cannot make the certificate of node `{node}`"))?;
        let user = User::Certificate { certificate: certificate.pem(), key: key.serialize_pem() };
        let config = kubeconfig(self.server(), &self.coordinates().certificate, &user)?;
        let path = self.scratch(&format!("node.{node}.kubeconfig"));
        write_private(&path, config.as_bytes())?;
        Ok(path)
    }
}
