//! Finds out whether this machine runs a kubelet.
//!
//! A worker of k3s, RKE2 or kubeadm may have no kubeconfig that zedkube can use, and is still no plain single device. A
//! folder alone proves nothing: packages and old installations leave folders.

use std::fs;
use std::path::Path;

use cluster::kubeconfig::KUBELETS;
use pubsub::Root;

/// systemd units that run a kubelet.
const UNITS: [&str; 6] = [
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "kubelet.service",
    "snap.microk8s.daemon-kubelite.service",
];

/// Programs that are a kubelet or contain one, as named in `/proc/PID/comm`.
const PROGRAMS: [&str; 8] =
    ["kubelet", "kubelite", "k3s", "k3s-server", "k3s-agent", "rke2", "rke2-server", "rke2-agent"];

/// Most entries of a folder that are read, so that a folder full of files cannot delay zedkube.
const MOST_ENTRIES: usize = 10_000;

/// True if there is an enabled unit, a kubelet's kubeconfig, or a live process. Reads folders and small files.
pub(crate) fn is_at_home(root: &Root) -> bool {
    KUBELETS.iter().any(|path| root.join(path).is_file())
        || is_enabled(&root.join("/etc/systemd/system"))
        || is_running(&root.join("/proc"))
}

/// True if a unit is enabled: then it has a link in a folder such as `multi-user.target.wants`.
fn is_enabled(units: &Path) -> bool {
    let is_wanted_in = |folder: &Path| UNITS.iter().any(|unit| folder.join(unit).symlink_metadata().is_ok());
    entries(units)
        .filter(|path| {
            path.extension().is_some_and(|extension| extension == "wants" || extension == "requires")
        })
        .any(|folder| is_wanted_in(&folder))
}

fn is_running(processes: &Path) -> bool {
    let is_process = |path: &Path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    let name = |path: &Path| fs::read_to_string(path.join("comm")).unwrap_or_default();
    entries(processes).filter(|path| is_process(path)).any(|path| PROGRAMS.contains(&name(&path).trim_end()))
}

fn entries(folder: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(MOST_ENTRIES);
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_kubelet_shows_by_its_unit_its_kubeconfig_or_its_process_and_not_by_a_folder() {
        let cases = [
            ("etc/systemd/system/multi-user.target.wants/k3s-agent.service", "", true),
            ("etc/systemd/system/multi-user.target.wants/kubelet.service", "", true),
            ("etc/systemd/system/k3s-agent.service", "", false),
            ("etc/systemd/system/multi-user.target.wants/ssh.service", "", false),
            ("var/lib/rancher/k3s/agent/kubelet.kubeconfig", "", true),
            ("var/lib/rancher/rke2/agent/kubelet.kubeconfig", "", true),
            ("etc/kubernetes/kubelet.conf", "", true),
            ("etc/kubernetes/manifests/readme", "", false),
            ("var/lib/kubelet/pods/x", "", false),
            ("var/lib/rancher/k3s/agent/kubelet.kubeconfig/x", "", false),
            ("proc/17/comm", "kubelet\n", true),
            ("proc/17/comm", "k3s-agent\n", true),
            ("proc/17/comm", "kubelet-watcher\n", false),
            ("proc/self/comm", "kubelet\n", false),
        ];
        for (path, text, expected) in cases {
            let folder = tempfile::tempdir().unwrap();
            make(folder.path(), path, text);
            assert_eq!(is_at_home(&Root::new(folder.path())), expected, "{path} {text:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_at_home(&Root::new(folder.path())), "nothing");
    }

    #[test]
    fn an_enabled_unit_is_a_link_whose_target_need_not_exist_below_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let wants = folder.path().join("etc/systemd/system/multi-user.target.wants");
        fs::create_dir_all(&wants).unwrap();
        std::os::unix::fs::symlink("/nowhere/k3s-agent.service", wants.join("k3s-agent.service")).unwrap();
        assert!(is_at_home(&Root::new(folder.path())));
    }
}
