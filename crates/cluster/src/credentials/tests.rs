use std::cell::Cell;
use std::path::Path;

use super::*;

thread_local! {
    static NOW: Cell<Moment> = const { Cell::new(Moment(1_000_000)) };
}

fn now() -> Moment {
    NOW.get()
}

fn pass(time: Duration) {
    NOW.set(NOW.get() + time);
}

#[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

async fn token(tokens: &Tokens) -> Result<String, String> {
    let header = tokens.header().await.map_err(|why| why.to_string())?;
    Ok(header.map(|header| header.to_str().unwrap().to_owned()).unwrap_or_default())
}

/// The wall clock has no influence: only the boot clock is read.
#[tokio::test]
async fn a_token_file_is_read_again_every_ten_seconds_of_the_boot_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    write(&path, "first\n");
    let tokens = Tokens::of(Origin::File(path.clone(), Trust::Anybody), now).unwrap();
    assert_eq!(token(&tokens).await, Ok("Bearer first".to_owned()));
    write(&path, "second");
    assert_eq!(token(&tokens).await, Ok("Bearer first".to_owned()), "not yet");
    pass(AGAIN);
    assert_eq!(token(&tokens).await, Ok("Bearer second".to_owned()));
    std::fs::remove_file(&path).unwrap();
    pass(AGAIN);
    assert_eq!(token(&tokens).await, Ok("Bearer second".to_owned()), "the last one while there is no other");
    write(&path, "third");
    pass(AGAIN);
    assert_eq!(token(&tokens).await, Ok("Bearer third".to_owned()));
}

#[tokio::test]
async fn a_path_that_is_no_token_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let lines = folder.path().join("lines");
    write(&lines, "s3cret\nmore");
    for (path, part) in [(fifo, "is not a file"), (lines, "HTTP forbids")] {
        let tokens = Tokens::of(Origin::File(path, Trust::Anybody), now).unwrap();
        let why = token(&tokens).await.unwrap_err();
        assert!(why.contains(part) && !why.contains("s3cret"), "{part}: {why}");
    }
}

/// A plugin whose answer is in a file, and which counts its calls; without the file it hangs.
fn plugin(folder: &Path) -> Origin {
    let script =
        format!("echo >> {0}/calls; [ -e {0}/answer ] && cat {0}/answer || exec sleep 600", folder.display());
    Origin::Plugin(
        Box::new(ExecConfig {
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script]),
            ..ExecConfig::default()
        }),
        Trust::Anybody,
    )
}

fn calls(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("calls")).map_or(0, |text| text.lines().count())
}

#[expect(clippy::disallowed_methods, reason = "what the plugin says is meant in wall-clock time")]
fn answer(folder: &Path, token: &str, lifetime: Duration) {
    let ends = jiff::Timestamp::now() + jiff::SignedDuration::try_from(lifetime).unwrap();
    let answer = format!(r#"{{"status":{{"token":"{token}","expirationTimestamp":"{ends}"}}}}"#);
    write(&folder.join("answer.new"), &answer);
    std::fs::rename(folder.join("answer.new"), folder.join("answer")).unwrap();
}

#[tokio::test]
async fn a_plugin_is_asked_again_before_its_token_ends_and_never_faster_than_every_ten_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tokens = Tokens::within(plugin(folder), now, Duration::from_secs(2)).unwrap();
    answer(folder, "first", Duration::from_mins(10));
    assert_eq!(token(&tokens).await, Ok("Bearer first".to_owned()));
    answer(folder, "second", Duration::from_mins(10));
    pass(Duration::from_mins(8));
    assert_eq!((token(&tokens).await, calls(folder)), (Ok("Bearer first".to_owned()), 1));
    pass(Duration::from_mins(1));
    assert_eq!((token(&tokens).await, calls(folder)), (Ok("Bearer second".to_owned()), 2));

    // The plugin hangs: the token is used while it is valid, and the plugin is not run for each request.
    std::fs::remove_file(folder.join("answer")).unwrap();
    pass(Duration::from_secs(9 * 60 + 1));
    assert_eq!((token(&tokens).await, calls(folder)), (Ok("Bearer second".to_owned()), 3));
    assert_eq!((token(&tokens).await, calls(folder)), (Ok("Bearer second".to_owned()), 3));
    pass(Duration::from_mins(2));
    let why = token(&tokens).await.unwrap_err();
    assert!(why.contains("did not answer within 2 s and was killed"), "{why}");
    assert_eq!((token(&tokens).await, calls(folder)), (Err(why), 4));

    // The plugin works again.
    answer(folder, "third", Duration::ZERO);
    pass(AGAIN);
    assert_eq!((token(&tokens).await, calls(folder)), (Ok("Bearer third".to_owned()), 5));
    // The token seems to have expired before it came, because our wall clock is wrong. The server decides.
    pass(Duration::from_secs(9));
    assert_eq!((token(&tokens).await, calls(folder)), (Ok("Bearer third".to_owned()), 5));
    pass(Duration::from_secs(1));
    assert_eq!((token(&tokens).await, calls(folder)), (Ok("Bearer third".to_owned()), 6));
}
