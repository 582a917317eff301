//! Free loopback ports.

use std::net::{Ipv4Addr, TcpListener};

use crate::Error;

/// A port that was free a moment ago.
///
/// Another process may take it before the server binds it. So the caller must be ready to start again with
/// another port (see `control_plane`), and must recognise a foreign server on it: ours have a certificate of
/// the cluster's private CA.
pub fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|source| Error::Io { what: "find a free loopback port".into(), source })
}
