//! Renews our own token if it is bound to a Node.

use std::time::Duration;

use cluster::{Renewal, TokenFile};
use pubsub::store::{Backup, write_durably};

use crate::link::Link;

/// Pause between two checks of the token file.
const LOOK: Duration = Duration::from_mins(5);

/// Checks for ever. A failure is logged once, and the next check tries again: half of the token's life is left.
pub(crate) async fn follow(link: Link) {
    let mut told = String::new();
    loop {
        match renew(&link).await {
            Ok(true) => {
                tracing::info!("our token was renewed");
                told.clear();
            }
            Ok(false) => told.clear(),
            Err(error) if error != told => {
                tracing::warn!("our token cannot be renewed, tried again every 5 min: {error}");
                told = error;
            }
            Err(_) => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Renews the token if that is due; true if there is a new one.
async fn renew(link: &Link) -> Result<bool, String> {
    let Some((cluster, file)) = link.token_file() else { return Ok(false) };
    match file.renew(&cluster).await.map_err(|failure| failure.text().to_owned())? {
        Renewal::NotOurs | Renewal::NotDue => Ok(false),
        Renewal::Next(token) => write(file, token).await.map(|()| true),
    }
}

/// Writes the token. Only its owner may read the file; after a power cut it has the old token or the new one.
async fn write(file: TokenFile, token: String) -> Result<(), String> {
    let writing = tokio::task::spawn_blocking(move || {
        let parts = file.path.parent().zip(file.path.file_name().and_then(|name| name.to_str()));
        let (folder, name) = parts.ok_or_else(|| format!("`{}` names no file", file.path.display()))?;
        write_durably(folder, name, token.as_bytes(), Backup::None).map_err(|error| error.to_string())
    });
    writing.await.map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_token_is_replaced_as_a_whole_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let file = TokenFile::new(path.clone());
        for token in ["first", "second"] {
            write(file.clone(), token.to_owned()).await.unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), token);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        let nowhere = TokenFile::new(path.join("below"));
        assert!(write(nowhere, "third".to_owned()).await.unwrap_err().contains("token"));
    }
}
