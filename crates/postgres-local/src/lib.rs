#![forbid(unsafe_code)]
//! A private Postgres server out of plain installed binaries, for a default run and for tests.
//!
//! ```no_run
//! let folder = postgres_local::default_data_dir("my-application");
//! let cluster = postgres_local::Cluster::persistent(&folder)?;
//! cluster.create_database_if_absent("main")?;
//! let url = cluster.url("main"); // For any libpq client, as long as `cluster` lives.
//! # Ok::<(), postgres_local::Error>(())
//! ```
//!
//! What holds for every cluster:
//!
//! - It listens on one Unix socket in a folder that only the application's user and the server's user can enter, and
//!   never on TCP. Hence it needs no password.
//! - It never outlives the application, however that ends: a small shell watches a pipe that only the application holds
//!   (see [`Cluster`]). What a power cut leaves behind is cleaned up by the next start.
//! - Ctrl-C reaches the application only, so it can drain before its database stops.
//! - Run as root, the server is given to an unprivileged account, because Postgres refuses root.
//!
//! | module | what is in it |
//! |---|---|
//! | `binaries`, `install` | where a server is looked for, and how one is installed |
//! | `account` | whom the server runs as, and what that account may enter |
//! | `cluster`, `run_folder`, `lock` | the life of a cluster, its folders, and who may use them |
//! | `server`, `pid_file` | the running process and the traces an earlier one left |
//! | `watch` | a server that died is started again |
//! | `settings` | what makes a cluster durable, or fast and throw-away |
//! | `wire` | one SQL statement without a client library |
//! | [`testing`], `image` | one cluster per test process, one database per test |

mod account;
mod binaries;
mod cluster;
mod error;
mod image;
mod install;
mod lock;
mod pid_file;
mod run_folder;
mod server;
mod settings;
pub mod testing;
#[cfg(test)]
mod tests;
mod watch;
mod wire;

pub use cluster::{Cluster, default_data_dir, running_url};
pub use error::Error;
pub use install::install_postgres;
pub use run_folder::free_bytes;
