//! Requests in, drain, status out.
