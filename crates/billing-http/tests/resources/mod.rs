//! What each noun of the interface does: its fields, its calls, its amounts.

mod access;
mod addons;
mod changes;
mod cloud_events;
mod cost_analysis;
mod credits;
mod custom_metrics;
mod customer_changes;
mod events;
mod invoices;
mod late_usage;
mod levels;
mod lists;
mod matching;
mod metrics;
mod plan_changes;
mod plans;
mod shapes;
mod subscriptions;
mod tax_providers;
mod test_clocks;
mod tiers;
mod track;
mod usage;
mod usage_laws;
mod words;
