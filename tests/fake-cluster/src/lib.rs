//! An in-memory Kubernetes API over HTTP: list, watch, patch, evict with budgets, faults on demand.
