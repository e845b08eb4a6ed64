//! Starts a real control plane: etcd, kube-apiserver, controller-manager, scheduler, kwok.
