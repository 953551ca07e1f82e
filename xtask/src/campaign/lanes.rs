//! `cargo xtask campaign lanes`: all tests of the store and of the service with customers in several lanes, but for
//! those of the store that look at the tables of one (`TestStore::in_one_lane`). `cargo xtask campaign servers`: those
//! that look at nothing past the service with the lanes on two and on three servers.

use crate::ci::{with_lanes, with_servers};

/// Tests that are about one lane, each with the reason.
const OF_ONE_LANE: &[(&str, &str)] = &[
    ("console::pages::no_page_costs_more_with_more_customers", "copies customers by SQL of its own"),
    ("docs::generated_clients", "copies customers by SQL of its own"),
    ("docs::telemetry::what_was_filled_past_the_service_is_planned_anew", "fills a table by SQL of its own"),
    ("durability::audit::the_auditor_finds_every_corruption", "corrupts tables by SQL of its own"),
    (
        "durability::billing_batches::an_error_of_the_work_itself_is_its_customers_alone",
        "tells transactions apart by xmin",
    ),
    ("durability::billing_batches::many_at_once_have_the_books_of_each_alone", "tells transactions apart by xmin"),
    (
        "durability::billing_batches::whoever_is_at_work_elsewhere_is_waited_for_by_nobody_else",
        "tells transactions apart by xmin",
    ),
    ("resources::lists::a_list_reads_no_more", "copies customers by SQL of its own"),
    ("resources::lists::a_list_takes_as_many_statements", "counts statements: each lane is asked"),
    ("rules::statements::ordinary_calls_take_no_more_statements", "counts statements: each lane is asked"),
];

/// Runs them.
///
/// # Errors
/// When one fails.
pub fn run() -> anyhow::Result<()> {
    for (test, why) in OF_ONE_LANE {
        println!("left out: {test} {why}");
    }
    let skips: Vec<&str> = OF_ONE_LANE.iter().flat_map(|(test, _)| ["--skip", test]).collect();
    with_lanes(&skips)
}

/// How many servers lanes are on.
const SERVERS: [&str; 2] = ["2", "3"];
/// What is tried there besides what is tried with lanes anywhere.
const OF_SERVERS: [&str; 4] = [
    "contract::holds_with_customers_in_several_lanes",
    "docs::guides",
    "durability::lanes::books_over_lanes",
    "races::",
];

/// Runs those.
///
/// # Errors
/// When one fails.
pub fn run_on_servers() -> anyhow::Result<()> {
    SERVERS.into_iter().try_for_each(|servers| {
        println!("== lanes on {servers} servers");
        with_servers(servers, &OF_SERVERS)
    })
}
