//! While a test clock is on its way, and while a customer catches up with what is past, nothing of the customer can be
//! changed, nor a change be tried out: tried on every route of the table.

use actix_web::http::Method;
use billing_http::endpoint::{Access, Endpoint};
use billing_http::openapi::calls;
use billing_http::routes;
use billing_store::testing::fingerprint;

use crate::samples::{Fixture, Sample, samples};
use crate::support::World;

/// Calls that change something else than a customer that exists, or only add events.
const NOT_ABOUT_A_CUSTOMER: &[&str] = &[
    "/api/access_tokens/",
    "/api/addons/",
    "/api/api_keys/",
    "/api/approvals/",
    // When it is billed, and not what.
    "/api/billing_queue/",
    // It changes nothing.
    "/api/books_audits/",
    "/api/currencies/",
    "/api/events/",
    "/api/features/",
    "/api/jobs/",
    "/api/metrics/",
    "/api/organization/",
    "/api/plan_versions/",
    "/api/plans/",
    "/api/test_clocks/",
    "/api/track/",
    "/api/usage_alerts/",
    "/api/users/",
    "/api/verify_idems_received/",
    "/api/webhook_endpoints/",
];

/// What corrects events that are there.
const CORRECTIONS: &[&str] = &["/api/events/void/", "/api/events/amend/"];

fn changes_a_customer(endpoint: &Endpoint) -> bool {
    let makes_one = endpoint.path == "/api/customers/";
    let is_other = NOT_ABOUT_A_CUSTOMER.iter().any(|prefix| endpoint.path.starts_with(prefix))
        && !CORRECTIONS.contains(&endpoint.path);
    // That of a correction looks at what was billed; the others do what they show, and are refused as that is.
    let is_preview = endpoint.path.ends_with("/corrections/preview/");
    endpoint.access == Access::Key && endpoint.method != Method::GET && !is_other && !makes_one && !is_preview
}

/// Corrections by a filter are ordered: each customer is corrected later, in its own time.
fn is_done_at_once(sample: &Sample) -> bool {
    sample.body.as_ref().is_none_or(|body| body.get("filter").is_none())
}

/// Puts all customers of the fixture under a clock that is on its way.
fn send_off(world: &World, fixture: &Fixture) {
    world.sql(&format!(
        "WITH clock AS (
            INSERT INTO test_clocks (organization_id, id, name, frozen_time, status, created_at)
            VALUES ('{0}', gen_random_uuid(), 'on its way', now(), 'advancing', now()) RETURNING id
        )
        UPDATE customers SET test_clock_id = clock.id FROM clock WHERE organization_id = '{0}'",
        fixture.organization.uuid()
    ));
}

/// The answer to a sample whose customers are on their way, and whether anything was written. A worker that comes by
/// and lets them arrive is none of this test's business: then it is tried again.
fn send_on_the_way(world: &World, travellers: &mut Option<Fixture>, sample: &Sample) -> (u16, String, bool) {
    loop {
        let fixture = travellers.take().unwrap_or_else(|| {
            let fixture = Fixture::new(world, "travellers");
            send_off(world, &fixture);
            fixture
        });
        let before = fingerprint(world.url(), fixture.organization);
        let answer = sample.send(world, &fixture);
        let clocks = world.send("GET", "/api/test_clocks/", &[("X-API-KEY", fixture.key.as_str())], b"").ok(200);
        let is_on_its_way = |clock: &serde_json::Value| clock["name"] == "on its way" && clock["status"] == "advancing";
        if clocks.as_array().expect("a list").iter().any(is_on_its_way) {
            let is_untouched = fingerprint(world.url(), fixture.organization) == before;
            let error = if answer.status >= 400 { answer.error() } else { answer.text };
            // They serve the next call, too, unless this one has changed them.
            *travellers = is_untouched.then_some(fixture);
            return (answer.status, error, is_untouched);
        }
    }
}

#[test]
fn nothing_of_a_customer_on_the_way_can_be_changed() {
    let world = World::new();
    let (mut travellers, mut tried) = (None, 0);
    for endpoint in routes::table().into_iter().filter(changes_a_customer) {
        let listed = calls::of_call(&endpoint).contains(&"test_clock_advancing");
        assert!(listed, "{} {}: list test_clock_advancing in openapi/calls.rs", endpoint.method, endpoint.path);
        for sample in samples(&endpoint).into_iter().filter(is_done_at_once) {
            let expected = (409, "test_clock_advancing".to_owned(), true);
            assert_eq!(
                send_on_the_way(&world, &mut travellers, &sample),
                expected,
                "{} {}",
                sample.method,
                sample.path
            );
            tried += 1;
        }
    }
    assert!(tried >= 15, "{tried} calls change a customer");
}

/// Whether a payment came in is nothing that billing looks at, unless it is more than is due: the credit of it is.
const GOES_ON: &[(&str, bool)] = &[
    // path, whether it can be refused all the same
    ("/api/invoices/{invoice_id}/", false),
    ("/api/invoices/{invoice_id}/payments/", true),
    ("/api/payments/", true),
];

/// The answer to a sample whose customers are catching up, and whether anything was written. A worker that had leased one of
/// them before finds that nothing is due: then it is tried again.
fn send_to_historians(world: &World, historians: &mut Option<Fixture>, sample: &Sample) -> (u16, String, bool) {
    for _ in 0..5 {
        let fixture = historians.take().unwrap_or_else(|| {
            let fixture = Fixture::new(world, "historians");
            let owner = format!("organization_id = '{}'", fixture.organization.uuid());
            world.sql(&format!(
                "UPDATE customers SET catching_up = true WHERE {owner}; DELETE FROM billing_due WHERE {owner}"
            ));
            fixture
        });
        let before = fingerprint(world.url(), fixture.organization);
        let answer = sample.send(world, &fixture);
        let customers = world.send("GET", "/api/customers/", &[("X-API-KEY", fixture.key.as_str())], b"").ok(200);
        let catches_up = |customer: &serde_json::Value| customer["catching_up"] == true;
        if customers.as_array().expect("a list").iter().all(catches_up) {
            let is_untouched = fingerprint(world.url(), fixture.organization) == before;
            let error = if answer.status >= 400 { answer.error() } else { answer.text };
            // They serve the next call, too, unless this one has changed them.
            *historians = is_untouched.then_some(fixture);
            return (answer.status, error, is_untouched);
        }
    }
    panic!("{} {} ends it", sample.method, sample.path)
}

#[test]
fn nothing_of_a_customer_who_catches_up_can_be_changed() {
    let world = World::new();
    let (mut historians, mut tried) = (None, 0);
    for endpoint in routes::table().into_iter().filter(changes_a_customer) {
        let goes_on = GOES_ON.iter().find(|(path, _)| endpoint.path == *path).map(|(_, is_listed)| *is_listed);
        let listed = calls::of_call(&endpoint).contains(&"catching_up");
        assert_eq!(
            listed,
            goes_on.unwrap_or(true),
            "{} {}: list catching_up in openapi/calls.rs",
            endpoint.method,
            endpoint.path
        );
        for sample in samples(&endpoint).into_iter().filter(is_done_at_once) {
            if goes_on.is_some() {
                assert_eq!(send_to_historians(&world, &mut historians, &sample).0, sample.status, "{}", sample.path);
                continue;
            }
            let expected = (409, "catching_up".to_owned(), true);
            assert_eq!(
                send_to_historians(&world, &mut historians, &sample),
                expected,
                "{} {}",
                sample.method,
                sample.path
            );
            tried += 1;
        }
    }
    assert!(tried >= 15, "{tried} calls change a customer");
}
