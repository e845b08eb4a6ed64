//! One connection: HTTP/1.1 or HTTP/2, as the client chooses, with a way to reset it.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::service;
use crate::shared::Shared;

/// Greatest number of streams of one HTTP/2 connection: enough for a few watches and a burst of evictions per client.
const MAX_STREAMS: u32 = 1000;

/// Resets a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Reset {
    token: CancellationToken,
    is_hard: Arc<AtomicBool>,
}

impl Reset {
    /// Sends a TCP reset at once, and nothing else.
    pub(super) fn now(&self) {
        self.is_hard.store(true, Ordering::Relaxed);
        self.token.cancel();
    }
}

/// Serves a connection until either side ends it.
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    // Answers are small, and clients wait for them; without this option the connection still works.
    drop(stream.set_nodelay(true));
    let reset = Reset::default();
    let stream = Breakable { stream: TokioIo::new(stream), is_hard: Arc::clone(&reset.is_hard) };
    let service = {
        let reset = reset.clone();
        service_fn(move |request| {
            let (shared, reset) = (Arc::clone(&shared), reset.clone());
            async move { Ok::<_, Infallible>(service::handle(shared, reset, request).await) }
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(MAX_STREAMS);
    tokio::select! {
        // The client closed the connection or did not speak HTTP: there is no one to answer.
        _ = builder.serve_connection(stream, service) => {}
        () = reset.token.cancelled() => {}
    }
}

/// A TCP stream that can end with a reset.
#[derive(Debug)]
struct Breakable {
    stream: TokioIo<TcpStream>,
    is_hard: Arc<AtomicBool>,
}

impl Drop for Breakable {
    fn drop(&mut self) {
        if self.is_hard.load(Ordering::Relaxed) {
            // If this fails, the client sees an orderly end, which is the next best.
            drop(self.stream.inner().set_zero_linger());
        }
    }
}

impl Read for Breakable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Breakable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
