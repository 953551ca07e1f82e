//! The service as a client sees it: real HTTP, a real Postgres, one database for each test.
//!
//! | folder | what its tests hold |
//! |---|---|
//! | `resources` | what each noun of the interface does: its fields, its calls, its amounts |
//! | `rules` | what holds for every call, and what is refused |
//! | `console` | that the pages for people show what they should, to whom they should, and nothing is done by a page of somebody else |
//! | `durability` | that the books stay right under races, faults and kills, over whole lives of customers |
//! | `docs` | that the service is what it says of itself |
//!
//! Beside them: `support` (a service on an empty database, and its client), `samples` (a valid request for every
//! route), `receiver` (somebody on this machine whom messages are sent to), `seen` (which codes the answers of all tests had).

mod console;
mod docs;
mod durability;
mod receiver;
mod resources;
mod rules;
mod samples;
mod seen;
mod support;
