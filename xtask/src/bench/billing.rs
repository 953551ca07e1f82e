//! `cargo xtask bench billing`: how fast invoices go out when every customer is due at once, held against what Postgres
//! takes to insert the very same rows.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::create;
use super::report::{Report, Row};
use super::stage::Stage;

/// Usage events of each customer.
const EVENTS_EACH: u64 = 100;
/// Clients that set the stage.
const CLIENTS: u64 = 8;
/// Connections that insert the rows of the floor.
const WRITERS: u32 = 2;
/// Waits until nobody is due, on one connection and in short transactions, so that waiting costs next to nothing; for ten
/// minutes at most.
const WAIT: &str = "
DO $$
BEGIN
    FOR attempt IN 1..12000 LOOP
        IF NOT EXISTS (SELECT FROM billing_due WHERE due_at <= clock_timestamp()) THEN
            RETURN;
        END IF;
        COMMIT;
        PERFORM pg_sleep(0.05);
        COMMIT;
    END LOOP;
    RAISE 'somebody is still due';
END
$$;";

/// What a caller may choose.
struct Options {
    customers: u64,
    profile: String,
    output: PathBuf,
}

impl Options {
    fn read(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self {
            customers: 10_000,
            profile: "release".to_owned(),
            output: crate::repository().join("target/bench-billing.json"),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match *argument {
                "--customers" => options.customers = value()?.parse()?,
                "--profile" => options.profile = (*value()?).to_owned(),
                "--output" => options.output = value()?.into(),
                other => bail!("there is no option {other}"),
            }
        }
        Ok(options)
    }
}

/// Subscribes everybody, lets all fall due in one moment, and waits until the service has billed them.
///
/// # Errors
/// What does not build, start or answer, and invoices that are wrong.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    let stage = Stage::set(&options.profile)?;
    let mut report = Report::default();
    super::machine(&stage, &mut report)?;
    let began = Instant::now();
    subscribe_all(&stage, options.customers)?;
    import_events(&stage, options.customers)?;
    report.note("customers", options.customers);
    report.note("events", options.customers * EVENTS_EACH);
    report.note("seconds to set up", began.elapsed().as_secs());

    let billed = bill_all(&stage, options.customers, &mut report)?;
    let inserted = insert_all(&stage, options.customers)?;
    let rate = |took: Duration| options.customers as f64 / took.as_secs_f64();
    report.add(Row::rate("the rows of such an invoice, inserted", rate(inserted), "customers"));
    report.add(Row::rate("renewed and invoiced", rate(billed), "customers").against("inserting", &[rate(inserted)]));
    report.note("seconds in all", billed.as_secs_f64());
    report.note("peak memory of the server, MiB", stage.service.peak_mib());
    if let Some(folder) = options.output.parent() {
        fs::create_dir_all(folder)?;
    }
    report.write(&options.output)?;
    stage.clear()
}

/// The day everybody's month begins: it has ended since, and its successor has not.
fn first_day() -> time::Date {
    (OffsetDateTime::now_utc() - time::Duration::days(33)).date()
}

/// A fee in advance and two metered components, one of them filtered, for everybody.
fn subscribe_all(stage: &Stage, customers: u64) -> anyhow::Result<()> {
    let id = |made: Value, name: &str| made[name].as_str().map(str::to_owned).context("an id");
    let calls = id(create(stage, "/api/metrics/", &json!({"event_name": "call"}))?, "metric_id")?;
    let large = json!({"event_name": "call", "aggregation_type": "sum", "property_name": "n", "metric_name": "large",
        "numeric_filters": [{"property_name": "n", "operator": "gte", "comparison_value": 5}]});
    let large = id(create(stage, "/api/metrics/", &large)?, "metric_id")?;
    let tiers = |free: u64, price: &str| {
        json!([{"type": "free", "range_start": 0, "range_end": free},
            {"type": "per_unit", "range_start": free, "cost_per_batch": price, "metric_units_per_batch": 1}])
    };
    let version = json!({"currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": 9, "charge_timing": "in_advance"}],
        "components": [{"metric_id": calls, "tiers": tiers(50, "0.01")}, {"metric_id": large, "tiers": tiers(100, "0.002")}]});
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": version});
    let plan = id(create(stage, "/api/plans/", &plan)?, "plan_id")?;
    let start = first_day().to_string();
    let clock = json!({"name": "the past", "frozen_time": start});
    let clock = id(create(stage, "/api/test_clocks/", &clock)?, "test_clock_id")?;
    let next = AtomicU64::new(0);
    let work = || -> anyhow::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= customers {
                return Ok(());
            }
            let customer = format!("customer-{number}");
            let email = format!("{number}@example.com");
            create(
                stage,
                "/api/customers/",
                &json!({"customer_id": customer, "email": email, "test_clock_id": clock}),
            )?;
            let body = json!({"customer_id": customer, "plan_id": plan, "start_date": start});
            create(stage, "/api/subscriptions/", &body)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// Events spread evenly over the month, by the program's own back-fill.
fn import_events(stage: &Stage, customers: u64) -> anyhow::Result<()> {
    let path = stage.folder().join("events.jsonl");
    let mut file = std::io::BufWriter::new(fs::File::create(&path)?);
    for event in 0..EVENTS_EACH {
        let at = time::Duration::minutes(i64::try_from(event * 27 * 24 * 60 / EVENTS_EACH)?);
        let time = first_day().midnight().assume_utc() + at;
        let time = time.format(&time::format_description::well_known::Rfc3339)?;
        for customer in 0..customers {
            writeln!(
                file,
                "{{\"event_name\":\"call\",\"customer_id\":\"customer-{customer}\",\"idempotency_id\":\"{customer}-{event}\",\
                 \"time_created\":\"{time}\",\"properties\":{{\"n\":{}}}}}",
                event % 10
            )?;
        }
    }
    file.flush()?;
    let status = stage.program().arg("import-events").arg(&path).status()?;
    ensure!(status.success(), "the events are not imported");
    Ok(())
}

/// Makes everybody due at once and waits until nobody is.
fn bill_all(stage: &Stage, customers: u64, report: &mut Report) -> anyhow::Result<Duration> {
    stage.sql("VACUUM ANALYZE;")?;
    stage.sql(
        "BEGIN;
         UPDATE customers SET test_clock_id = NULL;
         INSERT INTO billing_due (customer_key, organization_id, due_at)
         SELECT customer_key, organization_id, min(next_invoicing_at) FROM billing_records
         WHERE next_invoicing_at IS NOT NULL GROUP BY 1, 2;
         COMMIT;",
    )?;
    let worked = || Ok::<_, anyhow::Error>((stage.service.cpu_seconds()?, stage.postgres_cpu_seconds()?));
    let (server, postgres) = worked()?;
    let began = Instant::now();
    stage.sql(WAIT).context("billing does not come to its end")?;
    let took = began.elapsed();
    let (server_later, postgres_later) = worked()?;
    let each = |seconds: f64| format!("{:.2}", seconds * 1_000.0 / customers as f64);
    report.note("processor time of the server, ms a customer", each(server_later - server));
    report.note("processor time of Postgres, ms a customer", each(postgres_later - postgres));
    // A fee for each of two months, 50 calls beyond the free ones, and 250 units of the larger ones.
    let right = stage.sql(
        "SELECT count(*) FROM (SELECT customer_key FROM invoices
            GROUP BY 1 HAVING count(*) = 2 AND min(amount) = 9 AND max(amount) = 9 + 0.50 + 0.50) right_ones;",
    )?;
    ensure!(right == customers.to_string(), "{right} of {customers} customers have the invoices they should have");
    Ok(took)
}

/// What the run inserted, a row and its like at a time and a transaction for each customer, without a client, a lock,
/// a trigger or a foreign key.
const FLOOR: &str = "
CREATE TABLE floor_subscriptions (LIKE subscriptions INCLUDING ALL EXCLUDING GENERATED EXCLUDING IDENTITY);
CREATE TABLE floor_records (LIKE billing_records INCLUDING ALL EXCLUDING GENERATED EXCLUDING IDENTITY);
CREATE TABLE floor_invoices (LIKE invoices INCLUDING ALL);
CREATE TABLE floor_lines (LIKE invoice_lines INCLUDING ALL);
CREATE TABLE floor_numbers (LIKE invoice_numbers INCLUDING ALL);
CREATE TABLE floor_counts (LIKE invoicing_counts INCLUDING ALL);
CREATE PROCEDURE insert_part(part int, parts int) LANGUAGE plpgsql AS $$
DECLARE
    one uuid;
    invoice record;
BEGIN
    FOR one IN SELECT customer_key FROM customers WHERE abs(hashtext(customer_key::text)) % parts = part LOOP
        SELECT id, number, organization_id INTO invoice FROM invoices
        WHERE customer_key = one ORDER BY issued_at DESC LIMIT 1;
        INSERT INTO floor_subscriptions SELECT * FROM subscriptions WHERE customer_key = one AND NOT is_new;
        INSERT INTO floor_records SELECT record.* FROM billing_records record
            JOIN subscriptions subscription
                ON subscription.customer_key = record.customer_key AND subscription.id = record.subscription_id
            WHERE record.customer_key = one AND NOT subscription.is_new;
        INSERT INTO floor_invoices SELECT * FROM invoices WHERE customer_key = one AND id = invoice.id;
        INSERT INTO floor_lines SELECT * FROM invoice_lines WHERE customer_key = one AND invoice_id = invoice.id;
        INSERT INTO floor_numbers VALUES (invoice.organization_id, invoice.number, one, invoice.id);
        INSERT INTO floor_counts SELECT * FROM invoicing_counts WHERE customer_key = one;
        COMMIT;
    END LOOP;
END
$$;";

fn insert_all(stage: &Stage, customers: u64) -> anyhow::Result<Duration> {
    stage.sql(FLOOR)?;
    let script = |part: u32| {
        let path = stage.folder().join(format!("floor-{part}.sql"));
        fs::write(&path, format!("SET enable_seqscan = off;\nCALL insert_part({part}, {WRITERS});\n")).map(|()| path)
    };
    let scripts = (0..WRITERS).map(script).collect::<Result<Vec<_>, _>>()?;
    let took = stage.sql_files(&scripts)?;
    let rows = stage.sql("SELECT (SELECT count(*) FROM floor_invoices), (SELECT count(*) FROM floor_lines);")?;
    let expected = format!("{customers}|{}", customers * 3);
    ensure!(rows == expected, "invoices and lines are {rows}, and should be {expected}");
    Ok(took)
}
