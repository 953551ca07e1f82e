//! The books stay right under races, faults and kills, and over whole lives of customers.

mod acknowledged;
mod alert_kills;
mod audit;
mod billing_batches;
mod billing_run;
mod clock_turns;
mod command_line;
mod commands;
mod correction_races;
mod credit_note_races;
mod faults;
mod import;
mod job_kills;
mod killed_run;
mod lanes;
mod lives;
mod logs;
mod memory;
mod payment_races;
mod pepper;
mod races;
mod reissue_races;
mod renewal_races;
mod scenarios;
mod tax_kills;
mod webhook_kills;
