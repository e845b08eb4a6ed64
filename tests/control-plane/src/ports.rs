//! Free loopback ports that stay free until a component listens on them.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
};

use anyhow::{Context, Result};

/// Number of ports that are tried.
const TRIES: u32 = 200;
/// Ports are taken from this many numbers below the range of outgoing connections.
const SPAN: u32 = 12_000;

/// A port on which no process listens, reserved until [`Reserved::release`].
#[derive(Debug)]
pub(crate) struct Reserved {
    port: u16,
    listener: TcpListener,
}

impl Reserved {
    /// Takes a random port **below** the range from which the kernel serves outgoing connections: from that range one
    /// of the plane's own connections could take the port between the release and the component's own bind.
    pub(crate) fn new() -> Result<Self> {
        let top = lowest_outgoing_port();
        let span = SPAN.min(top / 2);
        let (first, _, _, _) = uuid::Uuid::new_v4().as_fields();
        (0..TRIES)
            .filter_map(|attempt| {
                let port = top - 1 - first.wrapping_add(attempt) % span;
                u16::try_from(port).ok()
            })
            .find_map(|port| {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
                Some(Self { port, listener })
            })
            .context("found no free loopback port")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Frees the port for the component that is started next.
    pub(crate) fn release(self) {
        drop(self.listener);
    }
}

/// The lowest port of outgoing connections; the kernel's default (32768) if it cannot be read.
fn lowest_outgoing_port() -> u32 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .filter(|lowest| (4_096..=65_535).contains(lowest))
        .unwrap_or(32_768)
}
