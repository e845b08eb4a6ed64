//! What the cluster tells about the drain of a node, to somebody who may do nothing but read Nodes: `kubectl ebb nodes`,
//! `kubectl ebb why` and `kubectl ebb history`. All three only read.
//!
//! The slots and the Events need rights of their own. Without them the rest is shown, and one line names the right.

mod facts;
mod history;
mod list;
mod slots;
mod why;

use clap::Args;
use cluster::Cluster;

use crate::drain::options::Output;
use crate::kubectl::nodes::{Chosen, NodeArguments};
pub use history::run as history;
pub use list::run as nodes;
pub use why::run as why;

use facts::Seen;
use slots::{SlotFlags, SlotTables};

/// Arguments of `kubectl ebb nodes`, `kubectl ebb why` and `kubectl ebb history`.
#[derive(Args, Debug)]
#[command(mut_arg("dry_run", |flag| flag.hide(true)))]
pub struct SeenArguments {
    #[command(flatten)]
    pub(crate) nodes: NodeArguments,
    #[command(flatten)]
    slots: SlotFlags,
    /// Format of the output on stdout
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value_t = Output::Text)]
    output: Output,
}

impl SeenArguments {
    fn is_json(&self) -> bool {
        self.output == Output::Json
    }

    /// Reads the nodes, and the slots of their groups.
    async fn read(&self, verb: &str, chosen: &Chosen) -> anyhow::Result<(Cluster, Vec<Seen>)> {
        let (cluster, nodes) = self.nodes.find_facts(verb, chosen).await?;
        let mut tables = SlotTables::new(&self.slots);
        let mut all = Vec::new();
        for node in nodes {
            let slot = tables.of(&cluster, &node.view).await;
            all.push(Seen { node, now: cluster.server_time(), slot });
        }
        Ok((cluster, all))
    }
}
