//! What an agent does with its own process when it starts, before it reads an input or runs a program.

use nix::sys::resource::{Resource, setrlimit};

/// Lets no core be dumped, because the memory holds tokens; and keeps what this process has inherited, beside its
/// standard streams, from the programs that it will run.
pub fn begin() {
    if let Err(error) = setrlimit(Resource::RLIMIT_CORE, 0, 0) {
        tracing::warn!("if this process crashes, its memory may be written to a file (RLIMIT_CORE): {error}");
    }
    close_fds::set_fds_cloexec(3, &[]);
}
