//! A process that dies between its question to a tax provider and the note of the answer has billed nothing, and the next one asks again.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use postgres_local::Cluster;
use serde_json::json;

use super::acknowledged::Process;
use crate::receiver::until;
use crate::resources::tax_providers::Provider;
use crate::support::{Field, ago};

#[test]
fn a_kill_between_question_and_answer_bills_once_and_with_the_tax() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let (url, data_dir) = (cluster.url("billing"), folder.path().join("server"));
    let start = || Process::start_with(&url, &data_dir, &[("BILLING_WEBHOOKS_ALLOW_PRIVATE", "true")]);
    let mut pg = PgConnection::establish(&url).expect("a connection");
    let (server, provider) = (start(), Provider::new());
    server.patch("/api/organization/", &json!({"tax_providers": ["http"], "tax_provider_url": provider.url}));
    let charges = json!([{"name": "base", "amount": 100, "charge_timing": "in_advance"}]);
    let version = json!({"currency_code": "USD", "recurring_charges": charges});
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": version});
    let plan = server.post("/api/plans/", &plan).id("plan_id");
    server.post("/api/customers/", &json!({"customer_id": "acme", "email": "a@acme.io"}));
    let subscribe = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::ZERO)});
    server.post("/api/subscriptions/", &subscribe);
    assert_eq!(provider.asked().len(), 1);

    // As if a month had gone by: the renewal is due, and the provider thinks about it.
    provider.takes(Duration::from_secs(4));
    pg.batch_execute(
        "UPDATE subscriptions SET start_at = start_at - interval '40 days', end_at = end_at - interval '40 days',
            full_start_at = full_start_at - interval '40 days', full_end_at = full_end_at - interval '40 days',
            anchor_at = anchor_at - interval '40 days';
        UPDATE customers SET tax_quotes = '[]';
        UPDATE billing_due SET due_at = now() - interval '1 minute', claimed_until = NULL",
    )
    .expect("a month later");
    until("it is asked", || provider.asked().len() == 2);
    let began = Instant::now();
    server.kill();
    assert!(began.elapsed() < Duration::from_secs(3), "before it was answered");
    pg.batch_execute(
        "DO $$ BEGIN
            ASSERT (SELECT count(*) FROM invoices) = 1, 'nothing was issued';
            ASSERT (SELECT tax_quotes::text FROM customers) = '[]', 'and nothing noted';
        END $$;
        UPDATE billing_due SET claimed_until = NULL", // Its lease runs out.
    )
    .expect("nothing has happened");

    provider.takes(Duration::ZERO);
    let server = start();
    let amounts = || -> Vec<String> {
        let invoices = server.get("/api/invoices/?customer_id=acme");
        invoices.as_array().expect("a list").iter().map(|invoice| invoice["amount"].to_string()).collect()
    };
    until("it is billed", || amounts().len() > 1);
    assert_eq!(amounts(), ["120", "120"]);
    assert_eq!(provider.asked().len(), 3, "the question whose answer nobody noted was asked again, once");
}
