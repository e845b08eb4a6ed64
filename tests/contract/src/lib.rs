//! The same cases against the fake cluster and the real API server: the fake earns its trust here.
