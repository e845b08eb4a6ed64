//! Limits the evictions in flight under one budget over all drains of a command.
//!
//! `drain::step` limits them for one node. If many nodes are drained at a time, their evictions write the status of the
//! same budget; the API server repeats each write that conflicts in steps of 500 ms, until the request times out. With
//! 200 nodes under one budget, 600 evictions in flight evicted 14 pods in 4 minutes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use drain::policy::IN_FLIGHT_PER_BUDGET;
use drain::{Answer, BudgetView};
use tokio::sync::Semaphore;

/// Longest wait of an eviction for its turn. After that it is decided anew, because its pod may have been replaced
/// meanwhile: an eviction with an old UID uses up one disruption of the budget for two minutes.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The evictions in flight under each budget. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EvictionLimits(Arc<Mutex<BTreeMap<(String, String), Weak<Semaphore>>>>);

impl EvictionLimits {
    /// Carries an eviction out as soon as this budget takes one more; without a budget at once.
    pub(crate) async fn within(
        &self,
        budget: Option<&BudgetView>,
        evict: impl Future<Output = Answer>,
    ) -> Answer {
        let Some(budget) = budget else { return evict.await };
        let limit = self.of(budget);
        // The semaphore is never closed, so that an error means that the turn did not come.
        match tokio::time::timeout(LONGEST_WAIT, limit.acquire()).await {
            Ok(Ok(_turn)) => evict.await,
            Ok(Err(_)) | Err(_) => Answer::NotSent,
        }
    }

    fn of(&self, budget: &BudgetView) -> Arc<Semaphore> {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (budget.namespace.clone(), budget.name.clone());
        if let Some(limit) = limits.get(&key).and_then(Weak::upgrade) {
            return limit;
        }
        limits.retain(|_, limit| limit.strong_count() > 0);
        let limit = Arc::new(Semaphore::new(IN_FLIGHT_PER_BUDGET));
        limits.insert(key, Arc::downgrade(&limit));
        limit
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt;

    use super::*;

    fn budget(name: &str) -> BudgetView {
        BudgetView { namespace: "default".into(), name: name.into(), ..BudgetView::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_eviction_waits_for_others_of_its_budget_only_and_not_for_long() {
        let limits = EvictionLimits::default();
        let [web, db, cache] = ["web", "db", "cache"].map(budget);
        let mut hanging: Vec<_> =
            (0..IN_FLIGHT_PER_BUDGET).map(|_| limits.within(Some(&web), pending()).boxed()).collect();
        for eviction in &mut hanging {
            assert_eq!(eviction.now_or_never(), None);
        }
        let evict = async |budget| limits.within(budget, async { Answer::Accepted }).await;
        assert_eq!(evict(Some(&web)).await, Answer::NotSent);
        assert_eq!(evict(Some(&db)).await, Answer::Accepted);
        assert_eq!(evict(None).await, Answer::Accepted);
        hanging.pop();
        assert_eq!(evict(Some(&web)).await, Answer::Accepted);
        drop(hanging);
        assert_eq!(evict(Some(&cache)).await, Answer::Accepted);
        assert_eq!(limits.0.lock().unwrap().len(), 1, "budgets without an eviction are forgotten");
    }
}
