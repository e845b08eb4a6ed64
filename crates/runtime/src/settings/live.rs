//! Settings that follow their files and the controller while an agent runs.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use pubsub::{PathWatch, Persistence, Root, Subscription, TopicKey};
use schemas::{ConfigItemValueMap, agent};
use tokio::sync::watch;

use super::fragment::watched_paths;
use super::keys::Settings;
use super::load::{Loaded, load};
use super::problem::Problem;
use crate::flags::AgentFlags;

/// A change takes effect when two snapshots at this interval agree on it: an editor that empties a file before it
/// fills it, or a person's `echo >`, must not put the defaults into effect in between.
const SETTLE: Duration = Duration::from_secs(1);
/// Limit for the number of snapshots, because a file that is written all the time must not keep the old settings for
/// ever.
const MOST_LOOKS: usize = 10;

/// The settings of an agent, always those in effect. Each clone follows on its own.
#[derive(Clone, Debug)]
pub struct SettingsWatch(watch::Receiver<Arc<Loaded>>);

impl SettingsWatch {
    /// Settings that never change: for tests, and for commands that end soon.
    pub fn fixed(loaded: Loaded) -> Self {
        Self(watch::channel(Arc::new(loaded)).1)
    }

    /// Loads the settings and follows them; ends with the last clone. Call it in a tokio runtime.
    pub(crate) fn start(root: Root, flags: AgentFlags) -> Self {
        let mut sources = Sources::open(root, flags);
        let first = load(&sources.root, &sources.flags, sources.map());
        let first = Loaded { refused: sources.controller.refused(), ..first };
        log_problems(&first.problems, &[]);
        let (sender, receiver) = watch::channel(Arc::new(first));
        tokio::spawn(async move {
            tokio::select! {
                () = sources.follow(&sender) => {}
                () = sender.closed() => {}
            }
        });
        Self(receiver)
    }

    /// The settings in effect. Read them again for each decision, attempt or action, as `docs/settings.md` says for
    /// the setting.
    pub fn current(&self) -> Arc<Settings> {
        Arc::clone(&self.0.borrow().settings)
    }

    /// The settings in effect with origins and problems.
    pub fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.0.borrow())
    }

    /// Returns when settings, origins or problems have changed since the last return. Can be dropped and called
    /// again.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

/// The layers that can change.
struct Sources {
    root: Root,
    flags: AgentFlags,
    files: PathWatch,
    controller: Subscription<ConfigItemValueMap>,
}

impl Sources {
    fn open(root: Root, flags: AgentFlags) -> Self {
        let files = PathWatch::new(watched_paths(&root, &flags));
        let controller = Subscription::follow(&root, agent::ZEDAGENT, Persistence::Volatile);
        Self { root, flags, files, controller }
    }

    fn map(&self) -> Option<&ConfigItemValueMap> {
        self.controller.get(&TopicKey::global())
    }

    async fn follow(&mut self, sender: &watch::Sender<Arc<Loaded>>) {
        loop {
            tokio::select! {
                () = self.files.changed() => {}
                () = self.controller.changed() => {}
            }
            let before = Arc::clone(&sender.borrow());
            let after = self.settled(&before).await;
            if after != *before {
                log_changes(&before, &after);
                sender.send_replace(Arc::new(after));
            }
        }
    }

    fn look(&self, before: &Loaded) -> Loaded {
        let refused = self.controller.refused();
        Loaded { refused, ..before.reload(&self.root, &self.flags, self.map()) }
    }

    /// The settings on which two snapshots agree.
    async fn settled(&self, before: &Loaded) -> Loaded {
        let mut last = self.look(before);
        for _ in 0..MOST_LOOKS {
            if last == *before {
                break;
            }
            tokio::time::sleep(SETTLE).await;
            let next = self.look(before);
            if next == last {
                break;
            }
            last = next;
        }
        last
    }
}

fn log_changes(before: &Loaded, after: &Loaded) {
    for (old, new) in before.shown().iter().zip(after.shown()) {
        if old.value != new.value {
            tracing::info!(
                "setting {} = {} ({}), was {} ({})",
                new.key,
                new.value,
                new.origin,
                old.value,
                old.origin
            );
        }
    }
    if before.settings.policy.drain.rules != after.settings.policy.drain.rules {
        let rules = after.shown_rules();
        tracing::info!("the rules for single pods have changed, there are {} now", rules.len());
        for rule in rules {
            tracing::info!("rule {rule}");
        }
    }
    for key in &after.after_restart {
        tracing::warn!("setting {key} has changed; the new value counts after a restart of this agent");
    }
    log_problems(&after.problems, &before.problems);
}

/// Logs the new problems; the old ones were logged before.
fn log_problems(problems: &[Problem], logged: &[Problem]) {
    for problem in problems.iter().filter(|problem| !logged.contains(problem)) {
        tracing::warn!("settings: {problem}");
    }
}

#[cfg(test)]
mod tests;
