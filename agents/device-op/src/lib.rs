//! Holds reboot, shutdown and poweroff back until the node is drained (EVE's zedagent).
