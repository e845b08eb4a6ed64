//! The handle of a cluster: starts it, and lets a test read and change everything in it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::eviction::Evicted;
use crate::faults::Faults;
use crate::object;
use crate::refusal::Refusal;
use crate::removal::Removal;
use crate::requests::Requests;
use crate::resources::{self, NAMESPACES, Resource};
use crate::server::Server;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::write::{self, DeleteOptions, NewStatus};

/// The token in [`kubeconfig`](FakeCluster::kubeconfig). Requests without a token are accepted as well; requests with
/// another token are answered with 401.
pub const TOKEN: &str = "fake-cluster";

/// Namespaces that exist from the start.
const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// An in-memory Kubernetes cluster with its API on a loopback port. Dropping it ends the server and all controllers.
#[derive(Debug)]
pub struct FakeCluster {
    shared: Arc<Shared>,
    server: Server,
}

impl FakeCluster {
    /// Starts a cluster with [`Settings::default`]. It has the first namespaces and no node.
    pub fn start() -> io::Result<Self> {
        Self::start_with(Settings::default())
    }

    /// Starts a cluster.
    ///
    /// # Errors
    /// There is no free loopback port, or a thread cannot be started.
    pub fn start_with(settings: Settings) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(settings));
        let server = Server::start(Arc::clone(&shared))?;
        let cluster = Self { shared, server };
        for namespace in FIRST_NAMESPACES {
            cluster.make_namespace(namespace).map_err(io::Error::other)?;
        }
        Ok(cluster)
    }

    /// URL of the API, `http://127.0.0.1:PORT`; it stays the same while the cluster lives.
    pub fn server_url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// A kubeconfig file (YAML) for this cluster.
    pub fn kubeconfig(&self) -> String {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.server_url()}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "admin"}}],
        });
        // JSON is valid YAML.
        format!("{config:#}\n")
    }

    /// Creates an object, or replaces the one of the same kind, namespace (`default` if missing) and name. The status
    /// is stored as given, and a missing namespace is created. Returns the stored object.
    ///
    /// # Errors
    /// The kind is not served, or the namespace is terminating.
    pub fn apply(&self, object: Value) -> Result<Value, Refusal> {
        let resource = kind_of(&object)?;
        let namespace = match object::namespace(&object) {
            _ if !resource.is_namespaced() => "",
            "" => "default",
            given => given,
        };
        let namespace = namespace.to_owned();
        if resource.is_namespaced() {
            self.make_namespace(&namespace)?;
        }
        let context = self.shared.context();
        let mut store = self.shared.store();
        let name = object::name(&object).to_owned();
        if store.get(resource, &namespace, &name).is_none() {
            return Ok(
                (*write::create(&mut store, resource, &namespace, object, NewStatus::Kept, context)?).clone()
            );
        }
        let object = write::completed(resource, object);
        let replaced = write::edit(&mut store, resource, &namespace, &name, |old| {
            let namespace = object::namespace(old).to_owned();
            *old = object;
            if !namespace.is_empty() {
                object::set(old, &["metadata", "namespace"], namespace);
            }
        })?;
        Ok(replaced.map_or(Value::Null, |object| (*object).clone()))
    }

    /// The object, if it exists. `resource` is a plural name, `deployments.apps` where it is ambiguous;
    /// `namespace` is empty for cluster-wide kinds.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = resources::find(resource)?;
        self.shared.store().get(resource, namespace, name).map(|object| (**object).clone())
    }

    /// All objects of a kind; without a namespace, in all namespaces. An unknown kind has none.
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Vec<Value> {
        let Some(resource) = resources::find(resource) else { return Vec::new() };
        let store = self.shared.store();
        let is_inside =
            |object: &Value| namespace.is_none_or(|namespace| namespace == object::namespace(object));
        store.objects(resource).filter(|object| is_inside(object)).map(|object| (**object).clone()).collect()
    }

    /// The pods bound to a node, in all namespaces.
    pub fn pods_on(&self, node: &str) -> Vec<Value> {
        self.shared.store().pods_on(node).map(|pod| (**pod).clone()).collect()
    }

    /// Changes any field of an object, including its status. Returns the new object, or `None` if there is no such
    /// object.
    ///
    /// # Errors
    /// The store is full.
    pub fn edit(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Option<Value>, Refusal> {
        let Some(resource) = resources::find(resource) else { return Ok(None) };
        let edited = write::edit(&mut self.shared.store(), resource, namespace, name, change)?;
        Ok(edited.map(|object| (*object).clone()))
    }

    /// Deletes an object as `kubectl delete` does: with its own grace, and finalizers delay it. Returns whether the
    /// object existed.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> bool {
        let Some(resource) = resources::find(resource) else { return false };
        let context = self.shared.context();
        let options = DeleteOptions::default();
        write::delete(&mut self.shared.store(), resource, (namespace, name), &options, context).is_ok()
    }

    /// Waits until `find` returns a value, calling it again after every change. There is no time limit: put a time-out
    /// around the call.
    pub async fn wait_for<T>(&self, mut find: impl FnMut(&Self) -> Option<T>) -> T {
        let mut revisions = self.shared.store().subscribe();
        loop {
            revisions.borrow_and_update();
            if let Some(found) = find(self) {
                return found;
            }
            // The sender lives as long as this cluster.
            if revisions.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Moves the cluster's clock forward; events that are due by then happen at once.
    pub fn advance(&self, by: Duration) {
        self.shared.clock.advance(by);
        self.shared.wake();
    }

    /// The last revision, as in `metadata.resourceVersion` of lists.
    pub fn revision(&self) -> u64 {
        self.shared.store().revision()
    }

    /// The switches of all faults.
    pub fn faults(&self) -> Faults<'_> {
        Faults { cluster: self }
    }

    /// The evictions that were carried out since the last call, the newest 4096, oldest first.
    pub fn take_evictions(&self) -> Vec<Evicted> {
        self.shared.store().take_evictions()
    }

    /// The requests to remove pods since the last call, the newest 4096, oldest first: those that were carried out, and
    /// those that a budget has refused.
    pub fn take_removals(&self) -> Vec<Removal> {
        self.shared.store().take_removals()
    }

    /// The requests to the API so far.
    pub fn requests(&self) -> Requests<'_> {
        Requests { log: &self.shared.log }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    fn make_namespace(&self, name: &str) -> Result<(), Refusal> {
        let context = self.shared.context();
        let mut store = self.shared.store();
        if store.get(NAMESPACES, "", name).is_some() {
            return Ok(());
        }
        let namespace = json!({"metadata": {"name": name}});
        write::create(&mut store, NAMESPACES, "", namespace, NewStatus::ByRule, context).map(drop)
    }
}

fn kind_of(object: &Value) -> Result<&'static Resource, Refusal> {
    let (api_version, kind) = (object::text(object, "/apiVersion"), object::text(object, "/kind"));
    resources::of_object(api_version, kind)
        .ok_or_else(|| Refusal::bad_request(format!("no kind {kind:?} of {api_version:?} is served")))
}
