//! Every decision of the device around a drain, pure: requests and answers, attempts, membership, returning.
