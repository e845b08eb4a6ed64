//! Whatever happens to the machine, an item has its old value or its new one, and readers end up with what is on disk.
//!
//! Tests that need a process of their own, to kill it or to limit its files, start this program again for one test
//! ([`again`]). Tests that mount or lower limits do so in namespaces of their own ([`namespace`]), so that the machine
//! is not changed and nothing is left behind.

// With `cfg(test)` clippy allows `unwrap` in these modules.
#[cfg(test)]
mod again;
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
