use std::os::unix::fs::PermissionsExt;

use schemas::{DrainOrder, DrainRequester};

use super::*;

const FIRST: &str = "persist/kube-status/force-NodeDrainStatus-global.json";

struct Bench {
    folder: tempfile::TempDir,
    file: OverrideFile,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = OverrideFile::open(&Root::new(folder.path()));
        Self { folder, file }
    }

    fn write(&self, place: &str, text: &str, mode: u32) {
        let path = self.folder.path().join(place);
        #[expect(clippy::disallowed_methods, reason = "as a person's echo does")]
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn has(&self, place: &str) -> bool {
        self.folder.path().join(place).exists()
    }

    fn look(&mut self, at: u64) -> (Option<DrainOrder>, Option<Moment>) {
        let (order, again) = self.file.look(Moment(at));
        (order.map(|order| order.what), again)
    }

    fn reasons(&self) -> String {
        self.file.refused().map(|line| line.reason).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn each_place_and_each_order_is_taken_and_renamed() {
    for place in [
        FIRST,
        "persist/kube-status/kubeforce-NodeDrainStatus-global.json",
        "run/kube-status/force-NodeDrainStatus-global.json",
    ] {
        for (text, what) in [
            ("{\"Status\":9,\"RequestedBy\":2}\n", DrainOrder::Complete(DrainRequester::DeviceOp)),
            ("{\"Status\":9,\"RequestedBy\":1}", DrainOrder::Complete(DrainRequester::None)),
            ("{\"Status\":1,\"RequestedBy\":1}", DrainOrder::Disable),
            ("{\"Status\":2,\"RequestedBy\":1}", DrainOrder::Enable),
        ] {
            let mut bench = Bench::new();
            bench.write(place, text, 0o600);
            assert_eq!(bench.look(0), (Some(what), None), "{place} {text}");
            assert!(bench.has(place), "not before it is on record");
            assert!(bench.file.take());
            assert!(!bench.has(place) && bench.has(&format!("{place}.applied")));
            assert_eq!(bench.look(1), (None, None));
        }
    }
}

/// D31.
#[test]
fn half_a_file_is_waited_for_and_nonsense_is_refused_with_a_reason() {
    for text in
        ["", "{\"Status\":9,", "{\"Status\":3,\"RequestedBy\":2}", "{\"Status\":9,\"RequestedBy\":0}", "[]"]
    {
        let mut bench = Bench::new();
        bench.write(FIRST, text, 0o600);
        assert_eq!(bench.look(1000), (None, Some(Moment(3000))), "{text}");
        assert!(bench.has(FIRST));
        assert_eq!(bench.look(3000), (None, None));
        assert!(!bench.has(FIRST) && bench.has(&format!("{FIRST}.refused")), "{text}");
        assert!(bench.reasons().contains("accepted: {\"Status\":9"), "{}", bench.reasons());
    }
    let mut bench = Bench::new();
    bench.write(FIRST, "{\"Sta", 0o600);
    assert_eq!(bench.look(1000).1, Some(Moment(3000)));
    bench.write(FIRST, "{\"Status\":9,\"RequestedBy\":3}", 0o600);
    assert_eq!(bench.look(2000).0, Some(DrainOrder::Complete(DrainRequester::Update)), "the rest came");
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let mut bench = Bench::new();
    bench.write(FIRST, "{\"Status\":9,\"RequestedBy\":2}", 0o666);
    bench.look(0);
    assert_eq!(bench.look(2000), (None, None));
    assert!(bench.reasons().contains("0666"), "{}", bench.reasons());
}

#[test]
fn one_stands_and_the_weaker_is_refused() {
    let mut bench = Bench::new();
    let weaker = "persist/kube-status/kubeforce-NodeDrainStatus-global.json";
    bench.write(weaker, "{\"Status\":1,\"RequestedBy\":1}", 0o600);
    bench.write(FIRST, "{\"Status\":9,\"RequestedBy\":2}", 0o600);
    assert_eq!(bench.look(0).0, Some(DrainOrder::Complete(DrainRequester::DeviceOp)));
    assert!(!bench.has(weaker) && bench.has(&format!("{weaker}.refused")));
}

#[test]
fn what_was_there_before_the_boot_is_refused() {
    let mut bench = Bench::new();
    bench.write(FIRST, "{\"Status\":9,\"RequestedBy\":2}", 0o600);
    bench.file.refuse_leftovers();
    assert_eq!(bench.look(0), (None, None));
    assert!(bench.reasons().contains("left over"), "{}", bench.reasons());
}

#[test]
fn a_file_that_cannot_be_renamed_is_not_applied() {
    let mut bench = Bench::new();
    bench.write(FIRST, "{\"Status\":9,\"RequestedBy\":2}", 0o600);
    assert!(bench.look(0).0.is_some());
    // A folder blocks the new name.
    std::fs::create_dir_all(bench.folder.path().join(format!("{FIRST}.applied/x"))).unwrap();
    assert!(!bench.file.take());
    assert!(bench.reasons().contains("cannot be renamed"), "{}", bench.reasons());
}

#[test]
fn who_says_so_and_why_is_kept_in_one_line() {
    let mut bench = Bench::new();
    bench.write(FIRST, "{\"Status\":1,\"RequestedBy\":1,\"By\":\"root\",\"Reason\":\"a\\nb\"}", 0o600);
    assert_eq!(bench.file.look(Moment(0)).0.unwrap().by, "root: a b");
}

const DISABLE: &str = "{\"Status\":1,\"RequestedBy\":1}";
const ENABLE: &str = "{\"Status\":2,\"RequestedBy\":1}";

/// Writes the file as `ebb force` does: a new file is renamed over the old one.
fn replace(bench: &Bench, text: &str) {
    bench.write(&format!("{FIRST}.new"), text, 0o600);
    let path = bench.folder.path();
    std::fs::rename(path.join(format!("{FIRST}.new")), path.join(FIRST)).unwrap();
}

#[test]
fn an_order_that_comes_while_the_last_one_is_put_on_record_counts_as_well() {
    type Write = fn(&Bench, &str);
    let writes: [Write; 2] = [replace, |bench, text| bench.write(FIRST, text, 0o600)];
    for write in writes {
        for (first, second, what) in
            [(DISABLE, ENABLE, DrainOrder::Enable), (ENABLE, DISABLE, DrainOrder::Disable)]
        {
            let mut bench = Bench::new();
            write(&bench, first);
            assert!(bench.look(0).0.is_some());
            write(&bench, second);
            assert!(bench.file.take() && bench.file.has_another());
            assert_eq!(bench.look(1).0, Some(what));
            assert!(bench.file.take() && !bench.file.has_another());
            assert_eq!((bench.look(2), bench.has(FIRST)), ((None, None), false));
        }
    }
}

/// R10: zedkube has judged a bad file, and a good one takes its place before the rename.
#[test]
fn a_good_order_that_takes_the_place_of_a_bad_one_is_never_refused_unread() {
    let mut bench = Bench::new();
    bench.write(FIRST, "[]", 0o600);
    assert_eq!(bench.look(0).1, Some(Moment(2000)));
    let place = bench.folder.path().join(FIRST);
    let bad = fingerprint(&place);
    let refusal = read(&place).unwrap_err();
    replace(&bench, ENABLE);
    assert_eq!(bench.file.doubt(place, bad, &refusal, Moment(2000)), Some(Moment(2000)), "at once");
    assert!(bench.has(FIRST) && !bench.has(&format!("{FIRST}.refused")));
    assert_eq!(bench.look(2000).0, Some(DrainOrder::Enable));
}

#[test]
fn a_file_that_changes_is_waited_for_anew_but_not_for_ever() {
    let mut bench = Bench::new();
    for (second, again) in (0..20).zip((0..18).map(|second| second + 2).chain([20, 20])) {
        bench.write(FIRST, &" ".repeat(second), 0o600);
        let now = u64::try_from(second).unwrap() * 1000;
        assert_eq!(bench.look(now), (None, Some(Moment(again * 1000))), "{second}");
    }
    assert_eq!(bench.look(20_000), (None, None));
    assert!(!bench.has(FIRST) && bench.has(&format!("{FIRST}.refused")));
}

#[test]
fn an_order_that_was_given_twice_counts_once() {
    let mut bench = Bench::new();
    replace(&bench, DISABLE);
    assert!(bench.look(0).0.is_some());
    replace(&bench, DISABLE);
    assert!(bench.file.take() && !bench.file.has_another());
    assert_eq!(bench.look(1), (None, None));
}

#[test]
fn an_order_that_was_taken_back_while_it_was_put_on_record_does_not_count() {
    let mut bench = Bench::new();
    replace(&bench, DISABLE);
    assert!(bench.look(0).0.is_some());
    std::fs::remove_file(bench.folder.path().join(FIRST)).unwrap();
    assert!(!bench.file.take());
}

#[test]
fn a_refusal_is_told_until_its_file_is_gone_or_a_good_order_was_taken() {
    for by_order in [false, true] {
        let mut bench = Bench::new();
        bench.write(FIRST, "[]", 0o600);
        bench.look(0);
        bench.look(2000);
        assert_ne!(bench.reasons(), "");
        if by_order {
            replace(&bench, ENABLE);
            assert!(bench.look(2001).0.is_some() && bench.file.take());
        } else {
            bench.look(2001);
            assert_ne!(bench.reasons(), "", "its file is there");
            std::fs::remove_file(bench.folder.path().join(format!("{FIRST}.refused"))).unwrap();
            bench.look(2002);
        }
        assert_eq!(bench.reasons(), "", "{by_order}");
    }
}

#[tokio::test]
async fn what_stood_in_the_way_of_a_new_name_is_missed_at_once() {
    let mut bench = Bench::new();
    let obstacle = bench.folder.path().join(format!("{FIRST}.applied"));
    std::fs::create_dir_all(obstacle.join("x")).unwrap();
    while tokio::time::timeout(Duration::from_millis(200), bench.file.changed()).await.is_ok() {}
    std::fs::remove_dir_all(&obstacle).unwrap();
    tokio::time::timeout(Duration::from_secs(10), bench.file.changed()).await.expect("nothing wakes it");
}
