//! A listener that speaks TLS with a certificate that it makes itself. Clients learn the certificate in a way
//! that they trust, and trust that one alone. There is no authority, and nothing to renew: the certificate ends
//! with the process.
//!
//! ```text
//!   bind ─► a place is free ─► accept ─► handshake, each on a task of its own, bounded in time ─► channel ─► axum::serve
//!              ▲                                                                                                │
//!              └──────────────── closed, by either side, or after too long without an answer ◄──────────────────┘
//! ```

mod connection;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::server::TlsStream;
use tracing::debug;

pub use connection::Connection;

/// Connections at a time, from before their handshake to their end; others wait in the kernel's queue. Each
/// holds about 50 KiB, and few processes connect to us.
const CONNECTIONS_MAX: usize = 256;
/// A handshake takes milliseconds.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
/// The wait after an `accept` that failed, for example because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// We cannot listen on the address.
    #[error("cannot listen on {address}")]
    Listen {
        /// As given.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The certificate could not be made.
    #[error("cannot make a certificate for {0}")]
    Certificate(String, #[source] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot serve TLS")]
    Tls(#[from] rustls::Error),
}

/// A listener for [`axum::serve`].
pub struct Listener {
    address: SocketAddr,
    certificate_pem: String,
    streams: mpsc::Receiver<(Stream, SocketAddr)>,
}

type Stream = Connection<TlsStream<TcpStream>>;

impl Listener {
    /// Listens on an address (port 0 picks a free one), with a new certificate for `name`.
    pub async fn bind(address: SocketAddr, name: &str) -> Result<Self, Error> {
        Self::bind_with(address, name, CONNECTIONS_MAX).await
    }

    async fn bind_with(address: SocketAddr, name: &str, connections_max: usize) -> Result<Self, Error> {
        let (certificate_pem, acceptor) = acceptor(name)?;
        let fail = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let (sender, streams) = mpsc::channel(1);
        tokio::spawn(accept_all(listener, acceptor, connections_max, sender));
        Ok(Self { address, certificate_pem, streams })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate, for clients that are to trust it.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }
}

impl axum::serve::Listener for Listener {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.streams.recv().await {
            Some(stream) => stream,
            // The accepting task ends only with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

fn acceptor(name: &str) -> Result<(String, TlsAcceptor), Error> {
    let fail = |source| Error::Certificate(name.to_owned(), source);
    let mut params = CertificateParams::new([name.to_owned()]).map_err(fail)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(fail)?;
    let certificate = params.self_signed(&key).map_err(fail)?;
    let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private.into())?;
    Ok((certificate.pem(), TlsAcceptor::from(Arc::new(config))))
}

/// Runs until the receiver of streams is gone.
async fn accept_all(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    connections_max: usize,
    streams: mpsc::Sender<(Stream, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = streams.closed() => return,
            next = next => next,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (acceptor, streams) = (acceptor.clone(), streams.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
                // Without a receiver the process is ending.
                Ok(Ok(stream)) => drop(streams.send((Connection::new(stream, place), peer)).await),
                Ok(Err(error)) => debug!(%peer, %error, "A handshake failed."),
                Err(_) => debug!(%peer, "A handshake took too long."),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;
    use std::time::Duration;

    use axum::serve::Listener as _;
    use tokio::net::TcpStream;
    use tokio::time::timeout;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

    use super::Listener;

    fn connector(listener: &Listener) -> TlsConnector {
        let certificate = CertificateDer::from_pem_slice(listener.certificate_pem().as_bytes());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.expect("a certificate")).expect("it can be trusted");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }

    #[tokio::test]
    async fn a_connection_has_its_place_until_it_is_closed() {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut listener = Listener::bind_with(any_port, "leader", 1).await.expect("it listens");
        let (connector, address) = (connector(&listener), listener.address());
        let connect = || async {
            let stream = TcpStream::connect(address).await.expect("the kernel accepts");
            let name = ServerName::try_from("leader").expect("a name");
            connector.connect(name, stream).await.expect("a handshake")
        };
        let _first = connect().await;
        let (served, _) = listener.accept().await;
        let second = connect();
        let mut second = std::pin::pin!(second);
        let waits = timeout(Duration::from_millis(300), second.as_mut()).await;
        assert!(waits.is_err(), "there is no place for it");
        drop(served);
        timeout(Duration::from_secs(10), second).await.expect("now there is one");
    }
}
