//! Whatever happens to the machine, a topic is its old value or its new one, and its readers end up with what is there.
//!
//! Tests that need a process of their own, to be killed or starved, start this program again for one test
//! ([`again`]); tests that mount or lower limits do so in namespaces of their own ([`namespace`]), so that nothing of
//! the machine is changed and nothing is left behind.

// `cfg(test)` says that these are tests, in which a failed `unwrap` is a finding.
#[cfg(test)]
mod again;
#[cfg(test)]
mod backup;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod folders;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod many;
#[cfg(test)]
mod mounts;
#[cfg(test)]
mod namespace;
#[cfg(test)]
mod open_files;
#[cfg(test)]
mod overflow;
#[cfg(test)]
mod place;
#[cfg(test)]
mod said;
