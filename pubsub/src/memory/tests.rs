use schemas::{DrainRequester, DrainStatus, NodeDrainStatus};

use super::*;
use crate::Change;

fn status(status: DrainStatus) -> NodeDrainStatus {
    NodeDrainStatus { status, requested_by: DrainRequester::None }
}

#[tokio::test]
async fn a_board_is_followed_as_a_folder_is() {
    let key = TopicKey::global();
    let board = Board::default();
    board.publish(&key, status(DrainStatus::Requested));
    let mut subscription = board.subscribe();
    assert_eq!(subscription.items().len(), 1);
    assert_eq!(subscription.next().await, Change::Created(key.clone(), status(DrainStatus::Requested)));
    assert_eq!(subscription.next().await, Change::Synced);
    board.publish(&key, status(DrainStatus::Starting));
    board.publish(&key, status(DrainStatus::Cordoned));
    assert_eq!(subscription.next().await, Change::Modified(key.clone(), status(DrainStatus::Cordoned)));
    subscription.changed().await;
    board.unpublish(&key);
    subscription.changed().await;
    assert!(subscription.items().is_empty());
    assert_eq!(subscription.next().await, Change::Deleted(key, status(DrainStatus::Cordoned)));
}

#[tokio::test(start_paused = true)]
async fn a_board_that_is_gone_changes_no_more() {
    let board = Board::<NodeDrainStatus>::default();
    let mut subscription = board.subscribe();
    assert_eq!(subscription.next().await, Change::Synced);
    drop(board);
    let waited = tokio::time::timeout(std::time::Duration::from_hours(1), subscription.next()).await;
    assert!(waited.is_err());
}
