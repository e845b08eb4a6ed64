//! The only crate that talks to Kubernetes: pictures in, cordons and evictions out.
