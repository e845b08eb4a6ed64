//! Benchmarks, run by scripts/bench: never asserted in tests.
