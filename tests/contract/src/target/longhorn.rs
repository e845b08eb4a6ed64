//! Longhorn's Settings.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Server, Target};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

impl Target {
    /// Removes Longhorn from the server; a real server has none from the start.
    pub fn without_longhorn(&self) {
        if let Server::Fake(fake) = &self.server {
            fake.faults().unserve("settings");
        }
    }

    /// Makes Longhorn's Settings known to the server; there are none yet. All users of the server see this.
    pub async fn install_longhorn(&self) -> Result<()> {
        if let Server::Fake(fake) = &self.server {
            fake.faults().serve("settings");
            return Ok(());
        }
        let admin = self.admin().await?;
        admin.post(DEFINITIONS, &definition()).await?.object()?;
        let is_established = |definition: &Value| {
            let conditions = definition.pointer("/status/conditions")?.as_array()?;
            let is = |condition: &Value| *condition == json!("Established");
            let found = conditions.iter().find(|one| one.get("type").is_some_and(is))?;
            (found.get("status") == Some(&json!("True"))).then_some(())
        };
        let path = format!("{DEFINITIONS}/settings.longhorn.io");
        admin.until("Longhorn's Settings are known", &path, is_established).await?;
        // The Settings are served a little later.
        while admin.get("/apis/longhorn.io/v1beta2/settings").await?.code == 404 {}
        Ok(())
    }
}

/// The needed parts of Longhorn's own definition.
fn definition() -> Value {
    let schema = json!({
        "type": "object", "required": ["value"],
        "properties": {
            "value": {"type": "string"},
            "status": {"type": "object", "properties": {"applied": {"type": "boolean"}}},
        },
    });
    json!({
        "metadata": {"name": "settings.longhorn.io"},
        "spec": {
            "group": "longhorn.io", "scope": "Namespaced",
            "names": {
                "kind": "Setting", "listKind": "SettingList", "plural": "settings", "singular": "setting",
                "shortNames": ["lhs"],
            },
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
