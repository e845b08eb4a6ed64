//! Finds the six programs in `KUBEBUILDER_ASSETS` or in the cache, or builds them once from pinned Go modules.
//!
//! The modules are `go/{kubernetes-*,etcd,kwok}`; their `go.sum` pins every source by checksum. A build takes three to six
//! minutes on two cores and is kept in `${XDG_CACHE_HOME:-~/.cache}/ebb/control-plane/<versions>/`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result, bail, ensure};

use crate::credentials::write_private;

/// Environment variable that chooses one of [`RELEASES`] by its minor version, as `1.31`.
const CHOICE: &str = "EBB_KUBERNETES";

/// A release of Kubernetes that a control plane can have.
#[derive(Debug)]
struct Release {
    version: &'static str,
    files: [(&'static str, &'static str); 3],
}

macro_rules! release {
    ($version:literal, $folder:literal) => {
        Release {
            version: $version,
            files: [
                ("go.mod", include_str!(concat!("../go/", $folder, "/go.mod"))),
                ("go.sum", include_str!(concat!("../go/", $folder, "/go.sum"))),
                ("tools.go", include_str!(concat!("../go/", $folder, "/tools.go"))),
            ],
        }
    };
}

/// The releases that ebb is tested with (README.md, "Versions"): the one of EVE's k3s, which is used unless another is
/// chosen, the oldest and the newest.
const RELEASES: [Release; 3] = [
    release!("1.34.2", "kubernetes-1.34"),
    release!("1.31.0", "kubernetes-1.31"),
    release!("1.37.2", "kubernetes-1.37"),
];

impl Release {
    /// The release that the environment chooses.
    fn chosen() -> Result<&'static Self> {
        Self::by_minor(env::var_os(CHOICE).as_deref().and_then(|minor| minor.to_str()).unwrap_or_default())
    }

    /// The release with this minor version, as `1.31`; the first if it is empty.
    fn by_minor(minor: &str) -> Result<&'static Self> {
        let found = RELEASES.iter().find(|release| minor.is_empty() || release.minor() == minor);
        let known = RELEASES.map(|release| release.minor());
        found.with_context(|| format!("{CHOICE} is `{minor}`; there are {}", known.join(", ")))
    }

    /// Major and minor version, as `1.31`.
    fn minor(&self) -> &'static str {
        self.version.rsplit_once('.').map_or(self.version, |(minor, _patch)| minor)
    }

    /// Name of a build. It changes with every version, so a folder of the cache never changes.
    fn build(&self) -> String {
        format!("kubernetes-{}_etcd-{ETCD}_kwok-{KWOK}_{}", self.version, env::consts::ARCH)
    }
}

/// The etcd release.
pub const ETCD: &str = "3.6.16";
/// The kwok release.
pub const KWOK: &str = "0.8.0";

/// Environment variable that names a folder with ready programs, as envtest and kubebuilder use it.
const ASSETS: &str = "KUBEBUILDER_ASSETS";
const PROGRAMS: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"];

/// A folder that holds all six programs.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// The programs of `KUBEBUILDER_ASSETS` if it has all six, else those of the cache, else fresh builds.
    ///
    /// A build takes minutes and says so on stderr; other processes wait for it. Fails if something must be built
    /// and Go is missing or its build fails; the message says what to install.
    pub fn find_or_build() -> Result<Self> {
        if let Some(folder) = env::var_os(ASSETS).map(PathBuf::from)
            && has_all(&folder)
        {
            return Ok(Self { folder });
        }
        let release = Release::chosen()?;
        let cache = cache_folder()?;
        let folder = cache.join(release.build());
        if !has_all(&folder) {
            build_once(release, &cache, &folder)?;
        }
        Ok(Self { folder })
    }

    /// The programs of a folder that was found before, for example by the process that owns a shared control plane.
    pub fn in_folder(folder: &Path) -> Result<Self> {
        ensure!(has_all(folder), "`{}` does not hold all of {}", folder.display(), PROGRAMS.join(", "));
        Ok(Self { folder: folder.to_owned() })
    }

    /// The folder of the programs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of one program, for example `kubectl`.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }
}

/// One Go module of this repository, and the program that is built from it.
struct Module {
    name: &'static str,
    files: [(&'static str, &'static str); 3],
    packages: &'static [&'static str],
    /// Name of the built file in the output folder; empty if Go's own names are right.
    output: &'static str,
    linker_flags: String,
}

fn modules(release: &Release) -> [Module; 3] {
    let (major, minor) = release.minor().split_once('.').unwrap_or_default();
    let (number, version) = (release.version, "k8s.io/component-base/version");
    [
        Module {
            name: "kubernetes",
            files: release.files,
            packages: &[
                "k8s.io/kubernetes/cmd/kube-apiserver",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-scheduler",
                "k8s.io/kubernetes/cmd/kubectl",
            ],
            output: "",
            linker_flags: format!(
                "-s -w -X {version}.gitVersion=v{number} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
            ),
        },
        Module {
            name: "etcd",
            files: [
                ("go.mod", include_str!("../go/etcd/go.mod")),
                ("go.sum", include_str!("../go/etcd/go.sum")),
                ("tools.go", include_str!("../go/etcd/tools.go")),
            ],
            packages: &["go.etcd.io/etcd/server/v3"],
            output: "etcd",
            linker_flags: "-s -w".to_owned(),
        },
        Module {
            name: "kwok",
            files: [
                ("go.mod", include_str!("../go/kwok/go.mod")),
                ("go.sum", include_str!("../go/kwok/go.sum")),
                ("tools.go", include_str!("../go/kwok/tools.go")),
            ],
            packages: &["sigs.k8s.io/kwok/cmd/kwok"],
            output: "",
            linker_flags: format!("-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=v{KWOK}"),
        },
    ]
}

fn has_all(folder: &Path) -> bool {
    PROGRAMS.iter().all(|program| folder.join(program).is_file())
}

fn cache_folder() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?)
            .join(".cache"),
    };
    Ok(base.join("ebb").join("control-plane"))
}

/// Builds into a temporary folder under a lock and renames it, so that `folder` is complete whenever it exists.
fn build_once(release: &Release, cache: &Path, folder: &Path) -> Result<()> {
    require_go()?;
    fs::create_dir_all(cache).with_context(|| format!("cannot create `{}`", cache.display()))?;
    let lock_path = cache.join(format!("{}.lock", release.build()));
    let lock = fs::File::create(&lock_path)
        .with_context(|| format!("cannot create lock `{}`", lock_path.display()))?;
    lock.lock().with_context(|| format!("cannot lock `{}`", lock_path.display()))?;
    if has_all(folder) {
        return Ok(());
    }
    announce(release);
    let temporary = tempfile::Builder::new().prefix("building-").tempdir_in(cache)?;
    let output = temporary.path().join("output");
    fs::create_dir(&output)?;
    for module in modules(release) {
        build(&module, temporary.path(), &output)?;
    }
    ensure!(has_all(&output), "Go built into `{}`, but not all of {}", output.display(), PROGRAMS.join(", "));
    fs::rename(&output, folder).with_context(|| format!("cannot rename the build to `{}`", folder.display()))
}

#[expect(
    clippy::print_stderr,
    reason = "the caller looks hung for minutes otherwise; there is no log in a test"
)]
fn announce(release: &Release) {
    eprintln!(
        "control-plane: building Kubernetes {}, etcd {ETCD} and kwok {KWOK} once; three to six minutes on two cores",
        release.version
    );
}

fn require_go() -> Result<()> {
    if matches!(Command::new("go").arg("version").output(), Ok(Output { status, .. }) if status.success()) {
        return Ok(());
    }
    bail!(
        "no control plane: install Go 1.26 or newer (the programs are then built once), or set {ASSETS} to a folder that holds {}",
        PROGRAMS.join(", ")
    )
}

fn build(module: &Module, temporary: &Path, output: &Path) -> Result<()> {
    let source = temporary.join(module.name);
    fs::create_dir(&source)?;
    for (file, text) in module.files {
        write_private(&source.join(file), text.as_bytes())?;
    }
    // With `-mod=readonly` Go fails instead of changing what go.mod and go.sum pin. The empty GOFLAGS keeps it so.
    let run = Command::new("go")
        .current_dir(&source)
        .envs([("CGO_ENABLED", "0"), ("GOFLAGS", ""), ("GOWORK", "off")])
        .args([
            "build",
            "-mod=readonly",
            "-buildvcs=false",
            "-trimpath",
            "-ldflags",
            &module.linker_flags,
            "-o",
        ])
        .arg(output.join(module.output))
        .args(module.packages)
        .output()
        .context("cannot run `go build`")?;
    ensure!(
        run.status.success(),
        "`go build` of {} failed ({}): {}",
        module.name,
        run.status,
        String::from_utf8_lossy(&run.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants and the Go modules of this repository must be raised together.
    #[test]
    fn go_modules_pin_the_named_versions() {
        for release in &RELEASES {
            for (module, line) in [
                ("kubernetes", format!("require k8s.io/kubernetes v{}", release.version)),
                ("etcd", format!("require go.etcd.io/etcd/server/v3 v{ETCD}")),
                ("kwok", format!("require sigs.k8s.io/kwok v{KWOK}")),
            ] {
                let found = modules(release).into_iter().find(|candidate| candidate.name == module).unwrap();
                let (_, text) = found.files[0];
                assert!(text.lines().any(|candidate| candidate == line), "go.mod lacks `{line}`");
            }
        }
    }

    /// Kubernetes publishes its staging modules as v0.<minor>.<patch>; modules of another release would not fit.
    #[test]
    fn staging_modules_are_of_the_same_release() {
        for release in &RELEASES {
            let staging = format!("v0.{}", release.version.strip_prefix("1.").unwrap());
            let lines = release.files[0].1.lines();
            let replaced: Vec<&str> = lines.filter(|line| line.contains(" => ")).collect();
            assert!(!replaced.is_empty());
            for line in replaced {
                assert!(line.ends_with(&staging), "not {staging}: {line}");
            }
        }
    }

    #[test]
    fn a_release_is_chosen_by_its_minor_version() {
        let chosen =
            |minor| Release::by_minor(minor).map(|release| release.version).map_err(|e| e.to_string());
        assert_eq!((chosen(""), chosen("1.37")), (Ok("1.34.2"), Ok("1.37.2")));
        assert_eq!(chosen("1.2").unwrap_err(), "EBB_KUBERNETES is `1.2`; there are 1.34, 1.31, 1.37");
    }
}
