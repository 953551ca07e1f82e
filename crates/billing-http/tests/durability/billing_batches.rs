//! Customers that are billed several in one transaction: each as it would be by itself, whoever its neighbours are.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;

use billing_audit::audit_database;
use billing_domain::id::CustomerKey;
use billing_domain::store::{Scope, Store};
use billing_domain::workflow::bill_customer;
use billing_domain::{Error, Refusal};
use billing_http::billing_run::{Asking, run_to_the_end};
use diesel::sql_types::Text;
use diesel::{RunQueryDsl, sql_query};
use serde_json::{Value, json};
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

use crate::support::{Field, World, event, version_body};

/// What customers may hold.
const KINDS: [&str; 9] = ["plain", "filtered", "prepaid", "addon", "ending", "taxed", "twice", "adjusted", "credited"];

#[derive(diesel::QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    customer_id: String,
    #[diesel(sql_type = Text)]
    row: String,
}

fn rows(world: &World, query: &str) -> Vec<Row> {
    let mut pg = world.pg();
    sql_query(query).load(&mut pg).expect(query)
}

/// Everything that billing has left behind of a customer, but for ids.
const BOOKS: &str = "
    WITH book AS (
        SELECT customer_key, 1 AS page, to_jsonb(invoice) - '{id,number,customer_key,billed_to}'::text[] AS row
        FROM invoices invoice
        UNION ALL
        SELECT line.customer_key, 2, to_jsonb(line) - '{customer_key,invoice_id,subscription_id,record_id}'::text[]
            || jsonb_build_object('of', invoice.issued_at)
        FROM invoice_lines line JOIN invoices invoice ON invoice.id = line.invoice_id
        UNION ALL
        SELECT customer_key, 3, to_jsonb(subscription) - '{id,customer_key,parent_id,created_at,metadata}'::text[] FROM subscriptions subscription
        UNION ALL
        SELECT customer_key, 4, to_jsonb(record) - '{id,customer_key,subscription_id,position,revision}'::text[]
        FROM billing_records record
        UNION ALL
        SELECT customer_key, 5, to_jsonb(count) - '{customer_key,subscription_id}'::text[] FROM invoicing_counts count
        UNION ALL
        SELECT customer_key, 6, to_jsonb(due) - '{customer_key}'::text[] FROM billing_due due
        UNION ALL
        SELECT customer_key, 7, to_jsonb(entry) - '{id,customer_key,credit_id,invoice_id}'::text[] FROM credit_entries entry
    )
    SELECT customer_id, page || ' ' || regexp_replace(row::text, '[0-9a-f]{32}|[0-9a-f-]{36}|(?<=last_arrival.: )[0-9]+', '#', 'g') AS row
    FROM book JOIN customers USING (customer_key)
    ORDER BY customer_id, 2";

fn books(world: &World, customer: &str) -> Vec<String> {
    let all = rows(world, BOOKS).into_iter();
    all.filter(|row| row.customer_id == customer).map(|row| row.row).collect()
}

/// When everybody's first month began: it has just ended.
fn start() -> OffsetDateTime {
    (OffsetDateTime::now_utc() - Duration::days(33)).replace_time(time::Time::MIDNIGHT)
}

fn day(at: OffsetDateTime) -> String {
    at.format(format_description!("[year]-[month]-[day]")).expect("a day")
}

/// What is on offer.
struct Offers {
    plan: String,
    other: String,
    prepaid: String,
    adjusted: String,
    addon: String,
}

fn offer(world: &World) -> Offers {
    let metric = world.metric();
    let plan = |name: &str, metric: &str, change: &dyn Fn(&mut Value)| {
        let mut version = version_body(metric);
        change(&mut version);
        let body = json!({"plan_name": name, "plan_duration": "monthly", "initial_version": version});
        world.post("/api/plans/", &body).ok(201).id("plan_id")
    };
    let n = json!({"event_name": "api_call", "aggregation_type": "sum", "property_name": "n", "metric_name": "n"});
    let sum = world.post("/api/metrics/", &n).ok(201).id("metric_id");
    let addon = json!({"addon_name": "Seats", "currency_code": "USD", "billing_frequency": "recurring",
        "invoice_when": "invoice_on_attach",
        "recurring_charges": [{"name": "seat", "amount": 5, "charge_timing": "in_arrears"}]});
    Offers {
        plan: plan("Starter", &metric, &|_| {}),
        other: plan("Summed", &sum, &|version| version["recurring_charges"][0]["charge_timing"] = json!("in_arrears")),
        prepaid: plan("Prepaid", &sum, &|version| {
            version["components"][0]["prepaid_charge"] = json!({"charge_behavior": "full", "units": 30});
        }),
        adjusted: plan("Adjusted", &metric, &|version| {
            version["price_adjustment"] = json!({"price_adjustment_name": "rebate", "price_adjustment_type": "percentage", "price_adjustment_amount": -15});
        }),
        addon: world.post("/api/addons/", &addon).ok(201).id("addon_id"),
    }
}

/// A customer of a kind, with twenty calls.
fn settle_in(world: &World, clock: &str, offers: &Offers, kind: &str, name: &str) {
    world.customer_at(name, clock);
    let plan = match kind {
        "prepaid" => &offers.prepaid,
        "adjusted" => &offers.adjusted,
        _ => &offers.plan,
    };
    let mut body = json!({"customer_id": name, "plan_id": plan, "start_date": day(start())});
    match kind {
        "filtered" => body["subscription_filters"] = json!([{"property_name": "region", "value": "eu"}]),
        "ending" => body["auto_renew"] = json!(false),
        "taxed" => drop(world.write("PATCH", &format!("/api/customers/{name}/"), br#"{"tax_rate": 7.5}"#).ok(200)),
        "credited" => {
            let credit = json!({"customer_id": name, "currency_code": "USD", "amount": 12.5});
            world.post("/api/credits/", &credit).ok(201);
        }
        _ => {}
    }
    let made = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    if kind == "addon" {
        let attach = format!("/api/subscriptions/{made}/addons/attach/");
        world.post(&attach, &json!({"addon_id": offers.addon, "quantity": 2})).ok(200);
    }
    if kind == "twice" {
        let second = json!({"customer_id": name, "plan_id": offers.other, "start_date": day(start())});
        world.post("/api/subscriptions/", &second).ok(200);
    }
    track(world, name, start() + Duration::hours(3), 20);
}

fn track(world: &World, name: &str, at: OffsetDateTime, count: u32) {
    let time = at.format(&time::format_description::well_known::Rfc3339).expect("a time");
    let call = |number| {
        let mut call = event(name, &format!("{name} {time} {number}"), &time);
        call["properties"] = json!({"n": number, "region": if number % 2 == 0 { "eu" } else { "us" }});
        call
    };
    let events: Vec<Value> = (0..count).map(call).collect();
    assert_eq!(world.post("/api/track/", &json!({"batch": events})).json()["success"], "all");
}

/// A service whose customers have all fallen due while it stood still.
fn neglected(customers: &[(String, &str)]) -> World {
    let mut world = World::new();
    let offers = offer(&world);
    let clock = world.clock(&day(start()));
    customers.iter().for_each(|(name, kind)| settle_in(&world, &clock, &offers, kind, name));
    world.fall_behind();
    world
}

fn key(world: &World, name: &str) -> CustomerKey {
    CustomerKey::derive(world.organization, &name.parse().expect("an id"))
}

/// Bills these customers at once, up to an instant.
fn bill(world: &World, names: &[String], until: OffsetDateTime) -> Vec<Result<(), Error>> {
    let keys: Vec<CustomerKey> = names.iter().map(|name| key(world, name)).collect();
    let store = &world.opened.store;
    store.run_each(world.organization, &keys, &mut |tx, customer, _| bill_customer(tx, customer, until))
}

/// [`bill`], each by itself.
fn bill_alone(world: &World, names: &[String], until: OffsetDateTime) {
    let store = &world.opened.store;
    for name in names {
        let scope = Scope::Customer(world.organization, key(world, name));
        let customer = key(world, name);
        store.run(&scope, &mut |tx, _| bill_customer(tx, customer, until)).expect("billed");
    }
}

/// The customers of the largest number of invoices that one transaction has issued.
fn batch(world: &World) -> BTreeSet<String> {
    let query = "SELECT customer_id, invoices.xmin::text AS row FROM invoices JOIN customers USING (customer_key)
        WHERE invoices.xmin::text = (SELECT xmin::text FROM invoices GROUP BY 1 ORDER BY count(DISTINCT customer_key) DESC LIMIT 1)";
    rows(world, query).into_iter().map(|row| row.customer_id).collect()
}

#[test]
fn many_at_once_have_the_books_of_each_alone() {
    let named = |suffix: &str| -> Vec<String> { KINDS.iter().map(|kind| format!("{kind}-{suffix}")).collect() };
    let (together, alone) = (named("together"), named("alone"));
    let customers: Vec<(String, &str)> =
        together.iter().chain(&alone).cloned().zip(KINDS.into_iter().chain(KINDS)).collect();
    let mut world = neglected(&customers);
    let same_books = |world: &World, when: &str| {
        for (one, other) in together.iter().zip(&alone) {
            let books = books(world, one);
            assert!(books.len() > 5, "{one}: {books:?}");
            assert_eq!(books, self::books(world, other), "{one} {when}");
        }
    };
    let run = |world: &World, until: OffsetDateTime| {
        assert!(bill(world, &together, until).iter().all(Result::is_ok));
        bill_alone(world, &alone, until);
    };
    let now = OffsetDateTime::now_utc();
    run(&world, now);
    same_books(&world, "after their first month");
    // Filtered usage was not rolled up from the first event on, so it takes reading events.
    let needs_more = |name: &&String| name.starts_with("credited") || name.starts_with("filtered");
    let expected: BTreeSet<String> = together.iter().filter(|name| !needs_more(name)).cloned().collect();
    assert_eq!(batch(&world), expected, "one transaction for all who need no more than a batch reads");

    world.start();
    together.iter().chain(&alone).for_each(|name| track(&world, name, late(), 30));
    world.stop();
    run(&world, now + Duration::days(32));
    same_books(&world, "with late events");
    run(&world, now + Duration::days(200));
    same_books(&world, "after half a year");
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
}

/// In the month that is billed by now, and still accepted.
fn late() -> OffsetDateTime {
    start() + Duration::days(20)
}

/// Four customers alike.
fn alike() -> (World, Vec<String>) {
    let names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    let customers: Vec<(String, &str)> = names.iter().map(|name| (name.clone(), "plain")).collect();
    (neglected(&customers), names)
}

fn invoices(world: &World) -> Vec<String> {
    let query = "SELECT customer_id, count(*)::text AS row FROM invoices JOIN customers USING (customer_key)
        GROUP BY 1 ORDER BY 1";
    rows(world, query).into_iter().map(|row| format!("{} {}", row.customer_id, row.row)).collect()
}

#[test]
fn whoever_is_at_work_elsewhere_is_waited_for_by_nobody_else() {
    let (world, names) = alike();
    let (locked, is_locked) = mpsc::channel();
    let (others_done, are_others_done) = mpsc::channel();
    let (world, scope) = (&world, &Scope::Customer(world.organization, key(&world, "b")));
    thread::scope(|threads| {
        threads.spawn(move || {
            let hold = world.opened.store.run(scope, &mut |_, _| {
                locked.send(()).expect("it is waited for");
                // As long as the others take, and not until the wait for a lock is given up.
                are_others_done.recv_timeout(std::time::Duration::from_millis(1_700)).expect("they do not wait");
                Ok(())
            });
            hold.expect("held");
        });
        is_locked.recv().expect("it is locked");
        threads.spawn(move || {
            for _ in 0..300 {
                if invoices(world) == ["a 2", "b 1", "c 2", "d 2"] {
                    break;
                }
                thread::sleep(std::time::Duration::from_millis(5));
            }
            others_done.send(()).expect("somebody waits");
        });
        let results = bill(world, &names, OffsetDateTime::now_utc());
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    });
    assert_eq!(invoices(world), ["a 2", "b 2", "c 2", "d 2"], "and it gets its turn");
    assert_eq!(batch(world), BTreeSet::from(["a", "c", "d"].map(str::to_owned)));
}

#[test]
fn nobody_fails_because_of_another() {
    let (world, names) = alike();
    // What goes wrong at the very end, and is nothing that could be foreseen.
    world.sql(
        "CREATE FUNCTION refuse_c() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT FROM customers WHERE customer_key = NEW.customer_key AND customer_id = 'c') THEN
                RAISE 'not this one';
            END IF;
            RETURN NEW;
        END
        $$;
        CREATE TRIGGER refuse_c BEFORE INSERT ON invoices FOR EACH ROW EXECUTE FUNCTION refuse_c();",
    );
    let failed = run_to_the_end(&world.opened.store, Asking::Nobody, None).expect_err("one failed").to_string();
    assert!(failed.starts_with("3 customers billed, 1 failed, 0 parked"), "{failed}");
    assert_eq!(invoices(&world), ["a 2", "b 2", "c 1", "d 2"]);
    world.sql("DROP TRIGGER refuse_c ON invoices; UPDATE billing_due SET claimed_until = NULL;");
    let run = run_to_the_end(&world.opened.store, Asking::Nobody, None).expect("a run");
    assert_eq!((run.billed, invoices(&world)), (1, ["a 2", "b 2", "c 2", "d 2"].map(str::to_owned).to_vec()));
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
    let names = names.iter().map(|name| bill(&world, std::slice::from_ref(name), OffsetDateTime::now_utc()));
    assert!(names.flatten().all(|result| result.is_ok()), "once more changes nothing");
    assert_eq!(invoices(&world), ["a 2", "b 2", "c 2", "d 2"]);
}

#[test]
fn an_error_of_the_work_itself_is_its_customers_alone() {
    let (world, names) = alike();
    let keys: Vec<CustomerKey> = names.iter().map(|name| key(&world, name)).collect();
    let now = OffsetDateTime::now_utc();
    let results = world.opened.store.run_each(world.organization, &keys, &mut |tx, customer, _| {
        bill_customer(tx, customer, now)?;
        if customer == keys[1] { Err(Refusal::OverlappingPlans.into()) } else { Ok(()) }
    });
    assert_eq!(results, [Ok(()), Err(Refusal::OverlappingPlans.into()), Ok(()), Ok(())]);
    assert_eq!(invoices(&world), ["a 2", "b 1", "c 2", "d 2"], "nothing of it is kept");
    assert_eq!(batch(&world), BTreeSet::from(["a", "c", "d"].map(str::to_owned)));
}
