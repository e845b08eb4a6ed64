//! Volumes of pods that leave.
