//! The workflows on a store in memory, with amounts computed by hand.

mod access;
mod addon;
mod adjustment;
#[cfg(feature = "service")]
mod alert_headroom;
#[cfg(feature = "service")]
mod alert_meetings;
#[cfg(feature = "service")]
mod api_key;
mod billing;
mod cancel;
mod catalog;
mod catching_up;
mod correction_notes;
mod corrections;
mod credit;
mod credit_note;
#[cfg(feature = "custom-sql")]
mod custom;
#[cfg(feature = "custom-sql")]
mod daily;
mod fully_billed;
#[cfg(feature = "service")]
mod group_roles;
mod invoice;
mod late;
#[cfg(feature = "service")]
mod later_looks;
mod meetings;
#[cfg(feature = "service")]
mod messages;
mod payment;
mod plan;
mod prepaid;
mod preview;
mod preview_plan;
#[cfg(feature = "service")]
mod questions;
mod receipts;
mod records;
#[cfg(feature = "service")]
mod second_person;
mod statement;
mod subscription;
mod switch;
mod tax_providers;
mod tax_questions;
mod update;
#[cfg(feature = "service")]
mod usage_alerts;
