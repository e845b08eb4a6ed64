use super::*;
use crate::plan::Reason;
use crate::time::Moment;

/// A pod that has to leave, of namespace `shop`; its UID is its name.
fn line(name: &str, stage: Option<Stage>) -> Line {
    let is_asked = stage.as_ref().is_some_and(Stage::is_asked);
    Line {
        id: PodId { namespace: "shop".into(), name: name.into(), uid: name.into() },
        owner: "StatefulSet/db".into(),
        verdict: Verdict::Evict,
        reasons: Vec::new(),
        stage,
        since: Moment(0),
        tries: u32::from(is_asked),
        detail: String::new(),
    }
}

fn sent(name: &str, stage: Stage) -> Line {
    Line { tries: 1, ..line(name, Some(stage)) }
}

fn after(looks: Vec<Vec<Line>>) -> PodFates {
    let mut pod_fates = PodFates::default();
    for lines in looks {
        pod_fates.see(lines);
    }
    pod_fates
}

fn refused() -> Stage {
    Stage::Failed { text: "no right".into() }
}

#[test]
fn what_became_of_a_pod() {
    let waits = || line("db", Some(Stage::Waiting));
    let stays = || Line { verdict: Verdict::Leave, reasons: vec![Reason::Mirror], ..line("db", None) };
    let forbidden = Line {
        verdict: Verdict::Refuse,
        reasons: vec![Reason::NoController],
        detail: "the policy does not allow its eviction".into(),
        ..line("db", Some(Stage::Refused))
    };
    let busy = Line {
        detail: "busy".into(),
        ..sent("db", Stage::Paused { text: "busy".into(), next: Moment::NEVER })
    };
    for (looks, told, lingers, text) in [
        (vec![vec![waits()]], false, false, "unanswered shop/db"),
        (vec![vec![waits()], vec![sent("db", Stage::Evicting)]], false, false, "unanswered shop/db"),
        (vec![vec![sent("db", Stage::Evicting)], vec![]], true, false, "deleted shop/db"),
        (
            vec![vec![waits()], vec![sent("db", Stage::Accepted)]],
            true,
            true,
            "deleted shop/db: its object is still there: its finalizers hold it, if it does not go",
        ),
        (vec![vec![sent("db", Stage::Accepted)], vec![]], true, false, "deleted shop/db"),
        // The pod was terminating before the first deletion was sent.
        (
            vec![vec![Line { tries: 0, ..line("db", Some(Stage::Terminating)) }]],
            false,
            false,
            "unanswered shop/db",
        ),
        (vec![vec![waits()], vec![]], true, false, "gone shop/db"),
        (
            vec![vec![Line { detail: "no right".into(), ..sent("db", refused()) }]],
            true,
            false,
            "refused shop/db: no right",
        ),
        (vec![vec![sent("db", refused())], vec![]], true, false, "gone shop/db"),
        (
            vec![vec![forbidden]],
            true,
            false,
            "refused shop/db: the policy does not allow its eviction: has no controller that would create it again",
        ),
        (vec![vec![busy]], false, false, "unanswered shop/db: busy"),
        (vec![vec![stays()]], true, false, "stays shop/db: static pod of the kubelet"),
        (vec![vec![stays()], vec![]], true, false, "stays shop/db: static pod of the kubelet"),
    ] {
        let pod_fates = after(looks);
        let pods: Vec<String> = pod_fates.pods().iter().map(ToString::to_string).collect();
        assert_eq!(pods, [text]);
        assert_eq!(
            (pod_fates.is_answered(), pod_fates.is_pending(), pod_fates.is_lingering()),
            (told, !told, lingers),
            "{text}"
        );
    }
}

#[test]
fn nothing_seen_is_not_nothing_there() {
    assert!(after(vec![]).is_pending());
    assert!(after(vec![vec![]]).is_answered());
}

#[test]
fn a_pod_that_comes_later_is_not_waited_for() {
    let pod_fates = after(vec![vec![sent("a", Stage::Evicting)], vec![line("b", Some(Stage::Waiting))]]);
    assert!(pod_fates.is_answered() && pod_fates.pods().len() == 1);
}

#[test]
fn the_numbers() {
    let pod_fates = after(vec![
        vec![
            sent("a", Stage::Evicting),
            line("b", Some(Stage::Waiting)),
            sent("c", refused()),
            sent("d", Stage::Evicting),
        ],
        vec![sent("c", refused()), sent("d", Stage::Evicting)],
    ]);
    let counts = pod_fates.counts();
    assert_eq!(counts.to_string(), "1 deleted with grace 0, 1 gone, 1 refused, 1 unanswered, 0 stay");
    assert!(counts.may_run() && counts.is_incomplete());
    assert!(!Counts { gone: 1, stay: 1, ..Counts::default() }.may_run());
    assert!(!Counts { deleted: 1, stay: 1, ..Counts::default() }.is_incomplete());
}
