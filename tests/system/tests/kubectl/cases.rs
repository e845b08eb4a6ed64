//! Compares both programs on every node with every set of flags.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, ensure};
use control_plane::objects;

use crate::differences::{Difference, between};
use crate::flags;
use crate::said::{Program, Said};
use crate::scene::Scene;

/// Number of runs at a time: they wait for the API server more than they compute.
const AT_A_TIME: usize = 4;

#[test]
fn both_programs_name_the_same_pods() -> Result<()> {
    let scene = Scene::new()?;
    let before = scene.pods()?;
    ensure!(before.len() >= 200, "{} pods", before.len());

    let sets = flags::sets();
    let mut cases: Vec<Vec<&str>> = Vec::new();
    for node in &scene.pool.nodes {
        cases.extend(sets.iter().map(|flags| [&[node.as_str()], &flags[..]].concat()));
    }
    let every_node = format!("--selector={}={}", objects::POOL, scene.pool.name);
    cases.push(vec![&every_node, "--force", "--ignore-daemonsets"]);
    let verdicts = compare(&scene, &cases)?;

    // Only now the answers count: they were about the same pods, and changed nothing.
    assert_eq!(scene.pods()?, before);
    assert_eq!(scene.cordoned_nodes()?, Vec::<String>::new());
    let wrong: Vec<&String> = verdicts.iter().filter_map(|verdict| verdict.defect.as_ref()).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} cases differ, among them:\n{}",
        wrong.len(),
        cases.len(),
        wrong.iter().take(5).map(|text| text.as_str()).collect::<Vec<_>>().join("\n")
    );
    says_enough(&verdicts);
    Ok(())
}

/// The result of one case.
struct Verdict {
    kubectl: Said,
    difference: Option<Difference>,
    defect: Option<String>,
}

fn compare(scene: &Scene, cases: &[Vec<&str>]) -> Result<Vec<Verdict>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut verdicts = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            verdicts.push(judge(scene, case)?);
        }
        Ok(verdicts)
    };
    let results: Vec<Result<Vec<Verdict>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let verdicts: Result<Vec<_>> = results.into_iter().collect();
    Ok(verdicts?.into_iter().flatten().collect())
}

fn judge(scene: &Scene, case: &[&str]) -> Result<Verdict> {
    let kubeconfig = scene.plane.kubeconfig();
    let (kubectl, theirs) = Program::Kubectl.drain(&scene.plane, kubeconfig, case)?;
    let (ebb, ours) = Program::Ebb.drain(&scene.plane, kubeconfig, case)?;
    let difference = if kubectl == ebb { None } else { between(&kubectl, &ebb) };
    let defect = kubectl != ebb && difference.is_none();
    let text = format!("drain --dry-run=client {}\n-- kubectl: {theirs}\n-- ebb: {ours}", case.join(" "));
    Ok(Verdict { kubectl, difference, defect: defect.then_some(text) })
}

/// Checks that some nodes refuse and some do not; otherwise the comparison would show nothing.
fn says_enough(verdicts: &[Verdict]) {
    let count = |of: &dyn Fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| of(verdict)).count();
    let failed = count(&|verdict| verdict.kubectl.code != Some(0));
    let evicting = count(&|verdict| verdict.kubectl.evicted.len() > 2);
    let refusing = count(&|verdict| verdict.kubectl.refused.len() > 1);
    let total = verdicts.len();
    assert!(
        failed * 4 > total && evicting * 4 > total && refusing * 8 > total,
        "{failed} {evicting} {refusing}"
    );
    let evicted: BTreeSet<&String> = verdicts.iter().flat_map(|verdict| &verdict.kubectl.evicted).collect();
    let refused: BTreeSet<&String> =
        verdicts.iter().flat_map(|verdict| verdict.kubectl.refused.keys()).collect();
    assert!(evicted.len() > 150 && refused.len() > 50, "{} {}", evicted.len(), refused.len());
    // The only wanted difference appears, but not everywhere.
    let forgiven = count(&|verdict| verdict.difference.is_some());
    assert!((1..total / 4).contains(&forgiven), "{forgiven} of {total}");
}
