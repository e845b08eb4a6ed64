//! Holds the activation of a new image back until the node is drained (EVE's baseosmgr).
