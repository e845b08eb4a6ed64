//! Random walks: runs with more deviations than can be searched in full.

use stateright::Chooser;

use crate::action::Action;
use crate::search::Search;
use crate::world::World;

/// Chooses a deviation about once in `pause` steps.
#[derive(Clone, Debug)]
pub struct Wanderer {
    /// Average number of steps between two deviations.
    pub pause: u64,
}

impl Chooser<Search> for Wanderer {
    type State = u64;

    fn new_state(&self, seed: u64) -> u64 {
        seed
    }

    fn choose_initial_state(&self, _state: &mut u64, _initial_states: &[World]) -> usize {
        0
    }

    fn choose_action(&self, state: &mut u64, _world: &World, actions: &[Action]) -> usize {
        let deviates = actions.len() > 1 && draw(state).is_multiple_of(self.pause);
        if deviates {
            1 + usize::try_from(draw(state)).unwrap_or(usize::MAX) % (actions.len() - 1)
        } else {
            0
        }
    }
}

/// SplitMix64: the same seed gives the same walk on every machine and in every version.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
