//! Captures the log of an agent while a test runs.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::device::TOO_LONG;

/// The log of this thread, until it is dropped. A test of tokio runs its agent on its own thread.
#[derive(Debug)]
pub struct CapturedLog {
    text: Written,
    _guard: DefaultGuard,
}

impl CapturedLog {
    /// Begins to capture.
    pub fn begin() -> Self {
        let text = Written::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(text.clone())
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns the log until now, and clears it.
    pub fn take(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut *self.text.0.lock().unwrap())).into_owned()
    }

    /// Waits until `text` is logged, and clears the log until then, which is returned.
    pub async fn until(&self, text: &str) -> String {
        let mut said = String::new();
        let saying = async {
            while !said.contains(text) {
                tokio::time::sleep(Duration::from_millis(100)).await;
                said.push_str(&self.take());
            }
        };
        let is_late = tokio::time::timeout(TOO_LONG, saying).await.is_err();
        assert!(!is_late, "{text} is not logged, but: {said}");
        said
    }
}

#[derive(Clone, Debug, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
