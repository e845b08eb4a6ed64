//! Keeps the log lines of the library, so that tests can count them. One per process.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

#[derive(Debug, Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    /// Keeps every log line from now on.
    pub(crate) fn listen() -> Self {
        let said = Self::default();
        tracing_subscriber::fmt().with_ansi(false).with_writer(said.clone()).init();
        said
    }

    /// The log lines that contain this text.
    pub(crate) fn lines(&self, text: &str) -> Vec<String> {
        let all = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        all.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Said {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
