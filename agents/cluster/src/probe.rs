//! Whether the API server is away.

use std::time::Duration;

use drain::Event;
use tokio::task::JoinHandle;

use crate::nodes::get_node;
use crate::wire::Cluster;

/// While in doubt the server is asked this often.
const PERIOD: Duration = Duration::from_secs(2);

/// Asks the server for the node, from the first doubt until it answers. Costs nothing while all is well.
#[derive(Debug)]
pub(crate) struct Probe {
    cluster: Cluster,
    node: String,
    away: bool,
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
    pub(crate) fn new(cluster: Cluster, node: &str) -> Self {
        Self { cluster, node: node.to_owned(), away: false, asking: None }
    }

    /// Something failed: find out.
    pub(crate) fn doubt(&mut self) {
        if self.asking.is_none() {
            self.ask(Duration::ZERO);
        }
    }

    /// Waits until the server has gone away ([`Event::ApiAway`]) or is back ([`Event::ApiBack`]). May be dropped and
    /// called again at any time.
    pub(crate) async fn changed(&mut self) -> Event {
        while let Some(asking) = &mut self.asking {
            let reachable = asking.await.unwrap_or(false);
            self.asking = None;
            if !reachable {
                self.ask(PERIOD);
            }
            match (self.away, reachable) {
                (false, false) => {
                    self.away = true;
                    return Event::ApiAway;
                }
                (true, true) => {
                    self.away = false;
                    return Event::ApiBack;
                }
                (false, true) | (true, false) => {}
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
