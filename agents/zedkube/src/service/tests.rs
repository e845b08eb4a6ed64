//! Tests of the main loop on real files, beside an API server in memory.

use std::fs;
use std::path::PathBuf;

use cluster::node_commands::{AnswerState, CommandAnswer, NodeCommand};
use fake_cluster::{Effect, FakeCluster, Fault, Settings};
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::Agent;
use runtime::flags::{AgentFlags, Assignment};
use schemas::{
    DeviceOpsCmd, DrainEvent, DrainLine, DrainStatus, KnownHolders, NodeDrainReport, OtherHolders, OwnCordon,
    Topic, UncommandedNode, agent,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// Limit that only a failure reaches.
const TOO_LONG: Duration = Duration::from_mins(5);

/// A device below a folder, in a cluster of two nodes.
struct Device {
    fake: FakeCluster,
    folder: TempDir,
}

impl Device {
    /// In boot `boot-1`, as node `edge-a`.
    fn new() -> Self {
        let fake = FakeCluster::start_with(Settings::quick()).unwrap();
        fake.node("edge-a").unwrap();
        fake.node("edge-b").unwrap();
        let device = Self { fake, folder: tempfile::tempdir().unwrap() };
        device.write("kubeconfig", &device.fake.kubeconfig());
        device.begin_boot("boot-1");
        device
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        fs::write(path, text).unwrap();
    }

    /// The kubelet tells the cluster this boot of `edge-a`; `/run` is empty.
    fn begin_boot(&self, boot_id: &str) {
        self.write("proc/sys/kernel/random/boot_id", boot_id);
        if self.path("run").exists() {
            fs::remove_dir_all(self.path("run")).unwrap();
        }
        self.fake
            .edit("nodes", "", "edge-a", |node| node["status"]["nodeInfo"] = json!({"bootID": boot_id}))
            .unwrap();
    }

    /// A zedkube that looks for its Node under this name.
    async fn zedkube(&self, node: &str) -> Service {
        let flags = AgentFlags {
            root: self.folder.path().to_owned(),
            kubeconfig: Some(self.path("kubeconfig")).filter(|path| path.exists()),
            node: Some(node.to_owned()),
            set: vec![Assignment { key: "health.timeout".to_owned(), value: "1s".to_owned() }],
            ..AgentFlags::default()
        };
        let agent = Agent::start(agent::ZEDKUBE, &flags).await.unwrap();
        Service::start(agent.context()).unwrap()
    }

    /// device-op asks for a drain.
    fn ask(&self) {
        let request = r#"{"RequestedAt":"2026-11-23T12:00:00Z","RequestedBy":2,"Context":"reboot"}"#;
        self.write("run/zedagent/NodeDrainRequest/global.json", request);
    }

    fn withdraw(&self) {
        fs::remove_file(self.path("run/zedagent/NodeDrainRequest/global.json")).unwrap();
    }

    fn root(&self) -> Root {
        Root::new(self.folder.path())
    }

    fn report(&self) -> NodeDrainReport {
        item(&self.root(), Persistence::Volatile).unwrap_or_default()
    }

    /// The node in `OwnCordon`, which is kept over a boot.
    fn remembered(&self) -> Option<String> {
        item::<OwnCordon>(&self.root(), Persistence::Persistent).map(|cordon| cordon.node)
    }

    /// Writes an annotation of the Node, or removes it.
    fn annotate(&self, key: &str, text: Option<&str>) {
        let change = |node: &mut Value| node["metadata"]["annotations"][key] = json!(text);
        self.fake.edit("nodes", "", "edge-a", change).unwrap();
    }

    /// The command file of zedkube: counter, and whether the operation is wanted.
    fn commanded(&self, operation: &str) -> Option<(u32, bool)> {
        let key = TopicKey::parse(operation).unwrap();
        let file = read_item::<DeviceOpsCmd>(&self.root(), agent::ZEDKUBE, Persistence::Volatile, &key);
        file.ok().flatten().map(|file| (file.counter, file.desired_state))
    }

    /// What the Node says of a command.
    fn answer(&self) -> Option<CommandAnswer> {
        let node = self.fake.get("nodes", "", "edge-a").unwrap();
        let text = node["metadata"]["annotations"]["ebb.dev/state"].as_str()?;
        serde_json::from_str(text).ok()
    }

    fn is_cordoned(&self) -> bool {
        self.fake.get("nodes", "", "edge-a").unwrap()["spec"].get("unschedulable") == Some(&Value::Bool(true))
    }
}

fn item<T: Topic>(root: &Root, persistence: Persistence) -> Option<T> {
    read_item(root, agent::ZEDKUBE, persistence, &TopicKey::global()).ok().flatten()
}

/// Runs zedkube's loop until this is so.
#[track_caller]
fn run_until(service: &mut Service, is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let root = service.context.root().clone();
        let wait = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let is_late = tokio::select! {
            end = service.run(Stop::new()) => panic!("{caller}: zedkube ended: {end:?}"),
            result = tokio::time::timeout(TOO_LONG, wait) => result.is_err(),
        };
        let report: Option<NodeDrainReport> = item(&root, Persistence::Volatile);
        assert!(!is_late, "{caller}: it never came to that: {report:?}");
    }
}

/// Renamed host, changed machine ID, lost label: after the boot the cluster does not know our node any more.
#[tokio::test]
async fn a_cordon_is_remembered_over_a_boot_until_it_is_given_back() {
    let device = Device::new();
    let mut zedkube = device.zedkube("edge-a").await;
    device.ask();
    run_until(&mut zedkube, || device.remembered().is_some() && device.is_cordoned()).await;
    assert_eq!(device.remembered().as_deref(), Some("edge-a"));
    drop(zedkube);

    device.begin_boot("boot-2");
    let mut zedkube = device.zedkube("edge-x").await;
    let told = "our cordon or slot may still be on node edge-a, and nobody takes it back";
    run_until(&mut zedkube, || device.report().reason.starts_with(told)).await;
    assert!(device.report().hint.contains("ebb uncordon --force edge-a"), "{}", device.report().hint);
    assert_eq!(device.remembered().as_deref(), Some("edge-a"));
    drop(zedkube);

    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || !device.is_cordoned() && device.remembered().is_none()).await;
    run_until(&mut zedkube, || device.report().reason.starts_with("nobody asks for a drain")).await;
}

/// One file has it all.
#[tokio::test]
async fn a_drain_is_written_down_over_the_boot_until_the_node_is_back() {
    let device = Device::new();
    device.fake.pod("web", "edge-a").unwrap();
    let folder = runtime::drain_history::folder(&device.root());
    let events = || {
        let files = runtime::drain_history::list(&folder).unwrap();
        assert!(files.len() <= 1, "{files:?}");
        let lines = files.first().map(|file| runtime::drain_history::read(&folder, file).unwrap());
        let name = |line: &DrainLine| {
            if let DrainEvent::Pod { stage, .. } = &line.event {
                return format!("Pod{stage}");
            }
            if let DrainEvent::Phase { phase, .. } = &line.event {
                return phase.clone();
            }
            if let DrainEvent::Node { cordoned, .. } = &line.event {
                return format!("Node{cordoned}");
            }
            format!("{:?}", line.event).split([' ', '{']).next().unwrap().to_owned()
        };
        lines.unwrap_or_default().iter().map(name).collect::<Vec<_>>()
    };
    let has = |event: &str| events().iter().any(|had| had == event);

    let mut zedkube = device.zedkube("edge-a").await;
    device.ask();
    run_until(&mut zedkube, || has("Answered")).await;
    drop(zedkube);
    device.begin_boot("boot-2");
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || has("Ended")).await;
    zedkube.finish().await;

    let events = events();
    let mut rest = events.iter();
    for expected in [
        "Began",
        "Asked",
        "Cordoning",
        "Nodetrue",
        "Attempt",
        "PodGone",
        "Complete",
        "Answered",
        "Booted",
        "Withdrawn",
        "Returning",
        "Nodefalse",
        "Ended",
    ] {
        assert!(rest.any(|event| event == expected), "{expected} in {events:?}");
    }
    assert_eq!(events.iter().filter(|event| *event == "Answered").count(), 1, "{events:?}");
}

#[tokio::test]
async fn the_program_of_the_site_gets_each_new_status_with_its_report_also_what_a_restart_brings() {
    let device = Device::new();
    device.fake.pod("web", "edge-a").unwrap();
    let folder = device.folder.path().display();
    let words = "$EBB_NODE $EBB_STATUS $EBB_REQUESTED_BY $EBB_OUTCOME $EBB_REASON";
    let script = format!("cat > {folder}/report; echo \"{words}\" >> {folder}/told");
    device.write("etc/ebb/ebb.toml", &format!("notify.command = {}\n", json!(["sh", "-c", script])));
    let told = || fs::read_to_string(device.path("told")).unwrap_or_default();
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || device.report().reason.starts_with("nobody asks for a drain")).await;
    device.ask();
    run_until(&mut zedkube, || told().contains("COMPLETE")).await;
    let report = device.report();
    let expected = format!("edge-a COMPLETE DEVICEOP Drained {}\n", report.reason);
    assert!(told().ends_with(&expected), "{}", told());
    let text = fs::read_to_string(device.path("report")).unwrap();
    let input: NodeDrainReport = serde_json::from_str(&text).unwrap();
    assert_eq!((input.requests, input.outcome), (report.requests, report.outcome));

    drop(zedkube);
    device.withdraw();
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || told().contains("NOTREQUESTED")).await;
    assert_eq!(told().matches("COMPLETE").count(), 1, "{}", told());
}

/// Another cluster's kubeconfig in mid-drain, with a Node of the same name that nothing runs on.
#[tokio::test]
async fn a_drain_is_finished_in_the_cluster_in_which_it_began() {
    let device = Device::new();
    device.fake.pod("web", "edge-a").unwrap();
    device.fake.budget("web", fake_cluster::Limit::MaxUnavailable("0")).unwrap();
    let mut zedkube = device.zedkube("edge-a").await;
    device.ask();
    run_until(&mut zedkube, || device.report().reason.starts_with("attempt 1: 0 of 1")).await;

    let other = Device::new();
    device.write("kubeconfig", &other.fake.kubeconfig());
    // Nothing is seen of the other cluster but which one it is; also after a restart, which closes the old connections.
    let asked = || other.fake.requests().recent().len();
    run_until(&mut zedkube, || asked() > 0).await;
    drop(zedkube);
    let before = asked();
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || asked() > before).await;
    run_until(&mut zedkube, || device.report().reason.contains("the kubeconfig leads to another cluster"))
        .await;
    let changes = |fake: &FakeCluster| {
        let requests = fake.requests().recent().into_iter();
        requests.filter(|request| matches!(request.verb.as_str(), "patch" | "create" | "delete")).count()
    };
    assert_eq!(changes(&other.fake), 0);
    assert!(device.report().requests.iter().all(|request| request.outcome.is_none()));

    // The request is withdrawn. The next one is drained for in the new cluster.
    device.withdraw();
    let told = "our cordon or slot may still be on node edge-a of another cluster";
    run_until(&mut zedkube, || device.report().reason.starts_with(told)).await;
    device.ask();
    run_until(&mut zedkube, || device.report().requests.iter().any(|request| request.outcome.is_some()))
        .await;
    assert!(changes(&other.fake) > 0);
    device.withdraw();
    run_until(&mut zedkube, || device.report().reason.starts_with(told)).await;

    // A person forgets it: `ebb slots forget`.
    let name = TopicKey::global().file_name();
    let folder = device.root().topic::<OwnCordon>(agent::ZEDKUBE, Persistence::Persistent).folder();
    pubsub::store::remove_durably(&folder, &name).unwrap();
    run_until(&mut zedkube, || device.report().reason.starts_with("nobody asks for a drain")).await;
    assert_eq!(device.remembered(), None);
}

/// A worker of k3s: nobody has given zedkube a kubeconfig yet, and the device must not go down as one without a cluster.
#[tokio::test]
async fn a_kubelet_at_home_is_seen_while_there_is_no_kubeconfig() {
    let device = Device::new();
    fs::remove_file(device.path("kubeconfig")).unwrap();
    device.write("etc/systemd/system/multi-user.target.wants/k3s-agent.service", "");
    let facts = device.zedkube("edge-a").await.facts();
    assert_eq!((facts.has_kubeconfig, facts.has_kubelet), (false, true));
}

/// While the API server is away, what zedkube knows of other nodes' slots decides how long the device waits.
#[tokio::test]
async fn whether_other_nodes_had_a_slot_is_known_after_a_boot() {
    let device = Device::new();
    let mark = json!({"ebb.dev/cordoned-by": session::OWNER});
    device.fake.edit("nodes", "", "edge-b", |node| node["metadata"]["annotations"] = mark.clone()).unwrap();
    let mut zedkube = device.zedkube("edge-a").await;
    let stored = || item::<KnownHolders>(&device.root(), Persistence::Persistent);
    run_until(&mut zedkube, || stored().is_some_and(|stored| stored.others == OtherHolders::Hold)).await;
    drop(zedkube);
    device.begin_boot("boot-2");
    assert_eq!(device.zedkube("edge-a").await.state.slots.others, OtherHolders::Hold);
}

#[tokio::test]
async fn an_order_from_before_the_boot_is_refused() {
    let device = Device::new();
    let file = "persist/kube-status/force-NodeDrainStatus-global.json";
    device.write(file, r#"{"Status":9,"RequestedBy":2}"#);
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || device.report().refused.iter().any(|line| line.reason.contains("left over")))
        .await;
    assert!(device.path(&format!("{file}.refused")).exists());
}

#[tokio::test]
async fn settings_are_taken_while_the_record_cannot_be_written() {
    let device = Device::new();
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || device.report().reason.starts_with("nobody asks for a drain")).await;
    // Nothing can be written where the folder of the record was.
    let folder = device.path("run/zedkube/DrainRecord");
    fs::remove_dir_all(&folder).unwrap();
    fs::File::create(&folder).unwrap();
    device.ask();
    let is_held = || device.report().reason.contains("cannot write its DrainRecord");
    run_until(&mut zedkube, is_held).await;

    let refused = || device.report().refused.into_iter().map(|refused| refused.reason).collect::<String>();
    device.write("etc/ebb/ebb.toml", "no-peer = \"wiat\"\n");
    run_until(&mut zedkube, || refused().contains("no-peer = \"wiat\" is not accepted")).await;
    device.write("etc/ebb/ebb.toml", "[drain]\nattempts = 7\n");
    run_until(&mut zedkube, || refused().is_empty()).await;
    assert_eq!(zedkube.policy.attempts, 7);
    assert!(is_held() && zedkube.record_again.is_some() && !device.is_cordoned());
}

/// Commands of the cluster count only if a text is new on a Node that was seen without one, and each change of the answer is
/// one write. The test plays device-op.
#[tokio::test]
async fn the_cluster_commands_by_annotations_and_is_answered_there() {
    let device = Device::new();
    let is = |command, state| {
        device.answer().is_some_and(|answer| (answer.command, answer.state) == (command, state))
    };
    let record = |counter: u32| {
        device.write("persist/status/cluster/rebootConfig", &format!("{{\"Counter\":{counter}}}"));
    };

    // The shutdown stands already when the device first sees its Node.
    device.annotate("ebb.dev/shutdown", Some("old"));
    device.write("etc/ebb/ebb.toml", "commands.from-cluster = true\n");
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || is(NodeCommand::Shutdown, AnswerState::Recorded)).await;
    run_until(&mut zedkube, || device.commanded("reboot").is_some()).await;
    let (first, is_wanted) = device.commanded("reboot").unwrap();
    assert!(!is_wanted && device.commanded("shutdown").is_some_and(|(_, is_wanted)| !is_wanted));
    device.annotate("ebb.dev/shutdown", None);
    run_until(&mut zedkube, || device.answer().is_none()).await;

    // device-op has to know a counter before the first command.
    device.annotate("ebb.dev/reboot", Some("now"));
    run_until(&mut zedkube, || is(NodeCommand::Reboot, AnswerState::Waiting)).await;
    assert_eq!(device.commanded("reboot"), Some((first, false)));
    record(first);
    run_until(&mut zedkube, || device.commanded("reboot").is_some_and(|(_, is_wanted)| is_wanted)).await;
    let (counter, _) = device.commanded("reboot").unwrap();
    let silent = "device-op on the device has not taken";
    run_until(&mut zedkube, || device.answer().is_some_and(|answer| answer.reason.starts_with(silent))).await;
    assert_eq!(device.answer().unwrap().counter, counter);

    // The device goes down for it; /run is empty after the boot, and device-op says that it is done.
    record(counter);
    drop(zedkube);
    device.begin_boot("boot-2");
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || device.commanded("reboot") == Some((counter, true))).await;
    let line = json!({"Source": "Cluster", "Operation": "reboot", "Counter": counter, "State": "Done"});
    let status = json!({"BootId": "boot-2", "Commands": [line]});
    device.write("run/zedagent/DeviceOpStatus/global.json", &status.to_string());
    run_until(&mut zedkube, || is(NodeCommand::Reboot, AnswerState::Done)).await;

    let requests = device.fake.requests().recent().into_iter();
    // The preflight's tries change nothing.
    let writes = requests.filter(|request| request.verb == "patch" && !request.query.contains("dryRun"));
    let writes: Vec<_> = writes.map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect();
    assert_eq!(writes.len(), 5, "Recorded, none, Waiting for two reasons, Done: {writes:#?}");

    // Taken back, and given again with the text that is done: that is no new command, also not after a time switched off.
    device.annotate("ebb.dev/reboot", None);
    run_until(&mut zedkube, || {
        device.commanded("reboot") == Some((counter, false)) && device.answer().is_none()
    })
    .await;
    device.write("etc/ebb/ebb.toml", "");
    let kept = || item::<UncommandedNode>(&device.root(), Persistence::Persistent);
    run_until(&mut zedkube, || kept().is_none()).await;
    device.annotate("ebb.dev/reboot", Some("later"));
    run_until(&mut zedkube, || is(NodeCommand::Reboot, AnswerState::Recorded)).await;
    device.write("etc/ebb/ebb.toml", "commands.from-cluster = true\n");
    run_until(&mut zedkube, || kept().is_some()).await;
    assert_eq!(device.commanded("reboot").map(|(_, is_wanted)| is_wanted), Some(false));
}

/// After a boot the cordon of the boot before stays: nothing comes to a node in whose machine somebody works.
#[tokio::test]
async fn a_drain_that_the_cluster_commands_stands_over_a_boot_until_it_is_taken_back() {
    let device = Device::new();
    device.write("etc/ebb/ebb.toml", "commands.from-cluster = true\n");
    let mut zedkube = device.zedkube("edge-a").await;
    let kept = || item::<UncommandedNode>(&device.root(), Persistence::Persistent);
    run_until(&mut zedkube, || kept().is_some()).await;
    device.annotate("ebb.dev/drain", Some("a new fan"));
    let is_drained = || {
        let request = device.report().requests.into_iter().find(|line| line.publisher == agent::ZEDKUBE);
        request.is_some_and(|line| (line.answer, &*line.context) == (DrainStatus::Complete, "a new fan"))
    };
    let is_told = || device.answer().is_some_and(|answer| answer.state == AnswerState::Drained);
    run_until(&mut zedkube, || is_drained() && is_told() && device.is_cordoned()).await;
    drop(zedkube);

    device.begin_boot("boot-2");
    let mut zedkube = device.zedkube("edge-a").await;
    run_until(&mut zedkube, || is_drained() && is_told()).await;
    let requests = device.fake.requests().recent();
    let uncordons = requests.iter().filter(|request| {
        request.verb == "patch" && String::from_utf8_lossy(&request.body).contains(r#""unschedulable":null"#)
    });
    assert_eq!((uncordons.count(), device.is_cordoned()), (0, true));

    device.annotate("ebb.dev/drain", None);
    run_until(&mut zedkube, || !device.is_cordoned() && device.answer().is_none()).await;
}

/// A call without an end cannot be made here, because each has a deadline of 10 s: so zedkube's limit is shorter.
#[tokio::test]
async fn zedkube_ends_at_most_once_because_of_a_call_that_hangs() {
    let device = Device::new();
    device.fake.faults().add(Fault::on("list", "nodes", Effect::Hang).always());
    // The request makes the loop turn after the limit.
    let ask_later = async || {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        device.ask();
    };
    let mut zedkube = device.zedkube("edge-a").await;
    zedkube.hangs_after = Duration::ZERO;
    let run = tokio::time::timeout(TOO_LONG, zedkube.run(Stop::new()));
    let (end, ()) = tokio::join!(run, ask_later());
    let hanging = end.expect("zedkube ends").unwrap_err().to_string();
    assert!(hanging.starts_with("the list of nodes has not answered for 0 min"), "{hanging}");
    drop(zedkube);

    let request = device.path("run/zedagent/NodeDrainRequest/global.json");
    fs::remove_file(request).unwrap();
    let mut zedkube = device.zedkube("edge-a").await;
    zedkube.hangs_after = Duration::ZERO;
    let told = || device.report().reason.contains("zedkube was restarted for that less than 30 min ago");
    tokio::join!(run_until(&mut zedkube, told), ask_later());
}
