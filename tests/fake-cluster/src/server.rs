//! The API over HTTP on a loopback port, in a thread with a runtime of its own, so that a test's paused clock or
//! blocked runtime does not affect it.

mod connection;
mod service;
mod stream;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::controllers;
use crate::shared::Shared;

/// Number of connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;

/// Greatest number of connections at a time.
const MAX_CONNECTIONS: usize = 1024;

/// The running server thread.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Bound but not listening: while the API is down, connections are refused and no other program gets the port.
    _reservation: TcpSocket,
    /// Each sender waits for its answer, so the queue has at most one order per calling thread.
    orders: mpsc::UnboundedSender<Order>,
    thread: Option<JoinHandle<()>>,
}

/// An order to the server thread, with the channel for its result.
#[derive(Debug)]
struct Order {
    is_up: bool,
    done: std_mpsc::Sender<io::Result<()>>,
}

impl Server {
    /// Starts to listen on a free port.
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let reservation = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = reservation.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("fake-cluster".to_owned()).spawn(move || {
                runtime.block_on(run(shared, address, inbox));
                // Tasks that wait for clients end with the runtime.
                runtime.shutdown_background();
            })?
        };
        let server = Self { shared, address, _reservation: reservation, orders, thread: Some(thread) };
        server.up()?;
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to listen, unless it listens already.
    pub(crate) fn up(&self) -> io::Result<()> {
        self.order(true)
    }

    /// Closes the port and every connection.
    pub(crate) fn down(&self) -> io::Result<()> {
        self.order(false)
    }

    fn order(&self, is_up: bool) -> io::Result<()> {
        let gone = || io::Error::other("the server thread of the fake cluster has ended");
        let (done, answer) = std_mpsc::channel();
        self.orders.send(Order { is_up, done }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // The thread ends at once. If it has panicked, its panic was printed then.
            drop(thread.join());
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Two sockets may be bound to one port if both set this option; only one of them listens.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn run(shared: Arc<Shared>, address: SocketAddr, mut orders: mpsc::UnboundedReceiver<Order>) {
    controllers::spawn(&shared);
    let mut listener = None;
    let mut connections = JoinSet::new();
    loop {
        let may_accept = connections.len() < MAX_CONNECTIONS;
        tokio::select! {
            () = shared.stop.cancelled() => return,
            Some(order) = orders.recv() => {
                let result = obey(order.is_up, address, &mut listener, &mut connections).await;
                // A caller that has ended needs no answer.
                drop(order.done.send(result));
            }
            Some(_) = connections.join_next() => {}
            stream = accept(listener.as_ref()), if may_accept => {
                connections.spawn(connection::serve(Arc::clone(&shared), stream));
            }
        }
    }
}

async fn obey(
    is_up: bool,
    address: SocketAddr,
    listener: &mut Option<TcpListener>,
    connections: &mut JoinSet<()>,
) -> io::Result<()> {
    if !is_up {
        *listener = None;
        connections.shutdown().await;
    } else if listener.is_none() {
        *listener = Some(bind(address)?.listen(BACKLOG)?);
    }
    Ok(())
}

/// The next connection; waits for ever while the API is down.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            return stream;
        }
        // Most likely there are no file descriptors left: other tasks must get the chance to close some.
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
