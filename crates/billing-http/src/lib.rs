#![forbid(unsafe_code)]
//! The web service: JSON over HTTP in front of `billing-domain` and a store. It translates and decides nothing.
//!
//! | module | what is in it |
//! |---|---|
//! | [`routes`] | every call, in one table; [`endpoint`] says what a row is, [`openapi`] describes the table |
//! | `metric`, `plan`, `customer`, ... | one resource each: bodies, views, handlers |
//! | [`wire`] | what a JSON value must look like to become a domain value, and back |
//! | `body`, [`json`], [`query`], `path` | bodies, query strings and ids in paths, made safe to read |
//! | [`error`] | every failure as one shape of answer, every code in one table |
//! | [`caller`], [`auth`] | who is calling, and the check that every route but the public ones goes through |
//! | [`unknown_field`] | fields and parameters that a call does not know, refused or named |
//! | [`idempotency`] | requests that are sent twice and take effect once |
//! | [`app`], [`backend`] | what handlers have: a store, and a bounded way to block on it |
//! | [`server`], [`worker`], [`middleware`], [`tls`] | the running service and what surrounds a request |
//! | [`console`] | pages for people, over the calls of the API: sessions, signing in, what `billing-console` renders |
//! | [`openid`] | signing in with an OpenID provider: its settings, and the conversation with it |
//! | [`docs`] | the interactive description, and an example of every call |
//! | [`taxes`] | tax providers that are asked over HTTP |
//! | [`telemetry`] | what the service counts about itself |
//! | [`cli`], [`settings`], [`startup`], [`import`] | the command line, configuration, start-up, back-filling of events |

mod access_token;
mod addon;
mod alert_run;
pub mod answer;
mod api_key;
pub mod app;
mod approval;
mod approval_view;
mod audit;
pub mod auth;
pub mod backend;
mod billing_queue;
pub mod billing_run;
pub mod body;
mod books_audit;
mod books_audit_run;
pub mod caller;
pub mod cli;
pub mod client_address;
mod clock_turns;
mod compress;
pub mod connections;
pub mod console;
mod correction_preview;
mod credit;
mod credit_note;
mod currency;
mod customer;
mod decimal_form;
pub mod delivery;
pub mod demo;
mod deprecated_access;
pub mod docs;
pub mod endpoint;
pub mod error;
mod event;
mod event_correction;
mod event_receipt;
mod event_selection;
mod event_tails;
mod feature;
mod feature_access;
mod feed;
mod feed_signals;
pub mod first_link;
mod health;
pub mod idempotency;
pub mod import;
mod invoice;
mod job;
mod job_run;
pub mod json;
mod key_uses;
pub mod lanes;
pub mod list;
mod listen;
pub mod message;
mod metric;
mod metric_access;
mod metric_preview;
pub mod middleware;
mod needed_scope;
mod noted_call;
pub mod openapi;
pub mod openid;
mod operation_id;
mod organization;
mod overview;
pub mod password;
mod path;
mod ping;
mod places;
mod plan;
pub mod query;
mod request_id;
pub mod routes;
mod secret;
pub mod server;
pub mod server_settings;
pub mod settings;
mod slots;
pub mod startup;
mod subscription;
mod subscription_preview;
pub mod taxes;
pub mod telemetry;
mod test_clock;
pub mod tls;
mod track;
pub mod unknown_field;
mod unread;
mod usage;
mod usage_alert;
mod usage_alert_view;
mod user;
mod usual_time;
mod verify_idems;
mod webhook;
mod webhook_view;
pub mod wire;
pub mod worker;
mod zone;

pub use backend::Backend;
pub use server::{RunningServer, Server};
pub use server_settings::ServerSettings;
