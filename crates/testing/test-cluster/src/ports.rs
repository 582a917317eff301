//! Free loopback ports.

use std::net::{Ipv4Addr, TcpListener};

use crate::Error;

/// A port that was free a moment ago.
///
/// Between here and the server's own bind another process may take it. So whoever uses the port must be ready to
/// start again with another one (see `control_plane`), and must recognise a stranger on it: ours present a
/// certificate of the cluster's private authority.
pub fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|source| Error::Io { what: "find a free loopback port".into(), source })
}
