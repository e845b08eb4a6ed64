//! What is not known of volumes yet, or cannot be known: no pod with a claim leaves before it is, the drain says in words
//! what it waits for, and ends in one way or the other.
//!
//! Only on the fake: no part of the real server's API slows down, hangs or fails for lists and reads of one kind only.

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
use tokio::time::timeout;

use crate::disks::Disks;
use crate::outages::FAKE_ONLY;
use crate::scene::{LONG, PASSING, Scene, end, is_detaching, patient, says, turn, until, until_looked};

/// Claims elsewhere in the cluster: 96 pages.
const ELSEWHERE: usize = 48_000;

/// KiB by which the memory of this process may grow: of each of those claims the engine keeps the names (27 MiB with the
/// fake's pages). The claims as they are would be over 70 MiB.
const MOST_MEMORY: u64 = 50 * 1024;

/// What has to be known before a pod with a claim may leave.
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

    /// From now on this is what becomes of all lists and reads of this kind.
    fn fails(&self, verb: &str, resource: &str, effect: Effect) {
        self.scene.fails(self.fake, Fault::on(verb, resource, effect).always());
    }

    /// Begins a drain, and lets so much time pass that it asks for a fresh look if the watches have shown nothing.
    async fn after_a_while(&self) -> Result<Drain> {
        let mut drain = self.scene.drain(patient());
        until(&mut drain, "it has begun", |drain| drain.record().map(drop)).await?;
        turn(LONG);
        drain.next().await.context("it has ended")?;
        Ok(drain)
    }

    /// Nobody has told the pod to go.
    async fn nothing_is_sent(&self) -> Result<()> {
        assert_eq!(self.scene.sent("create", "pods/eviction")?, 0);
        assert!(self.scene.is_untouched("a").await?);
        Ok(())
    }

    /// The pod leaves, its volume is waited for, and then the node is drained.
    async fn is_drained_when_detached(&self, mut drain: Drain) -> Result<()> {
        let is_left = |drain: &Drain| is_detaching(drain, &self.volume).then_some(());
        until_looked(&mut drain, "the volume is left", is_left).await?;
        assert_eq!(drain.ended(), None);
        Disks::of(&self.scene.place).release(&self.volume, &self.scene.place.node).await?;
        let outcome = until_looked(&mut drain, "it ends", |drain| drain.ended().cloned()).await??;
        assert_eq!(outcome, Outcome::Drained);
        Ok(())
    }

    /// What the engine had asked for when it sent the eviction.
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

/// A fresh look has told nothing.
fn is_in_vain(drain: &Drain) -> bool {
    attempt(drain.state()).is_some_and(|attempt| attempt.relist_error().is_some())
}

/// KiB of memory of this process: `VmRSS` now, `VmHWM` the most since [`forget_the_peak`].
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
    // It would make a volume for each.
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

/// A big healthy cluster: the list of claims takes longer than a drain waits without a look, and the look does not get at
/// the claims either.
pub(crate) async fn a_pod_with_a_claim_waits_for_a_long_list_of_claims(target: &Target) -> Result<()> {
    let with = WithVolume::new(target).await?;
    make_claims_elsewhere(with.fake)?;
    with.fails("list", "persistentvolumeclaims", Effect::Delay(Duration::from_millis(20)));
    with.fails("get", "persistentvolumeclaims", busy());
    let before = memory("VmRSS")?;
    forget_the_peak()?;

    let mut drain = with.after_a_while().await?;
    says(&drain, "the watches have not shown the node, its pods and their volumes yet")?;
    until(&mut drain, "a look is in vain", |drain| is_in_vain(drain).then_some(())).await?;
    says(
        &drain,
        "a fresh look at the node told nothing, and is tried again: cannot get persistentvolumeclaims",
    )?;
    with.nothing_is_sent().await?;
    assert!(with.scene.sent("list", "persistentvolumeclaims")? < ELSEWHERE / 500, "they are on their way");
    with.is_drained_when_detached(drain).await?;

    let asked = with.asked_before_the_eviction()?;
    assert!(count(&asked, "list", "persistentvolumeclaims") >= ELSEWHERE / 500, "the whole list came first");
    let more = memory("VmHWM")?.saturating_sub(before);
    // Else other tests run in this process.
    if std::env::var_os("NEXTEST").is_some() {
        assert!(more < MOST_MEMORY, "{more} KiB more than {before}");
    }
    Ok(())
}

/// The server takes the request for the list and says nothing, but each claim can be read by its name.
pub(crate) async fn claims_that_are_never_listed_are_read_by_name(target: &Target) -> Result<()> {
    let with = WithVolume::new(target).await?;
    with.fails("list", "persistentvolumeclaims", Effect::Hang);
    let drain = with.after_a_while().await?;
    says(&drain, "the watches have not shown the node, its pods and their volumes yet")?;
    with.nothing_is_sent().await?;
    with.is_drained_when_detached(drain).await?;
    let asked = with.asked_before_the_eviction()?;
    let known = [("get", NEEDED[0]), ("get", NEEDED[1]), ("list", NEEDED[2])];
    assert!(known.iter().all(|(verb, resource)| count(&asked, verb, resource) > 0), "{asked:?}");
    Ok(())
}

/// A driver that is not known counts as one that attaches: its volumes are waited for, and it holds nothing else up.
pub(crate) async fn drivers_that_are_never_listed_hide_no_volume(target: &Target) -> Result<()> {
    let with = WithVolume::new(target).await?;
    for verb in ["list", "get"] {
        with.fails(verb, "csidrivers", busy());
    }
    let mut drain = with.scene.drain(patient());
    let is_said = |drain: &Drain| {
        (is_detaching(drain, &with.volume) && says(drain, "cannot list csidrivers").is_ok()).then_some(())
    };
    until(&mut drain, "the volume is left, and it is said what is not known", is_said).await?;
    with.is_drained_when_detached(drain).await?;
    let asked = with.asked_before_the_eviction()?;
    assert!(NEEDED.iter().all(|resource| count(&asked, "list", resource) > 0), "{asked:?}");
    Ok(())
}

/// Each of the three that have to be known, for a while.
pub(crate) async fn a_pod_with_a_claim_waits_until_its_volumes_can_be_known(target: &Target) -> Result<()> {
    for resource in NEEDED {
        let with = WithVolume::new(target).await?;
        for verb in ["list", "get"] {
            with.fails(verb, resource, busy());
        }
        let mut drain = with.after_a_while().await?;
        until(&mut drain, "a look is in vain", |drain| is_in_vain(drain).then_some(())).await?;
        says(&drain, resource)?;
        with.nothing_is_sent().await.context(resource)?;
        with.fake.faults().clear();
        with.is_drained_when_detached(drain).await.context(resource)?;
    }
    Ok(())
}

/// Each of the three, for good: the attempt fails after half an hour, far before its own deadline, and says why.
pub(crate) async fn a_drain_that_can_never_know_volumes_fails_and_says_why(target: &Target) -> Result<()> {
    for resource in NEEDED {
        let with = WithVolume::new(target).await?;
        for verb in ["list", "get"] {
            with.fails(verb, resource, busy());
        }
        let mut drain = with.after_a_while().await?;
        until(&mut drain, "a look is in vain", |drain| is_in_vain(drain).then_some(())).await?;
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
