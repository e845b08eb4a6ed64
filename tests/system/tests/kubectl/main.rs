//! `ebb drain` judges pods as `kubectl drain` does: both are asked about the same pods of a real control plane, in a
//! dry run, and have to name the same ones. Where they do not, [`differences`] has to say why.
//!
//! The pods are random ([`pods`]), the same in every run. Each node has pods that need only certain flags
//! ([`pods::Needs`]), so that for every set of flags some nodes can be drained and some cannot.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod cases;
mod differences;
mod flags;
mod manifests;
mod pods;
mod said;
mod scene;
mod special;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");
