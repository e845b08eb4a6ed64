//! Every decision about draining one node, pure: no I/O, no clock, no Kubernetes client.
