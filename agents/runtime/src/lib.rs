//! What every agent needs: settings, clock, signals, logs, liveness, and asking for a drain.
