//! The classes of faults, and when their faults happen.

use std::time::Duration;

use system::Fault;

use crate::random::Random;

/// The agents, by their verbs.
pub(crate) const AGENTS: [&str; 4] = ["zedkube", "device-op", "nodeagent", "baseos"];

/// A class of faults. All faults of a round are of one class, so that a table can show which ones are survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// No fault: shows whether the rounds themselves are right.
    Nothing,
    /// An agent is killed and started again.
    Kill(&'static str),
    /// For a while all connections to the API server break, also new ones.
    ServerStopped,
    /// For a while the server, or a proxy in front of it, answers with errors.
    ServerAnswers(u16),
    /// Another node has the only slot, zedkube is killed, and the server goes away meanwhile.
    AnotherHolder,
    /// The device boots, with an empty `run` as after a real boot.
    Boot,
    /// The device boots and `run` is kept, as with a soft reboot or a `run` on a disk.
    BootWithRun,
    /// For a while `persist` is read-only. This needs a mount namespace of its own.
    PersistReadOnly,
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strike {
    Kill(&'static str),
    Start(&'static str),
    Cut,
    Mend,
    Answer(Fault),
    AnswerWell,
    OtherRenews(u32),
    OtherLetsGo,
    Boot { keeps_run: bool },
    ReadOnly(bool),
}

impl Class {
    pub(crate) const ALL: [Self; 14] = [
        Self::Nothing,
        Self::Kill(AGENTS[0]),
        Self::Kill(AGENTS[1]),
        Self::Kill(AGENTS[2]),
        Self::Kill(AGENTS[3]),
        Self::ServerStopped,
        Self::ServerAnswers(403),
        Self::ServerAnswers(404),
        Self::ServerAnswers(429),
        Self::ServerAnswers(503),
        Self::AnotherHolder,
        Self::Boot,
        Self::BootWithRun,
        Self::PersistReadOnly,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Kill(agent) => format!("kill-{agent}"),
            Self::ServerStopped => "server-stopped".to_owned(),
            Self::ServerAnswers(code) => format!("server-{code}"),
            Self::AnotherHolder => "another-holder".to_owned(),
            Self::Boot => "boot".to_owned(),
            Self::BootWithRun => "boot-with-run".to_owned(),
            Self::PersistReadOnly => "persist-read-only".to_owned(),
        }
    }

    /// True if this class can run here: mounts are made only where no other process can see them, see `scripts/rounds`.
    pub(crate) fn is_possible(self) -> bool {
        self != Self::PersistReadOnly || std::env::var_os("EBB_ROUNDS_MOUNTS").is_some()
    }

    /// Settings that this class needs in addition to the usual ones.
    pub(crate) fn settings(self) -> &'static [&'static str] {
        match self {
            // A zedkube that forgets the other holder goes down after 2 s; one that remembers it waits for 60 s.
            Self::AnotherHolder => &["api.unreachable-timeout=2s", "slots.down-max=60s"],
            Self::Nothing
            | Self::Kill(_)
            | Self::ServerStopped
            | Self::ServerAnswers(_)
            | Self::Boot
            | Self::BootWithRun
            | Self::PersistReadOnly => &[],
        }
    }

    /// The faults of this round and their times, counted from its first command, in order.
    pub(crate) fn strikes(self, random: &mut Random) -> Vec<(Duration, Strike)> {
        let mut strikes = Vec::new();
        match self {
            Self::Nothing => {}
            Self::Kill(agent) => {
                let mut at = random.time(0, 2_500);
                for _ in 0..=random.below(3) {
                    strikes.push((at, Strike::Kill(agent)));
                    at += if random.once_in(2) { Duration::ZERO } else { random.time(0, 1_500) };
                    strikes.push((at, Strike::Start(agent)));
                    at += random.time(50, 2_000);
                }
            }
            Self::ServerStopped => {
                windows(random, 6_000, |from, to, _| {
                    strikes.extend([(from, Strike::Cut), (to, Strike::Mend)]);
                });
            }
            Self::ServerAnswers(code) => windows(random, 4_000, |from, to, random| {
                let percent = random.one_of(&[30, 60, 100]).unwrap_or(100);
                // A 403 in a Status comes only from the server itself; a 404 for an existing object comes from a proxy.
                let is_plain = code == 404 || random.once_in(2);
                strikes.push((from, Strike::Answer(Fault { code, percent, is_plain })));
                strikes.push((to, Strike::AnswerWell));
            }),
            Self::AnotherHolder => {
                strikes.push((Duration::ZERO, Strike::OtherRenews(1)));
                let cut = random.time(300, 3_000);
                let mend = cut + random.time(2_500, 7_000);
                strikes.extend([(cut, Strike::Cut), (mend, Strike::Mend)]);
                if random.once_in(2) {
                    let kill = random.time(0, 6_000);
                    strikes.push((kill, Strike::Kill(AGENTS[0])));
                    strikes.push((kill + random.time(0, 1_000), Strike::Start(AGENTS[0])));
                }
                if random.once_in(3) {
                    strikes.push((random.time(0, 6_000), Strike::Boot { keeps_run: random.once_in(2) }));
                }
                strikes.push((mend + random.time(100, 1_500), Strike::OtherLetsGo));
            }
            Self::Boot | Self::BootWithRun => {
                let mut at = random.time(0, 2_500);
                for _ in 0..=random.below(2) {
                    strikes.push((at, Strike::Boot { keeps_run: self == Self::BootWithRun }));
                    at += random.time(200, 2_500);
                }
            }
            Self::PersistReadOnly => windows(random, 4_000, |from, to, _| {
                strikes.extend([(from, Strike::ReadOnly(true)), (to, Strike::ReadOnly(false))]);
            }),
        }
        strikes.sort_by_key(|(at, _)| *at);
        strikes
    }
}

/// One to three time windows that do not overlap, each up to `longest` milliseconds long.
fn windows(random: &mut Random, longest: u64, mut each: impl FnMut(Duration, Duration, &mut Random)) {
    let mut at = random.time(0, 2_000);
    for _ in 0..=random.below(3) {
        let end = at + random.time(200, longest);
        each(at, end, random);
        at = end + random.time(100, 1_500);
    }
}
