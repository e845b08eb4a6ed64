//! `ebb drain` judges pods as `kubectl drain` does: both run a dry run for the same pods of a real control plane, and
//! must name the same pods. Where they differ, [`differences`] must explain it.
//!
//! The pods are random ([`pods`]), the same in every run. Each node has pods that need only certain flags
//! ([`pods::Needs`]), so that for every set of flags some nodes can be drained and some cannot.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod cases;
mod differences;
mod field;
mod flags;
mod manifests;
mod pods;
mod said;
mod scene;
mod special;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");
