//! Volumes that are not known yet, or cannot be known: no pod with a claim leaves before they are known, the drain
//! reports what it waits for, and it ends in either case.
//!
//! Only on the fake: in the real server, lists and reads of a single kind cannot be made to slow down, hang or fail.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cluster::drainer::Drain;
use contract::objects::Kubelet;
use contract::{Asked, Target};
use drain::Outcome;
use drain::progress::attempt;
use drain::state::Failure;
use fake_cluster::{Controller, Effect, FakeCluster, Fault, Reply};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::disks::Disks;
use crate::outages::FAKE_ONLY;
use crate::scene::{LONG, PASSING, Scene, end, is_detaching, patient, says, turn, until, until_relisted};

/// Number of claims elsewhere in the cluster.
const ELSEWHERE: usize = 48_000;

/// Limit of the growth of this process's memory, in KiB. Their names alone would take over 20 MiB, with the fake's pages.
const MOST_MEMORY: u64 = 10 * 1024;

/// Kinds that have to be known before a pod with a claim may leave.
const NEEDED: [&str; 3] = ["persistentvolumeclaims", "persistentvolumes", "volumeattachments"];

/// A pod with a volume that cannot be detached until the case says so.
struct WithVolume<'a> {
    scene: Scene<'a>,
    fake: &'a FakeCluster,
    volume: String,
}

impl<'a> WithVolume<'a> {
    async fn new(target: &'a Target) -> Result<Self> {
        let scene = Scene::new(target, "unknown").await?;
        let disks = Disks::new(&scene.place).await?;
        let volume = disks.pod_with_disk("a", Kubelet::Quick).await?;
        disks.hold(&volume, &scene.place.node).await?;
        Ok(Self { scene, fake: target.as_fake().context(FAKE_ONLY)?, volume })
    }

    /// Applies this effect to all lists and reads of this kind from now on.
    fn fails(&self, verb: &str, resource: &str, effect: Effect) {
        self.scene.fails(self.fake, Fault::on(verb, resource, effect).always());
    }

    /// Begins a drain, and lets enough time pass for a relist to be due because the watches have shown nothing.
    async fn after_a_while(&self) -> Result<Drain> {
        let mut drain = self.scene.drain(patient());
        until(&mut drain, "it has begun", |drain| drain.record().map(drop)).await?;
        turn(LONG);
        drain.next().await.context("it has ended")?;
        Ok(drain)
    }

    /// Checks that the pod was not evicted.
    async fn nothing_is_sent(&self) -> Result<()> {
        assert_eq!(self.scene.sent("create", "pods/eviction")?, 0);
        assert!(self.scene.is_untouched("a").await?);
        Ok(())
    }

    /// Checks that the pod leaves, that the drain waits for its volume, and that the node is drained then.
    async fn is_drained_when_detached(&self, mut drain: Drain) -> Result<()> {
        let is_left = |drain: &Drain| is_detaching(drain, &self.volume).then_some(());
        until_relisted(&mut drain, "the volume is left", is_left).await?;
        assert_eq!(drain.ended(), None);
        Disks::of(&self.scene.place).release(&self.volume, &self.scene.place.node).await?;
        let outcome = until_relisted(&mut drain, "it ends", |drain| drain.ended().cloned()).await??;
        assert_eq!(outcome, Outcome::Drained);
        Ok(())
    }

    /// The engine's requests before the eviction.
    fn asked_before_the_eviction(&self) -> Result<Vec<Asked>> {
        let asked = self.scene.client.asked()?;
        let is_eviction = |asked: &Asked| asked.resource == "pods/eviction";
        let sent = asked.iter().position(is_eviction).context("no eviction was sent")?;
        Ok(asked.into_iter().take(sent).collect())
    }
}

fn busy() -> Effect {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "ServiceUnavailable", "code": 503,
        "message": "the server is currently unable to handle the request",
    });
    Effect::Answer(Reply::json(503, &status))
}

fn count(asked: &[Asked], verb: &str, resource: &str) -> usize {
    asked.iter().filter(|asked| (asked.verb.as_str(), asked.resource.as_str()) == (verb, resource)).count()
}

/// True if a relist has failed.
fn is_in_vain(drain: &Drain) -> bool {
    attempt(drain.state()).is_some_and(|attempt| attempt.relist_error().is_some())
}

/// Memory of this process in KiB: `VmRSS` now, `VmHWM` the peak since [`forget_the_peak`].
fn memory(field: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).context("no such line")?;
    Ok(line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?)
}

fn forget_the_peak() -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "it is no file, so nothing has to last")]
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

fn make_claims_elsewhere(fake: &FakeCluster) -> Result<()> {
    // This controller would create a volume for each claim.
    fake.faults().pause(Controller::VolumeBinder);
    for number in 0..ELSEWHERE {
        fake.apply(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": format!("claim-{number:05}"), "namespace": "elsewhere",
                "annotations": {"example.org/description": "x".repeat(500)},
            },
            "spec": {"volumeName": format!("volume-{number:05}")},
        }))?;
    }
    Ok(())
}

/// A big healthy cluster, in which the pod's claim cannot be read at first. The other claims are never read.
pub(crate) async fn a_pod_with_a_claim_waits_until_its_claim_is_read(target: &Target) -> Result<()> {
    let with = WithVolume::new(target).await?;
    make_claims_elsewhere(with.fake)?;
    let (gate, is_open) = watch::channel(false);
    with.fails("get", "persistentvolumeclaims", Effect::Until(is_open));
    let before = memory("VmRSS")?;
    forget_the_peak()?;

    let drain = with.after_a_while().await?;
    says(&drain, "the watches have not shown the node, its pods and their volumes yet")?;
    with.nothing_is_sent().await?;
    gate.send_replace(true);
    with.is_drained_when_detached(drain).await?;

    let asked = with.asked_before_the_eviction()?;
    let known = [("get", NEEDED[0]), ("get", NEEDED[1]), ("list", NEEDED[2])];
    assert!(known.iter().all(|(verb, resource)| count(&asked, verb, resource) > 0), "{asked:?}");
    for resource in &NEEDED[..2] {
        assert_eq!(count(&asked, "list", resource) + count(&asked, "watch", resource), 0, "{resource}");
    }
    let more = memory("VmHWM")?.saturating_sub(before);
    // Without nextest, other tests run in this process and use its memory.
    if std::env::var_os("NEXTEST").is_some() {
        assert!(more < MOST_MEMORY, "{more} KiB more than {before}");
    }
    Ok(())
}

/// An unknown driver counts as one that attaches: the drain waits for its volumes, and for nothing else because of it.
pub(crate) async fn a_driver_that_cannot_be_read_hides_no_volume(target: &Target) -> Result<()> {
    let with = WithVolume::new(target).await?;
    with.fails("get", "csidrivers", busy());
    let mut drain = with.scene.drain(patient());
    until(&mut drain, "the volume is left", |drain| is_detaching(drain, &with.volume).then_some(())).await?;
    with.is_drained_when_detached(drain).await?;
    assert!(count(&with.asked_before_the_eviction()?, "get", "csidrivers") > 0);
    Ok(())
}

/// Each of the three kinds fails for good: the attempt fails after half an hour, long before its own deadline, and
/// reports why.
pub(crate) async fn a_drain_that_can_never_know_volumes_fails_and_says_why(target: &Target) -> Result<()> {
    for resource in NEEDED {
        let with = WithVolume::new(target).await?;
        for verb in ["list", "get"] {
            with.fails(verb, resource, busy());
        }
        let mut drain = with.after_a_while().await?;
        until(&mut drain, "a relist fails", |drain| is_in_vain(drain).then_some(())).await?;
        turn(Duration::from_mins(29));
        assert!(timeout(PASSING, end(&mut drain)).await.is_err(), "not yet");
        turn(Duration::from_mins(1));
        let outcome = end(&mut drain).await?;
        let Outcome::Failed(Failure::Unproven(why)) = &outcome else { bail!("{resource}: {outcome:?}") };
        ensure!(why.contains(resource) && why.contains("currently unable"), "{resource}: {why}");
        with.nothing_is_sent().await.context(resource)?;
    }
    Ok(())
}
