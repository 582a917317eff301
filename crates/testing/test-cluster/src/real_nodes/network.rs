//! The cluster's network namespace, and the nodes' links to it.
//!
//! It is connected to nothing, so every cluster can use the same addresses. A process holds it. A thread enters
//! it for a moment to make sockets, which are then used like any others.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use toolbox::programs;

use super::forward;
use crate::Error;
use crate::process::{Process, ProcessSpec};

/// The cluster's end of every node's link.
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Its fixed hardware address: otherwise a bridge takes that of one of its ports, and when that node goes, all
/// others use an address that no longer exists.
const GATEWAY_HARDWARE: &str = "02:00:0a:4d:ff:01";
/// The API server's address for kubelets.
pub(super) const API_SERVER: SocketAddrV4 = SocketAddrV4::new(GATEWAY, 6443);
/// The API server's address for pods: that of the Service `kubernetes`, the first in the range of Services.
pub(super) const KUBERNETES_SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, 1), 443);
/// The address of DNS for pods.
pub(super) const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Nodes have the addresses 10.77.0.11 to 10.77.0.210.
pub(super) const NODES_MAX: u8 = 200;

/// The address of a node.
pub(super) fn address_of(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 10 + number)
}

/// The range of a node's pods.
pub(super) fn pods_of(number: u8) -> String {
    format!("10.244.{number}.0/24")
}

/// The socket over which the API server asks for connections to nodes, in its working directory.
pub(crate) const EGRESS_SOCKET: &str = "egress";

/// The configuration that makes the API server reach nodes and pods over that socket.
pub(super) fn egress_configuration() -> String {
    format!(
        "apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds: {{udsName: {EGRESS_SOCKET}}}
"
    )
}

/// The namespace, and the nodes linked to it.
pub(super) struct Network {
    /// Namespaces of the nodes that are on, by their numbers.
    linked: Mutex<BTreeMap<u8, PathBuf>>,
    /// Links made so far: the name of a link that just went may be in use for another moment.
    links: AtomicU32,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    holder: Process,
}

impl Network {
    /// Makes the namespace with its addresses.
    pub async fn create(logs: &Path) -> Result<Self, Error> {
        let spec = ProcessSpec::new("network", "unshare").args(["--net", "--", "sleep", "infinity"]);
        let holder = Process::spawn(spec, logs)?;
        let namespace = namespace_of(&holder).await?;
        ip(
            &namespace,
            &format!(
                "link set lo up
link add br0 address {GATEWAY_HARDWARE} type bridge
address add {GATEWAY}/24 dev br0
address add {}/32 dev lo
address add {DNS}/32 dev lo
link set br0 up
",
                KUBERNETES_SERVICE.ip(),
            ),
        )?;
        Ok(Self { linked: Mutex::default(), links: AtomicU32::new(0), tasks: Mutex::default(), holder })
    }

    /// The file of the namespace.
    pub fn namespace(&self) -> PathBuf {
        net_file(self.holder.pid())
    }

    /// Links a node, whose namespace `machine` holds, and adds the routes to all nodes' pods.
    pub async fn plug(&self, number: u8, machine: &Process) -> Result<String, Error> {
        let namespace = namespace_of(machine).await?;
        let (address, pods) = (address_of(number), pods_of(number));
        let link = format!("node{}", self.links.fetch_add(1, Ordering::Relaxed));
        // The same hardware address at every boot: neighbours remember it.
        ip(
            &self.namespace(),
            &format!(
                "link add {link} type veth peer name eth0 address 02:00:0a:4d:00:{number:02x} netns {}
link set {link} master br0 up
route replace {pods} via {address}
",
                machine.pid(),
            ),
        )?;
        let mut linked = self.linked();
        let mut routes = vec![
            format!("address add {address}/24 dev eth0"),
            "link set eth0 up".into(),
            format!("route add default via {GATEWAY}"),
        ];
        for (other, other_namespace) in linked.iter().filter(|(other, _)| **other != number) {
            routes.push(format!("route replace {} via {}", pods_of(*other), address_of(*other)));
            // A node that is being switched off needs no route any more.
            let _ = ip(other_namespace, &format!("route replace {pods} via {address}\n"));
        }
        ip(&namespace, &routes.join("\n"))?;
        linked.insert(number, namespace);
        Ok(link)
    }

    /// Cuts a node's link: from now on nothing that it sends arrives, not even the end of its connections.
    pub fn unplug(&self, number: u8, link: &str) {
        self.linked().remove(&number);
        let _ = ip(&self.namespace(), &format!("link delete {link}\n"));
    }

    /// Passes connections to `listen` in the namespace on to `target` on the host.
    pub fn forward(&self, listen: SocketAddrV4, target: SocketAddr) -> Result<SocketAddr, Error> {
        let (address, listener) = self.listen(listen)?;
        self.keep(tokio::spawn(forward::pass_on(listener, target)));
        Ok(address)
    }

    /// The same for TLS connections.
    pub fn forward_from_tls(&self, acceptor: TlsAcceptor, target: SocketAddr) -> Result<SocketAddr, Error> {
        let (address, listener) = self.listen(SocketAddrV4::new(GATEWAY, 0))?;
        self.keep(tokio::spawn(forward::pass_on_from_tls(listener, acceptor, target)));
        Ok(address)
    }

    fn listen(&self, listen: SocketAddrV4) -> Result<(SocketAddr, TcpListener), Error> {
        let open = || {
            let socket = socket_in(&self.namespace())?;
            socket.bind(SocketAddr::V4(listen))?;
            let listener = socket.listen(1_024)?;
            Ok((listener.local_addr()?, listener))
        };
        open().map_err(|source| Error::Io { what: format!("listen on {listen} for nodes"), source })
    }

    /// Serves requests on this socket for connections to addresses in the namespace.
    pub fn serve_egress(&self, socket: &Path) -> Result<(), Error> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket)
            .map_err(|source| Error::Io { what: format!("listen on {}", socket.display()), source })?;
        self.keep(tokio::spawn(forward::serve_connect(listener, self.namespace())));
        Ok(())
    }

    /// Runs a program in the namespace.
    pub fn inside(&self, name: &str, program: &Path) -> ProcessSpec {
        let mut namespace = std::ffi::OsString::from("--net=");
        namespace.push(self.namespace());
        ProcessSpec::new(name, "nsenter").arg(namespace).arg("--").arg(program)
    }

    fn keep(&self, task: JoinHandle<()>) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    fn linked(&self) -> MutexGuard<'_, BTreeMap<u8, PathBuf>> {
        self.linked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

/// Makes a socket in a namespace. It belongs to the namespace in which it is made, so a thread enters the
/// namespace and ends.
pub(super) fn socket_in(namespace: &Path) -> std::io::Result<TcpSocket> {
    let file = File::open(namespace)?;
    let made = std::thread::spawn(move || {
        setns(&file, CloneFlags::CLONE_NEWNET)?;
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        Ok(socket)
    });
    made.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that makes sockets panicked")))
}

/// The network namespace that a process was started to hold, once it has made it.
async fn namespace_of(process: &Process) -> Result<PathBuf, Error> {
    const BOUND: Duration = Duration::from_secs(20);
    let deadline = Instant::now() + BOUND;
    let ours = std::fs::read_link("/proc/self/ns/net").ok();
    let file = net_file(process.pid());
    loop {
        if std::fs::read_link(&file).is_ok_and(|theirs| Some(theirs) != ours) {
            return Ok(file);
        }
        if Instant::now() >= deadline {
            let what = format!("{} to have a network namespace: {}", process.name(), process.log_tail());
            return Err(Error::NotInTime { what, bound: BOUND });
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn net_file(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/net"))
}

/// Runs ip(8) in a namespace; the first command that fails ends the batch.
fn ip(namespace: &Path, batch: &str) -> Result<(), Error> {
    let failed = |source| Error::Io { what: "run ip in a network namespace".into(), source };
    let mut child = Command::new("nsenter")
        .arg(format!("--net={}", namespace.display()))
        .args(["--", "ip", "-batch", "-"])
        .env("PATH", programs::NODE_PATH)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // A batch is far smaller than a pipe holds, so this never waits for the reader.
    child.stdin.take().map_or(Ok(()), |mut input| input.write_all(batch.as_bytes())).map_err(failed)?;
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Io {
        what: format!("set up a network: {}", batch.replace('\n', "; ")),
        source: std::io::Error::other(why),
    })
}
