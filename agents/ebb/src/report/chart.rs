//! What the page shows on its time axis: a row of bars for the phases, for the outages of the API server, for each
//! volume and each pod, and marks through all of them.

use std::collections::BTreeMap;

use schemas::{DrainEvent, DrainLine, HeldBy, NOT_DRAINED, Outcome};

use super::scale::Quiet;
use crate::history::Elapsed;
use crate::history::words::{pod_words, volume_words};

/// What a bar means. Its look is in the style of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A pod that has to leave, or a phase in which the drain waits.
    Waiting,
    /// A pod whose eviction is refused.
    Blocked,
    /// A pod that ends.
    Terminating,
    /// A pod that ends by itself.
    EndsAlone,
    /// A pod that is not evicted, or is left behind.
    NotEvicted,
    /// A pod that has left, or a volume that is detached.
    Gone,
    /// A pod that does not have to leave any more.
    Stays,
    /// A phase in which the node is being emptied.
    Works,
    /// The node is drained.
    Drained,
    /// The drain has failed, or the device may go down without it.
    Undrained,
    /// The way back.
    Back,
    /// The API server does not answer.
    Away,
    /// A volume that is being detached.
    Detaching,
    /// A volume that takes too long.
    Late,
}

impl Kind {
    /// A bar of a pod that does not leave.
    pub(super) const fn is_held(self) -> bool {
        matches!(self, Self::Blocked | Self::NotEvicted)
    }

    fn of_pod(stage: &str) -> Self {
        match stage {
            "Blocked" => Self::Blocked,
            "Accepted" | "Terminating" => Self::Terminating,
            "Awaiting" => Self::EndsAlone,
            "Refused" | "Failed" | "LeftBehind" => Self::NotEvicted,
            "Gone" => Self::Gone,
            "Stays" => Self::Stays,
            _ => Self::Waiting,
        }
    }

    fn of_phase(phase: &str, outcome: Option<Outcome>) -> Self {
        match phase {
            "Complete" if outcome == Some(Outcome::Drained) => Self::Drained,
            "Complete" | "Failed" => Self::Undrained,
            "Cordoning" | "Attempting" => Self::Works,
            "Returning" => Self::Back,
            _ => Self::Waiting,
        }
    }
}

/// A time in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar<'a> {
    /// What it means.
    pub(super) kind: Kind,
    /// The same in words.
    pub(super) words: &'a str,
    /// What holds it, or another reason; empty if none is known.
    pub(super) why: &'a str,
    /// It begins, in milliseconds since the drain began.
    pub(super) from: u64,
    /// It ends.
    pub(super) to: u64,
}

impl Bar<'_> {
    /// How long it is.
    pub(super) fn millis(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// A row of bars, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Row<'a> {
    /// The pod, or the volume.
    pub(super) name: &'a str,
    /// Its controller, or the pod that used it; empty if none is known.
    pub(super) of: &'a str,
    /// The bars.
    pub(super) bars: Vec<Bar<'a>>,
    /// The last bar goes on.
    is_open: bool,
}

impl<'a> Row<'a> {
    /// The last bar ends, and another one begins, unless it says the same.
    fn next(&mut self, bar: Bar<'a>) {
        if let Some(last) = self.bars.last_mut().filter(|_| self.is_open) {
            let is_same = last.kind == bar.kind && last.words == bar.words;
            if is_same && (last.why == bar.why || last.why.is_empty() || bar.why.is_empty()) {
                if last.why.is_empty() {
                    last.why = bar.why;
                }
                return;
            }
        }
        self.close(bar.from);
        // What took no time was nothing.
        self.bars.pop_if(|last| last.to <= last.from);
        self.bars.push(bar);
        self.is_open = true;
    }

    /// The last bar ends.
    fn close(&mut self, at: u64) {
        if let Some(last) = self.bars.last_mut().filter(|_| self.is_open) {
            last.to = at;
        }
        self.is_open = false;
    }

    /// The same goes on after a boot.
    fn reopen(&mut self, at: u64) {
        if let Some(last) = self.bars.last().copied() {
            self.next(Bar { from: at, to: at, ..last });
        }
    }

    /// How long bars of a kind are together.
    pub(super) fn millis(&self, is_it: impl Fn(Kind) -> bool) -> u64 {
        self.bars.iter().filter(|bar| is_it(bar.kind)).map(Bar::millis).sum()
    }

    /// When the pod has left, or the volume was detached; `None` if not yet.
    pub(super) fn gone_at(&self) -> Option<u64> {
        self.bars.last().filter(|bar| bar.kind == Kind::Gone).map(|bar| bar.from)
    }

    /// Each cause for which the pod did not leave, and for how long, longest first.
    pub(super) fn causes(&self) -> Vec<(u64, &'a str)> {
        let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
        for bar in self.bars.iter().filter(|bar| bar.kind.is_held()) {
            let why = if bar.why.is_empty() { bar.words } else { bar.why };
            *causes.entry(why).or_default() += bar.millis();
        }
        let mut causes: Vec<(u64, &str)> = causes.into_iter().map(|(why, millis)| (millis, why)).collect();
        causes.sort_by_key(|(millis, _)| std::cmp::Reverse(*millis));
        causes
    }
}

/// A moment that is marked in all rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// When, in milliseconds since the drain began.
    pub(super) at: u64,
    /// What it is.
    pub(super) words: String,
}

/// What held the drain up.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    /// For how long; of several pods the one that was held longest.
    pub(super) millis: u64,
    /// The cause.
    pub(super) why: &'a str,
    /// The pod that was held longest for that; empty if it was no pod.
    pub(super) pod: &'a str,
    /// Number of other pods that were held for that.
    pub(super) others: usize,
}

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Chart<'a> {
    /// Time of the last line, in milliseconds since the drain began.
    pub(super) end: u64,
    /// The phases of the drain.
    pub(super) phases: Row<'a>,
    /// Outages of the API server.
    pub(super) api: Row<'a>,
    /// The volumes.
    pub(super) volumes: Vec<Row<'a>>,
    /// The pods, those that were held longest first, then those that left last.
    pub(super) pods: Vec<Row<'a>>,
    /// Attempts, boots and restarts of zedkube.
    pub(super) marks: Vec<Mark>,
    /// Times in which nothing happens.
    pub(super) quiet: Vec<Quiet>,
    /// What held the drain up, longest first.
    pub(super) holds: Vec<Hold<'a>>,
}

/// What is needed while the lines are passed.
#[derive(Default)]
struct Drawing<'a> {
    chart: Chart<'a>,
    pods: BTreeMap<&'a str, Row<'a>>,
    volumes: BTreeMap<&'a str, Row<'a>>,
    /// UIDs of the pods that nobody has asked to leave since the drain was over.
    left_alone: Vec<&'a str>,
    /// The phase at the present line.
    phase: &'a str,
    quiet_since: u64,
    /// What keeps the phase from going on, why, and since when.
    held_by: Option<(HeldBy, &'a str, u64)>,
    holds: BTreeMap<String, Hold<'a>>,
}

impl<'a> Chart<'a> {
    /// The rows of these lines.
    pub(super) fn of(lines: &'a [DrainLine]) -> Self {
        let mut drawing = Drawing::default();
        let mut passing = Elapsed::default();
        for line in lines {
            let before = drawing.chart.end;
            drawing.chart.end = passing.pass(line);
            drawing.quiet(&line.event);
            drawing.add(&line.event, before);
        }
        drawing.finish()
    }
}

impl<'a> Drawing<'a> {
    /// Notes the time before this line if nothing happened in it, and nobody was at work.
    fn quiet(&mut self, event: &DrainEvent) {
        let is_down = matches!(event, DrainEvent::Booted { .. });
        if let DrainEvent::Phase { phase, .. } = event
            && phase == self.phase
        {
            return;
        }
        let to = self.chart.end;
        let is_work = matches!(self.phase, "Cordoning" | "Attempting" | "Pausing");
        if (is_down || !is_work) && self.quiet_since < to {
            self.chart.quiet.push(Quiet { from: self.quiet_since, to, is_down });
        }
        self.quiet_since = to;
    }

    fn add(&mut self, event: &'a DrainEvent, before: u64) {
        let at = self.chart.end;
        let mut mark = |words: String| self.chart.marks.push(Mark { at, words });
        match event {
            DrainEvent::Booted { .. } => {
                mark("boot".to_owned());
                self.boot(before);
            }
            DrainEvent::Restarted => mark("zedkube restarts".to_owned()),
            DrainEvent::Attempt { number, .. } => mark(format!("attempt {number}")),
            DrainEvent::Phase { .. } => self.phase(event),
            DrainEvent::Pod { .. } => self.pod(event),
            DrainEvent::Volume { .. } => self.volume(event),
            DrainEvent::ApiAway { .. } => {
                let words = "the API server does not answer";
                self.chart.api.next(Bar { kind: Kind::Away, words, why: "", from: at, to: at });
            }
            DrainEvent::ApiBack => self.chart.api.close(at),
            DrainEvent::Ended { .. } => {
                self.chart.phases.close(at);
                self.hold(None);
            }
            DrainEvent::Began { .. }
            | DrainEvent::Asked { .. }
            | DrainEvent::Withdrawn { .. }
            | DrainEvent::Answered { .. }
            | DrainEvent::AttemptEnded { .. }
            | DrainEvent::Ordered { .. }
            | DrainEvent::Operation { .. }
            | DrainEvent::Node { .. }
            | DrainEvent::Slot { .. }
            | DrainEvent::LeftOut
            | DrainEvent::Unknown => {}
        }
    }

    /// The machine was down since the line before. Of the pods and volumes nobody knows what became of them.
    fn boot(&mut self, before: u64) {
        let (at, chart) = (self.chart.end, &mut self.chart);
        self.left_alone.clear();
        for row in self.pods.values_mut().chain(self.volumes.values_mut()) {
            row.close(before);
        }
        for row in [&mut chart.phases, &mut chart.api] {
            if row.is_open {
                row.close(before);
                row.reopen(at);
            }
        }
    }

    fn phase(&mut self, event: &'a DrainEvent) {
        let DrainEvent::Phase { phase, outcome, held_by, reason, .. } = event else { return };
        let at = self.chart.end;
        self.phase = phase;
        self.leave_alone(matches!(self.phase, "Complete" | "Failed" | "Returning" | "Idle"));
        // The pods say so themselves.
        let held_by = held_by.filter(|held_by| *held_by != HeldBy::Pods);
        self.hold(held_by.map(|held_by| (held_by, reason.as_str(), at)));
        if phase == "Idle" {
            self.chart.phases.close(at);
            return;
        }
        let kind = Kind::of_phase(phase, *outcome);
        let is_undrained = phase == "Complete" && kind == Kind::Undrained;
        let words = if is_undrained { NOT_DRAINED } else { phase };
        // The reason may change every few seconds: the story has all of them, and the bar the first.
        let why = self.chart.phases.bars.last().filter(|last| last.kind == kind && last.words == words);
        let why = why.map_or(reason.as_str(), |last| last.why);
        self.chart.phases.next(Bar { kind, words, why, from: at, to: at });
    }

    /// When the drain is over, the pods that are still there are held no more: they need not leave. If it goes on,
    /// they are what they were.
    fn leave_alone(&mut self, is_over: bool) {
        let at = self.chart.end;
        if is_over {
            let is_here = |last: &Bar| !matches!(last.kind, Kind::Gone | Kind::Stays);
            for (uid, row) in &mut self.pods {
                if row.is_open && row.bars.last().is_some_and(is_here) {
                    row.close(at);
                    self.left_alone.push(uid);
                }
            }
            return;
        }
        for uid in self.left_alone.drain(..) {
            if let Some(row) = self.pods.get_mut(uid).filter(|row| !row.is_open) {
                row.reopen(at);
            }
        }
    }

    /// What held the phase up does so no more, and maybe something else does now.
    fn hold(&mut self, next: Option<(HeldBy, &'a str, u64)>) {
        let Some((held_by, why, since)) = std::mem::replace(&mut self.held_by, next) else { return };
        let none = Hold { millis: 0, why, pod: "", others: 0 };
        let hold = self.holds.entry(format!("{held_by:?}")).or_insert(none);
        hold.millis = hold.millis.saturating_add(self.chart.end.saturating_sub(since));
        hold.why = why;
    }

    fn pod(&mut self, event: &'a DrainEvent) {
        let DrainEvent::Pod { pod, uid, owner, stage, detail, cause, .. } = event else { return };
        let (at, kind) = (self.chart.end, Kind::of_pod(stage));
        let row = self.pods.entry(uid.as_str()).or_default();
        (row.name, row.of) = (pod, owner);
        let why = if cause.is_empty() && kind.is_held() { detail } else { cause };
        // Whether it was asked already is in the story.
        let words = if kind == Kind::Waiting { pod_words("Waiting") } else { pod_words(stage) };
        row.next(Bar { kind, words, why, from: at, to: at });
    }

    fn volume(&mut self, event: &'a DrainEvent) {
        let DrainEvent::Volume { pv, pod, stage } = event else { return };
        let at = self.chart.end;
        let row = self.volumes.entry(pv.as_str()).or_default();
        (row.name, row.of) = (pv, pod);
        let kind = match stage.as_str() {
            "Done" => Kind::Gone,
            "DetachTimedOut" => Kind::Late,
            _ => Kind::Detaching,
        };
        row.next(Bar { kind, words: volume_words(stage), why: "", from: at, to: at });
    }

    fn finish(mut self) -> Chart<'a> {
        self.quiet(&DrainEvent::Unknown);
        self.hold(None);
        let mut chart = self.chart;
        chart.phases.close(chart.end);
        chart.api.close(chart.end);
        let closed = |rows: BTreeMap<&'a str, Row<'a>>| {
            let close = |mut row: Row<'a>| {
                row.close(chart.end);
                row
            };
            rows.into_values().map(close).collect::<Vec<_>>()
        };
        (chart.pods, chart.volumes) = (closed(self.pods), closed(self.volumes));
        let order = |row: &Row| {
            let left_at = row.gone_at().unwrap_or(u64::MAX);
            (std::cmp::Reverse((row.millis(Kind::is_held), left_at)), row.name.to_owned())
        };
        chart.pods.sort_by_cached_key(order);
        let of_pods = holds(&chart.pods);
        chart.holds = self.holds.into_values().chain(of_pods).collect();
        chart.holds.sort_by_key(|hold| std::cmp::Reverse(hold.millis));
        chart
    }
}

/// The causes for which pods did not leave.
fn holds<'a>(pods: &[Row<'a>]) -> Vec<Hold<'a>> {
    let mut holds: BTreeMap<&str, Hold> = BTreeMap::new();
    for row in pods {
        for (millis, why) in row.causes() {
            let Some(hold) = holds.get_mut(why) else {
                holds.insert(why, Hold { millis, why, pod: row.name, others: 0 });
                continue;
            };
            hold.others += 1;
            if hold.millis < millis {
                (hold.millis, hold.pod) = (millis, row.name);
            }
        }
    }
    holds.into_values().collect()
}
