//! The verbs as a person runs them: the built program, against a cluster in memory or beside real agents.

mod bad_input;
mod completions;
mod configs;
mod connections;
mod cordons;
mod deletions;
mod demos;
mod device;
mod drains;
mod dry_runs;
mod forces;
mod holds;
mod hostile_texts;
mod node_commands;
mod nonsense;
mod operations;
mod own_node;
mod plans;
mod requests;
mod screens;
mod seen;
mod site;
mod slots;
mod stops;
mod topics;
mod updates;
