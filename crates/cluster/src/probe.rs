//! Finds out whether the API server is away.

use std::time::Duration;

use drain::Event;
use drain::outage::{NOTICED_WITHIN, Outage};
use tokio::task::JoinHandle;

use crate::bounds::CALL_DEADLINE;
use crate::clock::Clock;
use crate::nodes::get_node;
use crate::wire::Cluster;

/// Pause between two calls while the server may be away.
const PERIOD: Duration = Duration::from_millis(1_500);

// A call that fails, the pause, and the call that confirms it.
const _: () = assert!(2 * CALL_DEADLINE.as_millis() + PERIOD.as_millis() <= NOTICED_WITHIN.as_millis());

/// Longest pause: it doubles while the server is away.
const LONGEST: Duration = Duration::from_secs(10);

/// Asks the server for the node, from the first failed call until it answers. It costs nothing while all is well.
#[derive(Debug)]
pub(crate) struct Probe {
    cluster: Cluster,
    node: String,
    clock: Clock,
    outage: Outage,
    pause: Duration,
    asking: Option<JoinHandle<bool>>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(asking) = &self.asking {
            asking.abort();
        }
    }
}

impl Probe {
    pub(crate) fn new(cluster: Cluster, node: &str, clock: Clock) -> Self {
        Self { cluster, node: node.to_owned(), clock, outage: Outage::default(), pause: PERIOD, asking: None }
    }

    /// Begins to ask, because a call has failed and the server may be away.
    pub(crate) fn doubt(&mut self) {
        if self.asking.is_none() {
            self.outage.failed((self.clock)());
            self.ask(Duration::ZERO);
        }
    }

    /// Waits until the server counts as away ([`Event::ApiAway`], see [`Outage`]) or is back ([`Event::ApiBack`]).
    /// Cancel-safe.
    pub(crate) async fn changed(&mut self) -> Event {
        while let Some(asking) = &mut self.asking {
            let reachable = asking.await.unwrap_or(false);
            self.asking = None;
            if reachable {
                self.pause = PERIOD;
                if self.outage.answered() {
                    return Event::ApiBack;
                }
                continue;
            }
            let is_away_now = self.outage.failed((self.clock)());
            if self.outage.is_away() {
                self.pause = (self.pause * 2).min(LONGEST);
            }
            self.ask(self.pause);
            if is_away_now {
                return Event::ApiAway;
            }
        }
        std::future::pending().await
    }

    fn ask(&mut self, pause: Duration) {
        let (cluster, node) = (self.cluster.clone(), self.node.clone());
        self.asking = Some(tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            match get_node(&cluster, &node).await {
                Ok(_) => true,
                Err(failure) => !failure.is_unreachable(),
            }
        }));
    }
}
