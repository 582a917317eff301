//! A private certificate authority per cluster, made anew at each start and thrown away with the cluster.
//!
//! Validity is left at its widest: the keys live in a directory of mode 0700 for minutes, and a clock that is wrong
//! on a developer's machine should not break a test.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::{Error, files};

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct CertifiedKey {
    /// The certificate's file.
    pub cert: PathBuf,
    /// The key's file, readable by its owner only.
    pub key: PathBuf,
}

/// An authority that signs certificates into a directory.
pub struct Authority {
    dir: PathBuf,
    cert: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority called `name`, with its certificate in `dir`.
    pub fn create(dir: &Path, name: &str) -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let cert = dir.join(format!("{name}.crt"));
        files::write_private(&cert, params.self_signed(&key)?.pem().as_bytes())?;
        Ok(Self { dir: dir.to_owned(), cert, issuer: Issuer::new(params, key) })
    }

    /// The file that holds the authority's certificate.
    pub fn cert(&self) -> &Path {
        &self.cert
    }

    /// Signs a certificate for a server that is reached under `names` (host names or IP addresses).
    pub fn sign_server(&self, file: &str, names: &[&str]) -> Result<CertifiedKey, Error> {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, file);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(file, params)
    }

    /// Signs a certificate that logs a client in as `user`, a member of `group`.
    pub fn sign_client(&self, file: &str, user: &str, group: Option<&str>) -> Result<CertifiedKey, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(file, params)
    }

    fn sign(&self, file: &str, mut params: CertificateParams) -> Result<CertifiedKey, Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let signed = CertifiedKey {
            cert: self.dir.join(format!("{file}.crt")),
            key: self.dir.join(format!("{file}.key")),
        };
        files::write_private(&signed.cert, params.signed_by(&key, &self.issuer)?.pem().as_bytes())?;
        files::write_private(&signed.key, key.serialize_pem().as_bytes())?;
        Ok(signed)
    }
}

/// The key that signs service account tokens, and the public half that checks them.
pub struct TokenKey {
    /// The private key's file.
    pub private: PathBuf,
    /// The public key's file.
    pub public: PathBuf,
}

impl TokenKey {
    /// Creates a key pair in `dir`.
    pub fn create(dir: &Path) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let files =
            Self { private: dir.join("service-account.key"), public: dir.join("service-account.pub") };
        files::write_private(&files.private, key.serialize_pem().as_bytes())?;
        files::write_private(&files.public, key.public_key_pem().as_bytes())?;
        Ok(files)
    }
}
