//! The interactive page and the codes in a real browser: on a phone and on a desk, light and dark, with an accessibility checker, and
//! that the page writes nothing that nobody has agreed to.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::console::browser::{Checker, Driver};
use crate::support::{Field, World};

/// A call whose example needs a customer, a metric and a plan.
const CALL: &str = "create_subscription";

/// Waits until a script answers true.
fn until(driver: &Driver, script: &str) {
    let began = Instant::now();
    while driver.script(script) != json!(true) {
        assert!(began.elapsed() < Duration::from_secs(30), "it never comes: {script}");
        sleep(Duration::from_millis(20));
    }
}

fn count(world: &World) -> [usize; 3] {
    let paths = ["customers", "metrics", "plans"];
    paths.map(|name| world.get(&format!("/api/{name}/")).ok(200).as_array().expect("a list").len())
}

#[test]
fn the_page_asks_before_it_writes_and_fits_every_screen() {
    let world = World::new();
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    let ready = "return document.querySelectorAll('details.call').length > 50";
    driver.open("/docs/");
    until(&driver, ready);
    driver.photograph("docs");
    driver.write("#key", &world.key);
    driver.script("location.reload()");
    until(&driver, ready);
    assert_eq!(driver.script("return document.getElementById('key').value"), world.key, "the key survives a reload");

    let call = format!("#{CALL}");
    driver.click(&format!("{call} > summary"));
    until(&driver, &format!("return !!document.querySelector('{call} textarea')"));
    driver.photograph("docs-call");
    let nothing = count(&world);
    // By the page itself: its head stays in sight, and may lie over what was scrolled to.
    let press = |button: &str| driver.script(&format!("document.querySelector('{call} {button}').click()"));
    press("button.quiet");
    until(&driver, &format!("return !!document.querySelector('{call} .ask')"));
    let asked = driver.script(&format!("return document.querySelector('{call} .ask').textContent"));
    for part in ["Make them now?", "POST /api/customers/", "POST /api/metrics/", "POST /api/plans/", "Cancel"] {
        assert!(asked.as_str().is_some_and(|asked| asked.contains(part)), "{part}: {asked}");
    }
    driver.photograph("docs-asks");
    press(".ask button.quiet");
    until(&driver, &format!("return document.querySelector('{call}').textContent.includes('Nothing was called.')"));
    assert_eq!(count(&world), nothing, "nobody has agreed");

    press("button.quiet");
    until(&driver, &format!("return !!document.querySelector('{call} .ask')"));
    press(".ask button:not(.quiet)");
    until(&driver, &format!("return document.querySelector('{call}').textContent.includes('Called for it: ')"));
    assert_eq!(count(&world), [1, 1, 1], "what it has said");
    let customer = world.get("/api/customers/").ok(200)[0].id("customer_id");
    let held = || world.get(&format!("/api/subscriptions/?customer_id={customer}")).ok(200);
    assert_eq!(held(), json!([]), "and not the call itself");
    driver.script(&format!(
        "[...document.querySelectorAll('{call} button')].find(one => one.textContent === 'Send').click()"
    ));
    until(&driver, &format!("return !!document.querySelector('{call} .worked')"));
    assert_eq!((held().as_array().map(Vec::len), count(&world)), (Some(1), [1, 1, 1]));
    driver.photograph("docs-answer");
}

#[test]
fn an_accessibility_checker_finds_nothing() {
    let Some(checker) = Checker::installed() else { return };
    let world = World::new();
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.open("/docs/");
    until(&driver, "return document.querySelectorAll('details.call').length > 50");
    assert_eq!(checker.violations(&driver), Vec::<Value>::new(), "the list of calls");
    driver.script(&format!("document.querySelectorAll('#{CALL} summary').forEach(one => one.click())"));
    until(&driver, &format!("return !!document.querySelector('#{CALL} textarea')"));
    driver.script(&format!("document.querySelector('#{CALL} details summary').click()"));
    assert_eq!(checker.violations(&driver), Vec::<Value>::new(), "a call that is open");
    driver.open("/docs/errors");
    driver.photograph("docs-errors");
    assert_eq!(checker.violations(&driver), Vec::<Value>::new(), "the codes");
}
