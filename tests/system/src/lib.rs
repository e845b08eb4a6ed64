//! Whole-system tests: real processes, real control plane, kills and reboots.
