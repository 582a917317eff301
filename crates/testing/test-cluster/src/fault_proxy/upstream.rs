//! The proxy's other side: connections to the API servers, over TLS with the cluster's own CA.

use std::io;
use std::path::Path;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::pki::CertifiedKey;

/// Takes TLS connections with this certificate.
pub(crate) fn acceptor(certificate: &CertifiedKey) -> io::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(&certificate.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(&certificate.key).map_err(io::Error::other)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(io::Error::other)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The API servers behind a proxy.
pub(super) struct Upstreams {
    connector: TlsConnector,
    /// `127.0.0.1:port` of each.
    addresses: Vec<String>,
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.addresses).finish()
    }
}

impl Upstreams {
    /// The servers at these URLs, with certificates of `authority`.
    pub fn new(authority: &Path, urls: &[String]) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority).map_err(io::Error::other)? {
            roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let addresses = urls.iter().map(|url| url.trim_start_matches("https://").to_owned()).collect();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), addresses })
    }

    /// A connection to one of the servers, made when it is first used; neighbours get different servers.
    pub fn link(&self, index: usize) -> Link {
        Link {
            connector: self.connector.clone(),
            address: self.addresses[index % self.addresses.len()].clone(),
            sender: None,
        }
    }
}

/// One connection to one server.
pub(super) struct Link {
    connector: TlsConnector,
    address: String,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Link {
    /// Sends the request once, on the open connection or else on a new one.
    pub async fn forward(&mut self, request: Request<Incoming>) -> io::Result<Response<Incoming>> {
        let (head, body) = request.into_parts();
        let request =
            Request::from_parts(head, Full::new(body.collect().await.map_err(io::Error::other)?.to_bytes()));
        let mut open = self.sender.take();
        if let Some(sender) = &mut open
            && sender.ready().await.is_err()
        {
            open = None;
        }
        let mut sender = match open {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        self.sender = Some(sender);
        Ok(answer)
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
        let stream = self.connector.connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
