//! A device for tests: agents as real processes below a root folder of their own.

mod agents;
mod device;

pub use agents::Process;
pub use device::Device;
