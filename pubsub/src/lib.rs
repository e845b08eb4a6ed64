//! How it is said: EVE's files and sockets, durable and level-triggered.
