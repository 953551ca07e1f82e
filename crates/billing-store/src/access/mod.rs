//! May this customer use this metric now? The pure decision is run against the caches; where they miss something, everything it
//! could need is read in one statement, and it is run again.

pub(crate) mod answer_from_cache;
pub(crate) mod prefetch;
pub(crate) mod question;
pub(crate) mod subscription_cache;
