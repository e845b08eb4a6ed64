//! State that the server, the controllers and the handle share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::faults::{Conditions, Cut};
use crate::requests::Log;
use crate::settings::Settings;
use crate::store::Store;
use crate::write::Context;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) log: Log,
    /// Wakes controllers when something other than an object has changed.
    pub(crate) wakes: watch::Sender<()>,
    /// The last cut of watches.
    pub(crate) cuts: watch::Sender<Cut>,
    /// Cancelled when the cluster ends.
    pub(crate) stop: CancellationToken,
    store: Mutex<Store>,
    conditions: Mutex<Conditions>,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            clock: Clock::start(settings.clock_ahead),
            log: Log::default(),
            wakes: watch::Sender::new(()),
            cuts: watch::Sender::new(Cut::default()),
            stop: CancellationToken::new(),
            store: Mutex::new(Store::new(settings.watch_history, settings.max_objects)),
            conditions: Mutex::new(Conditions::default()),
            settings,
        }
    }

    /// The objects. Never hold the guard over an await. It may be locked before [`conditions`](Self::conditions), never
    /// after.
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        // A panic in a test's closure must not break the cluster: each change is complete or absent.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults that are switched on.
    pub(crate) fn conditions(&self) -> MutexGuard<'_, Conditions> {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn context(&self) -> Context {
        Context::at(self.clock.now())
    }

    pub(crate) fn wake(&self) {
        self.wakes.send_replace(());
    }

    pub(crate) fn cut(&self, cut: Cut) {
        self.cuts.send_replace(cut);
    }
}
