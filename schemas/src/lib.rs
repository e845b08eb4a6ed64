//! What is said: topic types, what a value means to a reader, JSON Schemas and samples.
