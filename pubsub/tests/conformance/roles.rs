//! Other processes: this test program is started again, and one of the tests below is the role that it plays.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::unistd::{Uid, setuid};

use crate::raw::{Came, Link, Listener};
use crate::topics::{STATUS, status_json};

const SOCKET: &str = "CONFORMANCE_SOCKET";
/// The user `nobody`.
const NOBODY: u32 = 65_534;
/// Start of the lines that a role prints.
const MARK: &str = "role says: ";

/// A process that plays a role. It ends when its standard input closes, so together with the test.
pub(crate) struct Role {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Role {
    /// Starts a test of this module as a process; it uses this socket.
    pub(crate) fn start(name: &str, socket: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", &format!("roles::{name}"), "--ignored", "--nocapture", "--test-threads=1"])
            .env(SOCKET, socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the next line of the process.
    pub(crate) fn says(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the role ended");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim_end().to_owned();
            }
        }
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

fn say(text: &str) {
    tell(&format!("{MARK}{text}"));
}

fn tell(line: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}

fn socket() -> PathBuf {
    env::var_os(SOCKET).expect("started by another test").into()
}

fn wait_for_the_end() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn attacker() {
    let links: Vec<Link> = (0..1000).map(|_| Link::dial(&socket())).collect();
    // Every second connection sends a request and never reads. The publisher may have hung up already.
    for link in links.iter().step_by(2) {
        link.try_send(format!("request {STATUS}").as_bytes()).ok();
    }
    say("ready");
    wait_for_the_end();
}

#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn stranger() {
    setuid(Uid::from_raw(NOBODY)).unwrap();
    match Link::try_dial(&socket()) {
        Err(error) => say(&format!("refused: {}", error.kind())),
        Ok(link) => {
            link.try_send(format!("request {STATUS}").as_bytes()).ok();
            say(if link.receive() == Came::End { "hung up on" } else { "served" });
        }
    }
    wait_for_the_end();
}

#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn strange_publisher() {
    setuid(Uid::from_raw(NOBODY)).unwrap();
    let listener = Listener::bind(&socket());
    say("ready");
    let link = listener.accept();
    for text in [
        format!("hello {STATUS} false"),
        crate::raw::update(STATUS, "global", status_json(9)),
        format!("complete {STATUS}"),
    ] {
        link.try_send(text.as_bytes()).ok();
    }
    say(&format!("got {:?}", link.receive()));
    wait_for_the_end();
}
