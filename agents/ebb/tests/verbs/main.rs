//! The verbs that stand in for kubectl's, as a person runs them: the built program against a cluster in memory.

mod bad_input;
mod cordons;
mod drains;
mod dry_runs;
mod plans;
mod screens;
mod site;
mod stops;
