//! `ebb topic`: any topic of any agent, by its files and by its socket.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use pubsub::{AgentLock, Persistence, Publisher, TopicKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::device::Device;

const STATUS: &str = "zedkube/NodeDrainStatus";

/// A topic that our schemas do not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Word {
    text: String,
}

impl schemas::Topic for Word {
    const NAME: &'static str = "Word";
}

/// Topic Word of zedclient, served by this process.
fn word_publisher(device: &Device, lock: &AgentLock) -> Result<Publisher<Word>> {
    Ok(Publisher::open(&device.root, "zedclient", Persistence::Volatile, lock)?.served()?)
}

fn word(text: &str) -> Word {
    Word { text: text.to_owned() }
}

fn key(text: &str) -> Result<TopicKey> {
    Ok(TopicKey::parse(text)?)
}

/// Output of a running `ebb topic watch`.
struct Watch {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Watch {
    fn start(device: &Device, words: &[&str]) -> Result<Self> {
        let mut child = device.spawn(&[&["topic", "watch"], words].concat())?;
        let out = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let err = BufReader::new(child.stderr.take().context("no stderr")?).lines();
        Ok(Self { child, out, err })
    }

    /// The next line without its time.
    async fn next(&mut self) -> Result<String> {
        let line = self.out.next_line().await?.context("it has ended")?;
        let (time, rest) = line.split_once(' ').context("no time")?;
        time.parse::<jiff::Timestamp>().with_context(|| line.clone())?;
        Ok(rest.to_owned())
    }

    async fn next_json(&mut self) -> Result<Value> {
        let line = self.out.next_line().await?.context("it has ended")?;
        let mut document: Value = serde_json::from_str(&line)?;
        let fields = document.as_object_mut().context("no object")?;
        assert!(fields.remove("Time").is_some_and(|time| time.is_string()), "{line}");
        Ok(document)
    }

    async fn interrupt(self, device: &Device) -> Result<i32> {
        Ok(device.signal(self.child, Signal::SIGINT).await?.code)
    }
}

#[tokio::test]
async fn items_are_printed_as_json_lines() -> Result<()> {
    let device = Device::new()?;
    device.write("/run/any/Topic/b.json", "{\"Z\": 1,\n \"A\": [2]}\n")?;
    device.write("/run/any/Topic/a b.json", "{}")?;
    device.write("/persist/status/any/Topic/b.json", r#"{"Kept":true}"#)?;
    device.write("/persist/status/any/Only/k.json", r#"{"Kept":true}"#)?;
    fs::create_dir(device.path("/run/any/Empty"))?;
    let all = "{\"Key\":\"a b\",\"Value\":{}}\n{\"Key\":\"b\",\"Value\":{\"Z\":1,\"A\":[2]}}\n";
    for (words, out) in [
        (&["any/Topic"][..], all.to_owned()),
        (&["any/Topic", "b"], "{\"Z\":1,\"A\":[2]}\n".to_owned()),
        (&["any/Topic", "b", "--persistent"], "{\"Kept\":true}\n".to_owned()),
        (&["any/Only", "k"], "{\"Kept\":true}\n".to_owned()),
        (&["any/Empty"], String::new()),
    ] {
        let said = device.ebb(&[&["topic", "get"], words].concat()).await?;
        assert_eq!((said.code, said.out, said.err.as_str()), (0, out, ""), "{words:?}");
    }
    for (words, part) in [
        (&["any/Topic", "c"][..], "error: Topic of any has no item c that can be read"),
        (&["any/Nothing"], "Nothing of any is not there: there is no folder"),
        (&["any/Nothing"], "/run/*/*/*.json"),
        (&["any/Topic", "--socket"], "no process serves Topic of any: there is no socket"),
    ] {
        device.refuses(&[&["topic", "get"], words].concat(), 1, part).await?;
    }
    Ok(())
}

#[tokio::test]
async fn refused_files_are_named_with_the_reason() -> Result<()> {
    let device = Device::new()?;
    device.write("/run/any/Topic/good.json", "{}")?;
    device.write("/run/any/Topic/half.json", "{\"a\":")?;
    symlink("good.json", device.path("/run/any/Topic/link.json"))?;
    let said = device.ebb(&["topic", "get", "any/Topic"]).await?;
    assert_eq!((said.code, said.out.as_str()), (1, "{\"Key\":\"good\",\"Value\":{}}\n"), "{said:?}");
    let err: Vec<&str> = said.err.lines().collect();
    assert_eq!(err.len(), 2, "{err:?}");
    for (line, (file, reason)) in
        err.iter().zip([("half.json", "not JSON"), ("link.json", "a symbolic link")])
    {
        assert!(line.starts_with("error: refused `"), "{line}");
        assert!(line.contains(file) && line.contains(reason), "{line}");
    }
    for (key, code) in [("good", 0), ("half", 1)] {
        let said = device.ebb(&["topic", "get", "any/Topic", key]).await?;
        assert_eq!((said.code, said.err.contains("refused `")), (code, code == 1), "{key}: {said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_socket_is_read_to_its_end() -> Result<()> {
    let device = Device::new()?;
    let lock = AgentLock::acquire(&device.root, "zedclient")?;
    let mut words = word_publisher(&device, &lock)?;
    let get = ["topic", "get", "zedclient/Word", "--socket"];
    let said = device.ebb(&get).await?;
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (0, "", ""),
        "nothing is an answer as well"
    );
    words.publish(&key("a")?, &word("x"))?;
    words.publish(&key("b")?, &word("y"))?;
    // Only the socket knows that nobody has touched the items.
    fs::remove_file(device.path("/run/zedclient/Word/a.json"))?;
    let said = device.ebb(&get).await?;
    let both = "{\"Key\":\"a\",\"Value\":{\"text\":\"x\"}}\n{\"Key\":\"b\",\"Value\":{\"text\":\"y\"}}\n";
    assert_eq!((said.code, said.out.as_str()), (0, both), "{said:?}");
    let said = device.ebb(&[&get[..], &["a"]].concat()).await?;
    assert_eq!((said.code, said.out.as_str()), (0, "{\"text\":\"x\"}\n"), "{said:?}");
    device.refuses(&[&get[..], &["c"]].concat(), 1, "has no item c").await?;
    device.refuses(&["topic", "get", "zedclient/Word", "a"], 1, "has no item a").await
}

#[tokio::test]
async fn a_watch_tells_what_happens_to_files() -> Result<()> {
    let device = Device::new()?;
    device.write("/run/any/Topic/a.json", r#"{"n":1}"#)?;
    device.write("/run/any/Topic/b.json", r#"{"n":1}"#)?;
    let mut all = Watch::start(&device, &["any/Topic", "--files"])?;
    let mut one = Watch::start(&device, &["any/Topic", "b", "--json"])?;
    for expected in [r#"created a {"n":1}"#, r#"created b {"n":1}"#, "synced"] {
        assert_eq!(all.next().await?, expected);
    }
    assert_eq!(one.next_json().await?, json!({"Change": "created", "Key": "b", "Value": {"n": 1}}));
    assert_eq!(one.next_json().await?, json!({"Change": "synced"}));

    device.write("/run/any/Topic/a.json", r#"{"n":2}"#)?;
    assert_eq!(all.next().await?, r#"modified a {"n":2}"#);
    fs::remove_file(device.path("/run/any/Topic/a.json"))?;
    assert_eq!(all.next().await?, r#"deleted a {"n":2}"#);
    device.write("/run/any/Topic/b.json", "no json")?;
    let refused = all.err.next_line().await?.unwrap_or_default();
    assert!(refused.starts_with("error: refused `") && refused.contains("b.json"), "{refused}");
    fs::remove_file(device.path("/run/any/Topic/b.json"))?;
    assert_eq!(all.next().await?, r#"deleted b {"n":1}"#);
    device.write("/run/any/Topic/restarted", "1")?;
    assert_eq!(all.next().await?, "restarted 1");
    assert_eq!(one.next_json().await?, json!({"Change": "deleted", "Key": "b", "Value": {"n": 1}}));
    assert_eq!((all.interrupt(&device).await?, one.interrupt(&device).await?), (0, 0));
    Ok(())
}

#[tokio::test]
async fn a_watch_follows_a_socket_also_when_it_comes_late() -> Result<()> {
    let device = Device::new()?;
    let mut watch = Watch::start(&device, &["zedclient/Word", "--socket"])?;
    let warning = watch.err.next_line().await?.unwrap_or_default();
    assert!(warning.starts_with("Warning: no process serves ") && warning.contains("Word.sock"), "{warning}");
    let lock = AgentLock::acquire(&device.root, "zedclient")?;
    let mut words = word_publisher(&device, &lock)?;
    assert_eq!(watch.next().await?, "synced");
    words.publish(&key("a")?, &word("x"))?;
    assert_eq!(watch.next().await?, r#"created a {"text":"x"}"#);
    // A file that its publisher did not write is none of the socket's.
    device.write("/run/zedclient/Word/b.json", r#"{"text":"by hand"}"#)?;
    words.unpublish(&key("a")?)?;
    assert_eq!(watch.next().await?, r#"deleted a {"text":"x"}"#);
    assert_eq!(watch.interrupt(&device).await?, 0);

    let mut files = Watch::start(&device, &["zedclient/Nothing"])?;
    let warning = files.err.next_line().await?.unwrap_or_default();
    assert!(warning.starts_with("Warning: there is no folder "), "{warning}");
    assert_eq!(files.next().await?, "synced");
    assert_eq!(files.interrupt(&device).await?, 0);
    Ok(())
}

/// EVE would leave files behind for each reader.
#[tokio::test]
async fn large_fields_are_read_by_file_only() -> Result<()> {
    let device = Device::new()?;
    let lock = AgentLock::acquire(&device.root, "zedclient")?;
    let _words = word_publisher(&device, &lock)?;
    let text = r#"{"text":"x","Block":{"pubsub-large-CipherData":null}}"#;
    device.write("/run/zedclient/Word/k.json", text)?;
    for verb in ["get", "watch"] {
        device.refuses(&["topic", verb, "zedclient/Word", "--socket"], 1, "is not read by socket").await?;
    }
    let said = device.ebb(&["topic", "get", "zedclient/Word", "k"]).await?;
    assert_eq!((said.code, said.out.trim_end()), (0, text));
    Ok(())
}

#[tokio::test]
async fn a_watch_ends_when_nobody_reads_it() -> Result<()> {
    let device = Device::new()?;
    device.write("/run/any/Topic/a.json", r#"{"n":1}"#)?;
    let mut watch = Watch::start(&device, &["any/Topic"])?;
    assert_eq!(watch.next().await?, r#"created a {"n":1}"#);
    assert_eq!(watch.next().await?, "synced");
    drop(watch.out);
    device.write("/run/any/Topic/a.json", r#"{"n":2}"#)?;
    assert_eq!(device.finish(watch.child).await?.code, 0);
    Ok(())
}

#[tokio::test]
async fn what_others_write_does_not_reach_the_terminal() -> Result<()> {
    let device = Device::new()?;
    let name = "k\u{1b}[2J\u{9b}31m\u{202e}\n";
    device.write(&format!("/run/any/Topic/{name}.json"), "{\"\u{7f}a\":\"\\u001b[2J\u{9b}\u{202e}\"}")?;
    device.write(&format!("/run/any/Topic/bad{name}.json"), "[]")?;
    let is_tame = |text: &str| !text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}');
    for words in [&["get", "any/Topic"][..], &["get", "any/Topic", &format!("bad{name}")]] {
        let said = device.ebb(&[&["topic"], words].concat()).await?;
        assert!(is_tame(&said.out) && is_tame(&said.err), "{words:?}: {said:?}");
        assert_eq!(said.err.lines().filter(|line| !line.starts_with("error: ")).count(), 0, "{said:?}");
    }
    let said = device.ebb(&["topic", "get", "any/Topic"]).await?;
    let line: Value = serde_json::from_str(&said.out)?;
    assert_eq!(
        (line["Key"].as_str(), line["Value"]["\u{7f}a"].as_str()),
        (Some(name), Some("\u{1b}[2J\u{9b}\u{202e}"))
    );
    let mut watch = Watch::start(&device, &["any/Topic"])?;
    let created = watch.next().await?;
    assert!(is_tame(&created) && created.starts_with("created \"k\\u{1b}[2J"), "{created:?}");
    let refused = watch.err.next_line().await?.unwrap_or_default();
    assert!(is_tame(&refused) && refused.contains("bad"), "{refused:?}");
    assert_eq!(watch.interrupt(&device).await?, 0);
    Ok(())
}

#[tokio::test]
async fn words_that_make_no_sense_are_exit_code_2() -> Result<()> {
    let device = Device::new()?;
    for (words, part) in [
        (&[][..], "Usage: ebb topic"),
        (&["get", "../etc"], "names no agent"),
        (&["get", STATUS, "a/b"], "is not a key: it contains a slash"),
        (&["watch", STATUS, "--socket", "--files"], "cannot be used with"),
        (&["get", STATUS, "x.json"], "contains `.json`"),
        (&["get", STATUS, "..", "--persistent"], "names a folder"),
    ] {
        device.refuses(&[&["topic"], words].concat(), 2, part).await?;
    }
    assert!(!device.path("/run").exists(), "nothing was made");
    Ok(())
}

#[tokio::test]
async fn a_place_that_cannot_be_read_is_named() -> Result<()> {
    let device = Device::new()?;
    // A file where the folder should be: root is stopped by it as well.
    device.write("/run/any/Topic", "")?;
    device.refuses(&["topic", "get", "any/Topic"], 1, "cannot be listed").await
}
