//! Deletes the content of terminating namespaces, then the namespaces.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Step, World, earlier};
use crate::object::{self, set};
use crate::resources::{NAMESPACES, RESOURCES, Resource};
use crate::store::{Object, Store};
use crate::write::{self, DeleteOptions};

#[derive(Debug, Default)]
pub(super) struct Namespaces {
    /// Since when each namespace (by uid) is terminating.
    since: BTreeMap<String, Duration>,
}

impl Step for Namespaces {
    fn reads(&self) -> &'static [&'static Resource] {
        RESOURCES
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let ending = store.objects(NAMESPACES).filter(|namespace| object::is_terminating(namespace));
        let ending: Vec<Object> = ending.cloned().collect();
        let before = std::mem::take(&mut self.since);
        let mut next = None;
        for namespace in &ending {
            let uid = object::uid(namespace).to_owned();
            let since = before.get(&uid).copied().unwrap_or(world.now.elapsed);
            self.since.insert(uid, since);
            let due = since.saturating_add(world.settings.namespace_empties_after);
            if due <= world.now.elapsed {
                empty(store, object::name(namespace), world);
            } else {
                next = earlier(next, Some(due));
            }
        }
        next
    }
}

fn empty(store: &mut Store, namespace: &str, world: &World<'_>) {
    let mut is_empty = true;
    for resource in RESOURCES.iter().filter(|resource| resource.is_namespaced()) {
        let names: Vec<String> =
            store.objects_in(resource, namespace).map(|object| object::name(object).to_owned()).collect();
        for name in &names {
            // An object with a grace period or finalizers remains for now; its end wakes this controller again.
            drop(write::delete(
                store,
                resource,
                (namespace, name),
                &DeleteOptions::default(),
                world.context(),
            ));
            is_empty &= store.get(resource, namespace, name).is_none();
        }
    }
    if is_empty {
        drop(write::edit(store, NAMESPACES, "", namespace, |namespace| {
            set(namespace, &["spec", "finalizers"], Vec::<String>::new());
        }));
    }
}
