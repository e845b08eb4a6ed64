//! Carries out reboots, shutdowns and poweroffs, and says whether a drain is in progress.
