//! Single rights, and the requests that they allow.

use std::fmt;

use anyhow::{Context, Result};
use control_plane::{AuditedRequest, Requests};
use serde_json::Value;

/// One verb on one resource, as one rule of a role grants it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    /// Namespace of the right; empty means all.
    namespace: String,
    /// Resource with its group and subresource, for example `pods/eviction` or `leases.coordination.k8s.io`.
    resource: String,
    /// Name of the object; empty means any.
    name: String,
    verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, resource, name, verb } = self;
        write!(f, "{verb} {resource}")?;
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        if !namespace.is_empty() {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}

impl Right {
    /// True if this right allows the request.
    fn allows(&self, asked: &AuditedRequest) -> bool {
        let is_named = self.name.is_empty() || self.name == asked.name || selects(asked, &self.name);
        self.verb == asked.verb
            && self.resource == resource(asked)
            && is_named
            && (self.namespace.is_empty() || self.namespace == asked.namespace)
    }
}

/// The rights that the roles grant.
pub(crate) fn granted(roles: &[Value]) -> Result<Vec<Right>> {
    let mut all = Vec::new();
    for role in roles {
        let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default();
        for rule in role["rules"].as_array().into_iter().flatten() {
            all.extend(of_rule(rule, namespace)?);
        }
    }
    all.sort();
    Ok(all)
}

fn of_rule(rule: &Value, namespace: &str) -> Result<Vec<Right>> {
    let texts = |field: &str| -> Result<Vec<String>> {
        serde_json::from_value(rule[field].clone()).with_context(|| format!("{field} of {rule}"))
    };
    let names = if rule["resourceNames"].is_null() { vec![String::new()] } else { texts("resourceNames")? };
    let mut all = Vec::new();
    for group in texts("apiGroups")? {
        for resource in texts("resources")? {
            for name in &names {
                all.extend(texts("verbs")?.into_iter().map(|verb| Right {
                    namespace: namespace.to_owned(),
                    resource: in_group(&resource, &group),
                    name: name.clone(),
                    verb,
                }));
            }
        }
    }
    Ok(all)
}

/// The rights that no request has used.
pub(crate) fn unused(granted: &[Right], asked: &Requests) -> Vec<String> {
    let is_unused = |right: &&Right| !asked.iter().any(|asked| right.allows(asked));
    granted.iter().filter(is_unused).map(Right::to_string).collect()
}

/// The requests that no right allows. Excepted are requests about no object, such as `/version`, which everybody may
/// send, and those about the user's own rights (role system:basic-user).
pub(crate) fn not_granted(granted: &[Right], asked: &Requests) -> Vec<String> {
    let is_open_to_all =
        |asked: &&AuditedRequest| asked.resource.is_empty() || asked.resource == "selfsubjectaccessreviews";
    let on_objects = asked.iter().filter(|asked| !is_open_to_all(asked));
    let open = on_objects.filter(|asked| !granted.iter().any(|right| right.allows(asked)));
    open.map(|asked| format!("{} {} ({})", asked.verb, resource(asked), asked.uri)).collect()
}

fn resource(asked: &AuditedRequest) -> String {
    let resource = match asked.subresource.as_str() {
        "" => asked.resource.clone(),
        subresource => format!("{}/{subresource}", asked.resource),
    };
    in_group(&resource, &asked.group)
}

/// True if a list or watch names its one object by a field selector.
fn selects(asked: &AuditedRequest, name: &str) -> bool {
    asked.uri.contains(&format!("fieldSelector=metadata.name%3D{name}"))
}

fn in_group(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
