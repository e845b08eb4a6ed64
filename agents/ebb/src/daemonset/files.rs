//! The files that the DaemonSet's image has put on the host, and the record of them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use kubectl_ebb::cli::VERSION;
use pubsub::store::{create_folder, write_public};
use pubsub::{MAX_FILE_BYTES, Owner, Root, read_checked};
use serde::{Deserialize, Serialize};

/// The folder of the record, on the host.
const FOLDER: &str = "/var/lib/ebb";

const RECORD: &str = "daemonset.json";

/// The list of an image's files, each as the place that it has on the host, in a line of its own. No host has this file.
const LIST: &str = "ebb.files";

/// The program; the last file that is removed.
const PROGRAM: &str = "/usr/bin/ebb";

/// What the DaemonSet has brought to this host: `/var/lib/ebb/daemonset.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Installed {
    /// The version of the image.
    pub(super) version: String,
    /// The Node to which the pod is bound.
    pub(super) node: String,
    /// The pod's namespace.
    pub(super) namespace: String,
    /// False from when a file is about to change until the agents run with all of them.
    pub(super) is_started: bool,
    /// The files and links. While they change: those of both versions.
    pub(super) files: BTreeSet<PathBuf>,
}

impl Installed {
    /// The record; `None` if the DaemonSet has brought nothing.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(root: &Root) -> anyhow::Result<Option<Self>> {
        let path = root.join(FOLDER).join(RECORD);
        let bytes = read_checked(&path, MAX_FILE_BYTES, Owner::RootOrSelf)?;
        let parse = |bytes: Vec<u8>| serde_json::from_slice(&bytes);
        bytes.map(parse).transpose().with_context(|| format!("cannot read {}", path.display()))
    }

    /// Writes the record.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(super) fn write(&self, root: &Root) -> anyhow::Result<()> {
        let folder = root.join(FOLDER);
        create_folder(&folder)?;
        Ok(write_public(&folder, RECORD, &serde_json::to_vec_pretty(self)?)?)
    }

    /// Puts the files of the image on the host, each in one step, removes what the version before has brought
    /// and this one has not, and records it. Returns how many files have changed. After a crash the next call completes it.
    ///
    /// # Errors
    /// This is no image; ebb is on the host already, by another way; a file cannot be written, for example because `/usr` is read-only.
    pub(super) fn put(image: &Path, root: &Root, node: &str, namespace: &str) -> anyhow::Result<usize> {
        let before = Self::read(root)?;
        ensure!(
            before.is_some() || !root.join(PROGRAM).exists(),
            "ebb is on this host already, and not by this DaemonSet: remove it there (`apt remove ebb`, `dnf remove ebb`), or \
             keep the DaemonSet away: kubectl label node {node} ebb.dev/install=false"
        );
        let list = fs::read_to_string(image.join(LIST)).with_context(|| {
            format!("this is not the image of the DaemonSet: cannot read /{LIST}, the list of its files")
        })?;
        let files: BTreeSet<PathBuf> = list.lines().map(PathBuf::from).collect();
        let known = before.map(|before| (before.is_started, before.files));
        let (was_started, old) = known.unwrap_or_default();
        let is_new = |file: &&PathBuf| !is_same(&below(image, file), &root.join(file));
        let changed: Vec<_> = files.iter().filter(is_new).collect();
        let gone: Vec<_> = old.difference(&files).collect();
        let mut record = Self {
            version: VERSION.to_owned(),
            node: node.to_owned(),
            namespace: namespace.to_owned(),
            is_started: was_started && changed.is_empty(),
            files: files.union(&old).cloned().collect(),
        };
        record.write(root)?;
        for file in &changed {
            put_one(&below(image, file), &root.join(file))
                .with_context(|| format!("cannot write {} on the host", file.display()))?;
        }
        for file in gone {
            remove_one(root, file)?;
        }
        let count = changed.len();
        record.files = files;
        record.write(root)?;
        Ok(count)
    }

    /// Removes all files, the record, and last the program.
    ///
    /// # Errors
    /// A file cannot be removed; then the record and the program stay.
    pub(super) fn remove(&self, root: &Root) -> anyhow::Result<()> {
        let program = Path::new(PROGRAM);
        for file in self.files.iter().filter(|file| *file != program) {
            remove_one(root, file)?;
        }
        let record = Path::new(FOLDER).join(RECORD);
        [record.as_path(), program].into_iter().try_for_each(|file| remove_one(root, file))
    }
}

/// The place of a file of the host in the image.
fn below(image: &Path, file: &Path) -> PathBuf {
    image.join(file.strip_prefix("/").unwrap_or(file))
}

/// True if both are links to the same place, or files with the same bytes and mode.
fn is_same(source: &Path, target: &Path) -> bool {
    let links = (fs::read_link(source), fs::read_link(target));
    if let (Ok(source), Ok(target)) = &links {
        return source == target;
    }
    let modes = || Some((fs::metadata(source).ok()?.mode(), fs::metadata(target).ok()?.mode()));
    let bytes = || Some((fs::read(source).ok()?, fs::read(target).ok()?));
    links.0.is_err()
        && links.1.is_err()
        && modes().is_some_and(|(source, target)| source == target)
        && bytes().is_some_and(|(source, target)| source == target)
}

fn put_one(source: &Path, target: &Path) -> io::Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = target.with_file_name(format!(".ebb-new.{name}"));
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    remove_if_there(&temporary)?;
    if let Ok(to) = fs::read_link(source) {
        symlink(to, &temporary)?;
    } else {
        fs::copy(source, &temporary)?;
        File::open(&temporary)?.sync_all()?;
    }
    fs::rename(&temporary, target)
}

/// Removes a file, and the folders of ours that are empty then.
fn remove_one(root: &Root, file: &Path) -> anyhow::Result<()> {
    let path = root.join(file);
    remove_if_there(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    let is_ours = |folder: &&Path| folder.iter().any(|part| part == "ebb");
    for folder in file.ancestors().skip(1).take_while(is_ours) {
        if fs::remove_dir(root.join(folder)).is_err() {
            break;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    fn file(root: &Path, path: &str, text: &str, mode: u32) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Adds the files and links below a folder of the image, as paths of the host.
    fn collect(image: &Path, folder: &Path, files: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(image.join(folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                collect(image, &path, files);
            } else {
                files.insert(Path::new("/").join(path));
            }
        }
    }

    /// All files and links below a folder, each with its mode and what it holds.
    fn seen(root: &Path) -> Vec<String> {
        let mut files = BTreeSet::new();
        collect(root, Path::new(""), &mut files);
        let of = |path: PathBuf| {
            let real = below(root, &path);
            let text = fs::read_link(&real).map_or_else(
                |_| {
                    let mode = fs::metadata(&real).unwrap().mode() & 0o777;
                    format!("{mode:o} {}", fs::read_to_string(&real).unwrap())
                },
                |to| format!("-> {}", to.display()),
            );
            format!("{} {text}", path.display())
        };
        files.into_iter().filter(|path| !path.ends_with(RECORD) && !path.ends_with(LIST)).map(of).collect()
    }

    #[test]
    fn a_host_gets_the_files_of_the_image_and_loses_them_again() -> anyhow::Result<()> {
        let (image, host) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let (image, root) = (image.path(), Root::new(host.path()));
        let put = || Installed::put(image, &root, "edge-a", "ebb-system");
        file(image, "usr/bin/ebb", "one", 0o755);
        file(image, "usr/share/ebb/old", "old", 0o644);
        fs::create_dir_all(image.join("usr/lib/ebb"))?;
        symlink("../../bin/ebb", image.join("usr/lib/ebb/zedkube"))?;
        file(host.path(), "usr/bin/sh", "theirs", 0o755);
        let theirs = seen(host.path());
        let refused = format!("{:#}", put().unwrap_err());
        assert!(refused.contains("not the image"), "{refused}");
        let list = |old: &str| {
            file(image, LIST, &format!("/usr/bin/ebb\n{old}/usr/lib/ebb/zedkube\n"), 0o644);
        };
        list("/usr/share/ebb/old\n");

        file(host.path(), "usr/bin/ebb", "by a package", 0o755);
        let refused = format!("{:#}", put().unwrap_err());
        assert!(refused.contains("apt remove ebb"), "{refused}");
        fs::remove_file(host.path().join("usr/bin/ebb"))?;

        assert_eq!(put()?, 3);
        let record = Installed::read(&root)?.unwrap();
        assert!(!record.is_started, "new files have to be started");
        Installed { is_started: true, ..record }.write(&root)?;
        assert_eq!(put()?, 0);
        assert!(Installed::read(&root)?.unwrap().is_started, "what has not changed runs on");

        // A new version, and what somebody has changed on the host.
        file(image, "usr/bin/ebb", "two", 0o755);
        fs::remove_file(image.join("usr/share/ebb/old"))?;
        list("");
        fs::remove_file(host.path().join("usr/lib/ebb/zedkube"))?;
        assert_eq!(put()?, 2);
        assert!(!Installed::read(&root)?.unwrap().is_started);
        let mut expected = [theirs.clone(), seen(image)].concat();
        expected.sort();
        assert_eq!(seen(host.path()), expected);

        Installed::read(&root)?.unwrap().remove(&root)?;
        assert_eq!(seen(host.path()), theirs);
        let left =
            ["usr/share/ebb", "usr/lib/ebb", "var/lib/ebb"].map(|path| host.path().join(path).exists());
        assert_eq!(left, [false; 3]);
        Ok(())
    }
}
