//! A complete store in memory.
