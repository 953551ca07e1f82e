#![forbid(unsafe_code)]
//! Calls that the service makes to addresses that others have named.
//!
//! Whoever may name an address must not reach through it what only this machine reaches: the database, the metadata of a cloud, a
//! neighbour's service. [`Client`] therefore resolves a name itself, once, lets only [public addresses](refusal_of) through, and
//! connects to exactly those. A [`Session`] does so for many calls to one destination. It follows no redirect, asks no proxy, and ends in time whatever the other side does.
//!
//! What it sends is signed as the [Standard Webhooks](https://www.standardwebhooks.com) specification says: see [`Secret`].

mod address;
mod client;
mod destination;
mod session;
mod signature;
mod whole_requests;

pub use address::refusal_of;
pub use client::{ANSWER_BYTES_MAX, Answer, Client, Failure, Lookup, SystemLookup, TIMEOUT};
pub use destination::{BadDestination, DESTINATION_CHARACTERS_MAX, Destination, Reach};
pub use session::Session;
pub use signature::{BadSecret, Message, SIGNATURE_AGE_MAX_SECONDS, Secret, SignedHeaders, WrongSignature};
