//! A connection to the API server that can be cut for one device, while the server still serves all others.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::api::runtime;

/// State of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Connections break; new ones break at once.
    Cut,
}

/// Forwards bytes. Dropping it cuts the connection for good.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    way: watch::Sender<Way>,
    /// Counts the connections that clients made, those that were closed at once as well.
    connections: Arc<AtomicU64>,
}

impl Proxy {
    /// Forwards to the server with this URL, for example `https://127.0.0.1:6443`.
    pub fn start(server: &str) -> Result<Self> {
        let target: SocketAddr =
            server.trim_start_matches("https://").parse().with_context(|| format!("no address: {server}"))?;
        let listener = runtime()?.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let (way, follow) = watch::channel(Way::Open);
        let address = listener.local_addr()?;
        let connections = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&connections);
        runtime()?.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                if *follow.borrow() == Way::Open && follow.has_changed().is_ok() {
                    tokio::spawn(connection(client, target, follow.clone()));
                }
            }
        });
        Ok(Self { address, way, connections })
    }

    /// Cuts the connection: all connections break, and new ones are closed as soon as they are made.
    pub fn cut(&self) {
        self.way.send_replace(Way::Cut);
    }

    /// Restores the connection.
    pub fn mend(&self) {
        self.way.send_replace(Way::Open);
    }

    /// Number of connections that clients have made so far. A connection that was closed at once counts too.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Writes a copy of the kubeconfig that uses this proxy, beside the original.
    pub fn kubeconfig(&self, original: &Path) -> Result<PathBuf> {
        let mut config: Value = serde_json::from_slice(&fs::read(original)?)?;
        let server =
            config.pointer_mut("/clusters/0/cluster/server").context("a kubeconfig with a server")?;
        *server = json!(format!("https://{}", self.address));
        let path = original.with_extension(format!("through-{}", self.address.port()));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(&serde_json::to_vec(&config)?)?;
        Ok(path)
    }
}

async fn connection(client: TcpStream, target: SocketAddr, way: watch::Receiver<Way>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Small requests must not wait for each other. Without this option the connection is only slower.
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut is_cut = way.clone();
    tokio::select! {
        () = copy(from_client, to_server) => {}
        () = copy(from_server, to_client) => {}
        _ = is_cut.wait_for(|way| *way == Way::Cut) => {}
    }
}

/// Copies until one side ends.
async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count) = from.read(&mut buffer).await
        && count > 0
        && let Some(bytes) = buffer.get(..count)
        && to.write_all(bytes).await.is_ok()
    {}
}
