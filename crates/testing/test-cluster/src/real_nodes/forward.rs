//! Forwards bytes between the host's loopback and the nodes' network, both ways.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::network;

/// Connections of one listener at a time: a kubelet keeps a handful, and a test has a handful of nodes and some hundred pods.
const CONNECTIONS_MAX: usize = 1_024;
/// A request to connect is an address and a header of 17 bytes.
const REQUEST_BYTES_MAX: usize = 1_024;
/// A node that was cut off does not answer, and must not block the API server's call for minutes.
const CONNECT_BOUND: Duration = Duration::from_secs(5);

/// Passes every connection on to `target`.
pub(super) async fn pass_on(listener: TcpListener, target: SocketAddr) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let Ok((mut near, _)) = listener.accept().await else { continue };
        connections.spawn(async move {
            let _permit = permit;
            if let Ok(mut far) = TcpStream::connect(target).await {
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}

/// The same for TLS connections; TLS ends here.
pub(super) async fn pass_on_from_tls(listener: TcpListener, acceptor: TlsAcceptor, target: SocketAddr) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let Ok((near, _)) = listener.accept().await else { continue };
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            let _permit = permit;
            // A client whose handshake is late is not served.
            let shaken = tokio::time::timeout(CONNECT_BOUND, acceptor.accept(near)).await;
            if let Ok(Ok(mut near)) = shaken
                && let Ok(mut far) = TcpStream::connect(target).await
            {
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}

/// Answers `CONNECT <address>:<port>` like an HTTP proxy, with a connection in that network namespace.
pub(super) async fn serve_connect(listener: UnixListener, namespace: PathBuf) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let Ok((near, _)) = listener.accept().await else { continue };
        let namespace = namespace.clone();
        connections.spawn(async move {
            let _permit = permit;
            let _ = connect(near, namespace).await;
        });
    }
}

async fn connect(mut near: UnixStream, namespace: PathBuf) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if request.len() >= REQUEST_BYTES_MAX {
            return near.write_all(b"HTTP/1.1 431 Request Header Fields Too Large\r\n\r\n").await;
        }
        // Byte by byte: the client waits for our answer before it sends more, and requests are rare.
        request.push(near.read_u8().await?);
    }
    let Some(target) = target_of(&request) else {
        return near.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    };
    let socket = network::socket_in(&namespace)?;
    match tokio::time::timeout(CONNECT_BOUND, socket.connect(SocketAddr::V4(target))).await {
        Ok(Ok(mut far)) => {
            near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            copy_bidirectional(&mut near, &mut far).await?;
            Ok(())
        }
        Ok(Err(_)) => near.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await,
        Err(_) => near.write_all(b"HTTP/1.1 504 Gateway Timeout\r\n\r\n").await,
    }
}

/// The target in a request.
fn target_of(request: &[u8]) -> Option<SocketAddrV4> {
    let line = std::str::from_utf8(request).ok()?.lines().next()?;
    line.strip_prefix("CONNECT ")?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_an_address_and_nothing_is_looked_up() {
        for (request, expected) in [
            ("CONNECT 10.77.0.11:10250 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", Some("10.77.0.11:10250")),
            ("CONNECT node:10250 HTTP/1.1\r\n\r\n", None),
            ("GET / HTTP/1.1\r\n\r\n", None),
            ("", None),
        ] {
            let found = target_of(request.as_bytes()).map(|target| target.to_string());
            assert_eq!(found.as_deref(), expected, "{request:?}");
        }
    }
}
