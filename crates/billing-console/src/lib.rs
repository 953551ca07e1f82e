#![forbid(unsafe_code)]
//! The console: pages for people in finance, support and engineering, rendered on the server.
//!
//! It is a client of the API and of nothing else. Whatever a page shows or does goes through [`Api`], which the service
//! answers inside its own process by the very handlers that answer HTTP: so there is no second truth, no SQL and no rule
//! here, and what a key cannot do a page cannot do either.
//!
//! | module | what is in it |
//! |---|---|
//! | [`api`] | what a page asks of the service, and how that fails |
//! | [`route`] | every page and action, in one table: path, who may, what renders it |
//! | [`permission`] | which calls of the API each role may make: the second wall behind the table |
//! | [`visit`] | one request: who looks, which part of the path and which fields came with it |
//! | [`page`] | the pages, one file each |
//! | [`form`] | forms: fields with their labels, and what is put into them as the API takes it |
//! | [`rows`] | forms with rows, which are added and taken away without a script |
//! | [`layout`] | what surrounds a page: head, navigation, search, and the pages of errors |
//! | [`show`] | amounts, instants and other values as people read them |
//! | [`zone`] | the time zone that somebody reads and writes instants in |
//! | [`text`] | every English text |
//! | [`csv`] | tables that spreadsheets open |
//! | [`asset`] | the style sheet, the script and the icon, compiled in |

pub mod api;
pub mod asset;
pub mod csv;
pub mod form;
pub mod layout;
pub mod page;
pub mod permission;
pub mod route;
pub mod rows;
pub mod show;
pub mod text;
pub mod visit;
pub mod zone;

pub use api::{Answer, Api, Asking, Failure, Verb};
pub use route::{Method, Outcome, Route, table};
pub use visit::{Fields, Viewer, Visit};
pub use zone::ViewerZone;
