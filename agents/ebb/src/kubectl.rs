//! What the verbs share that stand in for kubectl's: its flags, its way to name nodes, its texts.

pub(crate) mod access;
pub(crate) mod flags;
pub(crate) mod nodes;
pub(crate) mod words;
