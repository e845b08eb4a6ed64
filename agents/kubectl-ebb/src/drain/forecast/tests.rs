use drain::Reason;
use drain::diagnosis::{BlockedBy, Guard};
use drain::view::BudgetView;

use super::*;
use crate::drain::testing::{line, pod};

fn budget(name: &str) -> Blocked {
    let budget = BudgetView { namespace: "shop".into(), name: name.into(), ..BudgetView::default() };
    Blocked {
        pod: pod(name),
        budgets: vec![Guard { budget, ..Guard::default() }],
        by: BlockedBy::Budget,
        ..Blocked::default()
    }
}

fn refused(name: &str, reasons: &[Reason]) -> Line {
    Line { verdict: Verdict::Refuse, reasons: reasons.to_vec(), ..line(name, Some(Stage::Refused)) }
}

/// The last line of a plan, and the end of the sentence of kubectl's words about it.
#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn the_verdict_says_what_would_fail_and_what_would_permit_it() {
    let forecast = |change: &dyn Fn(&mut Forecast)| {
        let mut forecast = Forecast { node: "n".into(), ..Forecast::default() };
        change(&mut forecast);
        forecast
    };
    let leftover = |is_stuck| Leftover {
        volume: "pv-1".into(),
        obstacle: "it hangs".into(),
        is_stuck,
        ..Leftover::default()
    };
    let busy = |text: &str| Some(Stage::Paused { text: text.into(), next: drain::Moment::NEVER });
    for (forecast, expected, troubles) in [
        (forecast(&|_| {}), "would be drained", 0),
        (forecast(&|f| f.trial.leftovers = vec![leftover(false)]), "would be drained", 0),
        (forecast(&|f| f.trial.may_return = vec![pod("a")]), "would be drained", 0),
        (forecast(&|f| f.trial.leftovers = vec![leftover(true)]), "would fail: 1 attached volume", 1),
        (forecast(&|f| f.trial.blind = Some("no".into())), "would fail: volumes cannot be read", 1),
        (forecast(&|f| f.refused_cordon = Some("no".into())), "would fail: the cordon is refused", 1),
        (
            forecast(&|f| {
                f.trial.returning =
                    vec![Blocked { pod: pod("a"), by: BlockedBy::Recreated, ..Blocked::default() }];
            }),
            "would fail: 1 pod that comes back",
            1,
        ),
        (forecast(&|f| f.unseen = Some("no".into())), "would fail: its pods cannot be listed", 1),
        (
            forecast(&|f| f.trial.lines = vec![line("a", busy("no")), line("b", busy("no"))]),
            "would fail: 2 pods",
            1,
        ),
        (
            forecast(&|f| {
                f.trial.blocked = vec![budget("a"), budget("b"), budget("b")];
                f.trial.lines =
                    ["a", "b", "c"].map(|name| line(name, busy("no").filter(|_| name == "c"))).to_vec();
            }),
            "would fail: 2 budgets, 1 other pod",
            3,
        ),
        (
            forecast(&|f| {
                f.trial.lines = vec![
                    line("a", None),
                    refused("b", &[Reason::NoController, Reason::EmptyDir]),
                    refused("c", &[Reason::EmptyDir, Reason::DaemonSet]),
                ];
                f.trial.blocked = vec![budget("a"), Blocked { pod: pod("b"), ..Blocked::default() }];
            }),
            "would fail: 1 budget; add --delete-emptydir-data, --force, --ignore-daemonsets",
            2,
        ),
    ] {
        assert_eq!(forecast.verdict(), format!("node/n {expected}"));
        assert_eq!(forecast.troubles().len(), troubles, "{expected}: {:?}", forecast.troubles());
        assert_eq!(
            (forecast.goes(), forecast.failure().is_empty()),
            (troubles == 0, troubles == 0),
            "{expected}"
        );
    }
    let orphan = Reason::OrphanOfDaemonSet("x".into());
    let forecast = forecast(&|f| {
        f.permits = Permits::Settings;
        f.trial.lines = vec![refused("a", std::slice::from_ref(&orphan))];
        f.trial.blocked = vec![Blocked { pod: pod("a"), ..Blocked::default() }];
    });
    assert_eq!(forecast.verdict(), "node/n would fail: set pods.force = true");
}
