//! The store on a real Postgres: one binary, because each one links libpq.

mod alert_batches;
mod alert_headroom;
mod arrivals;
#[cfg(target_os = "linux")]
mod backend;
mod backfill;
mod between;
mod billing_queue;
mod commits;
mod contract;
mod custom_sql;
#[cfg(target_os = "linux")]
mod custom_sql_cost;
mod custom_sql_deep;
mod custom_sql_fuzz;
mod custom_sql_grammar;
mod custom_sql_lost;
mod errors;
mod event_tails;
mod events_with_id;
mod feeds;
mod hot_buckets;
mod ingest_rules;
mod invariants;
mod known;
mod lanes;
mod large_calls;
mod many_metrics;
mod months;
mod moved_lanes;
mod nodes;
mod nodes_at_once;
mod numbers;
mod recent_events;
mod reservations;
mod rows_read;
mod schema;
mod silent_nodes;
mod sql;
mod sql_walk;
mod stack;
mod statements;
mod statistics;
mod together;
mod usage;
mod webhook_leases;
