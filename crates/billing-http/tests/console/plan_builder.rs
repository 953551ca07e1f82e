//! Plans and versions that are built with the form: as the API makes them, with their prices tried before.

use billing_domain::user::Role;
use serde_json::{Value, json};

use super::browser::Driver;
use super::{Browser, hidden, token, user};
use crate::resources::plan_previews::{graduated, invoiced_for_april, summing_metric};
use crate::support::{Answer, Field, World};

const FINANCE: &str = "finance@acme.example";
const NEW: &str = "/console/plans/new/";

/// The form of a page as a browser holds it: each field with what stands in it.
struct Builder<'w> {
    browser: &'w Browser,
    path: String,
    page: Answer,
    fields: Vec<(String, String)>,
}

fn read(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

fn fields_of(page: &str) -> Vec<(String, String)> {
    let form = page.split("class=\"builder\"").nth(1).and_then(|rest| rest.split("</form>").next()).expect("the form");
    let (mut fields, mut options): (Vec<(String, String)>, Vec<(String, bool)>) = Default::default();
    for tag in form.split('<').skip(1) {
        let tag_itself = tag.split('>').next().unwrap_or_default();
        let attribute = |name: &str| {
            let (_, rest) = tag_itself.split_once(&format!(" {name}=\""))?;
            rest.split('"').next().map(read)
        };
        if tag.starts_with("input") || tag.starts_with("select") {
            fields.push((attribute("name").expect("a name"), attribute("value").unwrap_or_default()));
            options.clear();
        } else if tag.starts_with("option") {
            options.push((attribute("value").unwrap_or_default(), tag_itself.ends_with(" selected")));
        } else if tag.starts_with("/select") {
            let chosen = options.iter().find(|(_, is_chosen)| *is_chosen).or(options.first()).cloned();
            if let (Some((_, value)), Some((chosen, _))) = (fields.last_mut(), chosen) {
                *value = chosen;
            }
        }
    }
    fields
}

impl<'w> Builder<'w> {
    fn open(browser: &'w Browser, path: &str) -> Self {
        let page = browser.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        let fields = fields_of(&page.text);
        Self { browser, path: path.to_owned(), page, fields }
    }

    fn value(&self, name: &str) -> &str {
        let field = self.fields.iter().find(|(other, _)| other == name);
        &field.unwrap_or_else(|| panic!("no field {name}: {:?}", self.fields)).1
    }

    fn fill(&mut self, values: &[(&str, &str)]) {
        for (name, value) in values {
            let field = self.fields.iter_mut().find(|(other, _)| other == name);
            (*value).clone_into(&mut field.unwrap_or_else(|| panic!("no field {name}")).1);
        }
    }

    /// Presses a button: what it answers. The form is what comes back, if one does.
    fn press(&mut self, button: &str) -> u16 {
        let is_there = self.page.status != 200 || self.page.text.contains(&format!("value=\"{button}\""));
        assert!(is_there, "no button {button}: {}", self.page.text);
        let mut sent: Vec<(&str, &str)> = self.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        sent.push(("do", button));
        self.page = self.browser.post(&self.path, &sent);
        if self.page.status == 200 {
            self.fields = fields_of(&self.page.text);
        }
        self.page.status
    }

    /// Sends the form to make what was built, twice: the second time is a double click. Where the first led.
    fn save(&mut self) -> String {
        let again: Vec<(String, String)> = self.fields.clone();
        assert_eq!(self.press("save"), 303, "{}", self.page.text);
        let led = self.page.header("location").to_owned();
        let mut sent: Vec<(&str, &str)> = again.iter().map(|(name, value)| (&**name, &**value)).collect();
        sent.push(("do", "save"));
        assert_eq!(self.browser.post(&self.path, &sent).header("location"), led, "the same once more");
        led
    }

    fn fault(&self, name: &str) -> &str {
        let begin = format!("<p class=\"fault\" id=\"{name}-fault\">");
        let rest =
            self.page.text.split_once(&begin).unwrap_or_else(|| panic!("no fault at {name}: {}", self.page.text)).1;
        rest.split('<').next().expect("an end")
    }
}

/// Builds the plan that [`graduated`] is, row by row.
fn build_graduated<'w>(browser: &'w Browser, metric: &str) -> Builder<'w> {
    let mut form = Builder::open(browser, NEW);
    assert_eq!(form.value("plan_duration"), "monthly", "as most plans are");
    form.fill(&[("plan_name", "Graduated"), ("components.0.metric_id", metric)]);
    form.fill(&[("components.0.tiers.0.type", "free"), ("components.0.tiers.0.range_end", "10")]);
    assert_eq!(form.press("add components.0.tiers"), 200);
    assert_eq!(form.value("components.0.tiers.1.range_start"), "10", "it begins where the one before it ends");
    form.fill(&[
        ("components.0.tiers.1.range_end", "1000"),
        ("components.0.tiers.1.cost_per_batch", "0.0137"),
        ("components.0.tiers.1.metric_units_per_batch", "3"),
    ]);
    form.press("add components.0.tiers");
    form.fill(&[
        ("components.0.tiers.2.type", "flat"),
        ("components.0.tiers.2.range_end", "2000"),
        ("components.0.tiers.2.cost_per_batch", "4.5"),
    ]);
    form.press("add components.0.tiers");
    form.fill(&[
        ("components.0.tiers.3.cost_per_batch", "0.77"),
        ("components.0.tiers.3.metric_units_per_batch", "100"),
        ("components.0.tiers.3.batch_rounding_type", "round_up"),
    ]);
    form.press("add recurring_charges");
    form.fill(&[("recurring_charges.0.name", "base"), ("recurring_charges.0.amount", "9.99")]);
    form
}

/// A plan's newest version without what is its own.
fn newest(world: &World, plan: &str) -> Value {
    let mut plan = world.get(&format!("/api/plans/{plan}/")).ok(200);
    let mut version = plan["versions"].as_array_mut().expect("versions").pop().expect("a version");
    for own in ["version_id", "active_from", "created_on"] {
        version.as_object_mut().expect("an object").remove(own);
    }
    version["plan"] = json!([plan["plan_name"], plan["plan_duration"]]);
    version
}

fn plan_of(led: &str) -> String {
    led.trim_end_matches('/').rsplit('/').next().expect("an id").to_owned()
}

fn world() -> (World, String) {
    let world = World::new();
    let metric = summing_metric(&world);
    user(&world, FINANCE, world.organization, Role::Finance);
    (world, metric)
}

#[test]
fn a_plan_is_built_as_the_api_makes_it_with_the_price_that_is_billed() {
    let (world, metric) = world();
    let finance = Browser::signed_in(&world, FINANCE);
    assert!(finance.get("/console/plans/").text.contains(&format!("href=\"{NEW}\"")), "the list leads there");
    let mut form = build_graduated(&finance, &metric);
    form.fill(&[("components.0.quantity", "2345.5")]);
    let before = world.snapshot();
    assert_eq!(form.press("try"), 200);
    assert!(world.snapshot() == before, "trying a price writes nothing");
    let tried = form.page.text.clone();
    assert!(
        tried.contains("units of &lt;call&gt;") && !tried.contains("units of <call>"),
        "markup of others stays text"
    );
    assert_eq!(form.value("components.0.quantity"), "2345.5", "what was typed stays");
    assert_eq!(tried.matches("stroke=\"#1D4ED8\"").count(), 2, "its curve is drawn, on two pictures");

    let plan = plan_of(&form.save());
    let by_api = world.post("/api/plans/", &graduated(&metric)).ok(201).id("plan_id");
    assert_eq!(newest(&world, &plan), newest(&world, &by_api));
    let plans = world.get("/api/plans/").ok(200);
    assert_eq!(
        plans.as_array().expect("a list").len(),
        2,
        "one by the form, although it was sent twice, and one by the API"
    );

    let invoiced = invoiced_for_april(&world, &plan, &json!(2345.5));
    let priced = tried.split("id=\"price\"").nth(1).expect("the price");
    assert_eq!(invoiced.len(), 2);
    for line in &invoiced {
        let amount = line["amount"].to_string();
        assert!(priced.contains(&format!(">{amount}")), "{amount} is invoiced: {priced}");
        for step in line["trace"]["rating"]["walk"].as_array().into_iter().flatten() {
            let amount = step["amount"].to_string();
            assert!(priced.contains(&format!(">{amount}")), "{amount} of a tier: {priced}");
        }
    }
    assert!(priced.contains(">22.09 <"), "the sum: {priced}");
}

#[test]
fn rows_come_and_go_and_all_that_was_typed_stays() {
    let (world, metric) = world();
    let finance = Browser::signed_in(&world, FINANCE);
    let mut form = Builder::open(&finance, NEW);
    form.fill(&[
        ("plan_name", "A \"<b>\" & co"),
        ("components.0.metric_id", &metric),
        ("components.0.tiers.0.range_end", "5"),
    ]);
    form.press("add components");
    form.fill(&[("components.1.quantity", "7"), ("components.1.reset_interval_unit", "month")]);
    form.press("add components.1.tiers");
    form.fill(&[("components.1.tiers.1.cost_per_batch", "0.30")]);
    form.press("add recurring_charges");
    form.fill(&[("recurring_charges.0.name", "first")]);
    form.press("add recurring_charges");
    form.fill(&[("recurring_charges.1.name", "second"), ("recurring_charges.1.charge_timing", "in_arrears")]);
    form.press("remove recurring_charges.0");
    form.press("remove components.1.tiers.0");
    form.press("remove components.0");
    #[rustfmt::skip]
    let cases = [
        ("plan_name",                           "A \"<b>\" & co", "a name made of markup"),
        ("currency_code",                       "USD",            "the organization's"),
        ("recurring_charges.0.name",            "second",         "the one that is left"),
        ("recurring_charges.0.charge_timing",   "in_arrears",     "as it was chosen"),
        ("components.0.metric_id",              "",               "nothing was chosen there"),
        ("components.0.quantity",               "7",              "the second, which is the first now"),
        ("components.0.reset_interval_unit",    "month",          "where it is folded up, too"),
        ("components.0.tiers.0.cost_per_batch", "0.30",           "as it was typed"),
    ];
    for (name, value, why) in cases {
        assert_eq!(form.value(name), value, "{why}");
    }
    let is_left = |name: &str| form.fields.iter().any(|(other, _)| other.starts_with(name));
    assert!(!is_left("components.1.") && !is_left("components.0.tiers.1.") && !is_left("recurring_charges.1."));
    assert_eq!(world.get("/api/plans/").ok(200), json!([]), "nothing is made by any of it");
    for button in ["add nothing", "add components.9.tiers", "remove plan_name", "remove components.9", "remove "] {
        let before = form.fields.clone();
        let mut sent: Vec<(&str, &str)> = before.iter().map(|(name, value)| (&**name, &**value)).collect();
        sent.push(("do", button));
        let same = finance.post(NEW, &sent);
        let without_once = |fields: Vec<(String, String)>| -> Vec<_> {
            fields.into_iter().filter(|(name, _)| name != "once").collect()
        };
        assert_eq!((same.status, without_once(fields_of(&same.text))), (200, without_once(before.clone())), "{button}");
    }
}

#[test]
fn what_is_wrong_stands_at_its_field() {
    let (world, metric) = world();
    let finance = Browser::signed_in(&world, FINANCE);
    for button in ["try", "save"] {
        let mut form = build_graduated(&finance, &metric);
        form.fill(&[
            ("plan_name", ""),
            ("recurring_charges.0.amount", "ten"),
            ("recurring_charges.0.invoicing_interval_count", "x"),
            ("components.0.tiers.1.range_start", "12"),
            ("components.0.tiers.3.cost_per_batch", "-1"),
        ]);
        assert_eq!(form.press(button), 200, "{button}");
        assert_eq!(form.fault("plan_name"), "This field is required.", "{button}");
        assert!(form.fault("recurring_charges.0.amount").contains("number"), "{button}");
        assert!(!form.fault("recurring_charges.0.invoicing_interval_count").is_empty(), "{button}");
        assert!(
            form.fault("components.0.tiers.1.range_start").contains("starts where the one before it ends"),
            "{button}"
        );
        assert_eq!(form.fault("components.0.tiers.3.cost_per_batch"), "A price is not below 0.", "{button}");
        assert_eq!(form.page.text.matches("class=\"fault\"").count(), 5, "{button}: nowhere else");
        assert_eq!(form.value("recurring_charges.0.amount"), "ten", "{button}: what was typed stays");
        form.fill(&[
            ("plan_name", "Right"),
            ("recurring_charges.0.amount", "10"),
            ("recurring_charges.0.invoicing_interval_count", ""),
            ("components.0.tiers.1.range_start", "10"),
            ("components.0.tiers.3.cost_per_batch", "1"),
            ("components.0.quantity", "-3"),
        ]);
        form.press("try");
        assert!(form.fault("components.0.quantity").contains("greater than or equal to 0"), "{button}");
        form.save();
    }
    let mut form = Builder::open(&finance, NEW);
    form.press("remove components.0.tiers.0");
    form.fill(&[("plan_name", "No tiers"), ("components.0.metric_id", &metric), ("currency_code", "XXX")]);
    form.press("save");
    assert!(
        form.page.text.contains("components.0") && form.page.text.contains("class=\"fault\""),
        "{}",
        form.page.text
    );
    assert_eq!(world.get("/api/plans/").ok(200).as_array().expect("a list").len(), 2);
    form.fill(&[("components.0.prepaid_charge.charge_behavior", "full"), ("currency_code", "USD")]);
    form.press("add components.0.tiers");
    form.fill(&[("components.0.tiers.0.cost_per_batch", "1")]);
    form.press("try");
    assert!(form.page.text.contains("role=\"alert\""), "nobody says how many units: {}", form.page.text);
    form.fill(&[("components.0.prepaid_charge.units", "20")]);
    form.press("try");
    assert!(form.page.text.contains(">20.00 <"), "twenty units in advance: {}", form.page.text);
}

#[test]
fn a_version_begins_with_the_newest_and_takes_its_place() {
    let (world, metric) = world();
    world.write("PATCH", "/api/organization/", br#"{"timezone": "Europe/Berlin"}"#).ok(200);
    let finance = Browser::signed_in(&world, FINANCE);
    let feature = world.post("/api/features/", &json!({"feature_name": "sso"})).ok(201).id("feature_id");
    let mut body = graduated(&metric);
    body["initial_version"]["features"] = json!([feature]);
    body["initial_version"]["price_adjustment"] =
        json!({"price_adjustment_name": "off", "price_adjustment_type": "percentage", "price_adjustment_amount": -10});
    body["initial_version"]["components"][0]["prepaid_charge"] = json!({"units": 30, "charge_behavior": "full"});
    body["initial_version"]["components"][0]["reset_interval_unit"] = json!("month");
    let plan = world.post("/api/plans/", &body).ok(201).id("plan_id");
    let first = newest(&world, &plan);
    let page = format!("/console/plans/{plan}/");
    assert!(finance.get(&page).text.contains(&format!("href=\"{page}new_version/\"")), "the plan leads there");

    let mut form = Builder::open(&finance, &format!("{page}new_version/"));
    assert_eq!(form.save(), page);
    let mut same = newest(&world, &plan);
    assert_eq!(same["version"], 2);
    same["version"] = json!(1);
    assert_eq!(same, first, "untouched, it says what the newest said");
    let versions = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"].as_array().expect("a list").clone();
    assert_eq!(versions.len(), 2, "once");
    assert_eq!(versions[0]["replace_with"], versions[1]["version_id"], "by renewing");

    let mut form = Builder::open(&finance, &format!("{page}new_version/"));
    form.fill(&[
        ("recurring_charges.0.amount", "19.99"),
        ("make_active_type", "grandfather"),
        ("active_from", "2031-03-31T10:30"),
        ("components.0.quantity", "0"),
    ]);
    form.press("try");
    assert!(form.page.text.contains(">17.99 <"), "19.99 less ten percent: {}", form.page.text);
    assert_eq!(form.value("active_from"), "2031-03-31T10:30", "as it was typed");
    form.save();
    let versions = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"].as_array().expect("a list").clone();
    assert_eq!(
        (versions.len(), &versions[2]["active_from"]),
        (3, &json!("2031-03-31T08:30:00Z")),
        "by the viewer's clock"
    );
    assert_eq!(versions[1]["replace_with"], versions[1]["version_id"], "whoever has it stays");

    let mut form = Builder::open(&finance, &format!("{page}new_version/"));
    form.fill(&[("active_from", "soon")]);
    form.press("save");
    assert!(form.fault("active_from").contains("no date and time"), "{}", form.page.text);
}

#[test]
fn a_form_that_was_sent_before_makes_nothing_else() {
    let (world, metric) = world();
    let finance = Browser::signed_in(&world, FINANCE);
    let mut form = build_graduated(&finance, &metric);
    let before = form.fields.clone();
    form.save();
    form.fields = before;
    form.fill(&[("plan_name", "Another by the button back")]);
    assert_eq!(form.press("save"), 200);
    assert!(form.page.text.contains("role=\"alert\"") && form.value("plan_name").starts_with("Another"));
    assert_eq!(world.get("/api/plans/").ok(200).as_array().expect("a list").len(), 1, "nothing is made by it");
    let other = "eve@second.example";
    user(&world, other, world.opened.create_organization("Second", None).expect("made").0, Role::Owner);
    let eve = Browser::signed_in(&world, other);
    let page = eve.get(NEW);
    assert!(!page.text.contains(&metric), "another tenant's metrics are not offered");
    let forged = [
        ("form_token", token(&page)),
        ("once", hidden(&page, "once")),
        ("do", "save".to_owned()),
        ("plan_name", "Forged".to_owned()),
        ("currency_code", "USD".to_owned()),
        ("components.0.metric_id", metric),
        ("components.0.tiers.0.type", "free".to_owned()),
        ("components.0.tiers.0.range_start", "0".to_owned()),
    ];
    let refused = eve.post(NEW, &forged.each_ref().map(|(name, value)| (*name, value.as_str())));
    assert!(refused.text.contains("id=\"components.0.metric_id-fault\""), "nor taken: {}", refused.text);
}

/// With the console's script, and without it.
#[test]
fn a_price_is_tried_in_a_browser_before_it_is_published() {
    let (world, metric) = world();
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in(FINANCE);
    driver.devtools("Network.enable", &json!({}));
    for (round, blocked) in [json!([]), json!(["*/script-*"])].into_iter().enumerate() {
        driver.devtools("Network.setBlockedURLs", &json!({"urls": blocked}));
        driver.open(NEW);
        driver.write("[name=plan_name]", "Tried <first>");
        driver.script(&format!("document.querySelector('[name=\"components.0.metric_id\"]').value = '{metric}'"));
        driver.write("[name='components.0.tiers.0.range_end']", "100");
        driver.write("[name='components.0.tiers.0.cost_per_batch']", "0.05");
        driver.click("[value='add components.0.tiers']");
        driver.waits("document.querySelector('[name=\"components.0.tiers.1.range_start\"]')?.value === '100'");
        driver.write("[name='components.0.tiers.1.cost_per_batch']", "0.013");
        driver.click("[value='add components']");
        driver.waits("document.querySelector('[name=\"components.1.metric_id\"]')");
        driver.click("[value='remove components.1']");
        driver.waits("!document.querySelector('[name=\"components.1.metric_id\"]')");
        // Enter in a field tries the price: it neither takes a row away nor makes the plan.
        driver.write("[name='components.0.quantity']", "1234\n");
        driver.waits("document.querySelector('#price .sum')?.textContent.includes('19.74')");
        driver.script("document.querySelectorAll('#price details').forEach(one => one.open = true)");
        driver.photograph(&format!("plan-builder-{round}"));
        assert_eq!(world.get("/api/plans/").ok(200).as_array().expect("a list").len(), round, "nothing is made yet");
        driver.click(".links [value=save]");
        driver.arrives("/console/plans/plan_");
        let made = world.get("/api/plans/").ok(200);
        assert_eq!(
            (made.as_array().expect("a list").len(), &made[0]["plan_name"]),
            (round + 1, &json!("Tried <first>"))
        );
        assert_eq!(made[0]["versions"][0]["components"][0]["tiers"][1]["cost_per_batch"].to_string(), "0.013");
    }
    let faults = driver.post("/se/log", &json!({"type": "browser"}));
    let policy: Vec<&Value> = faults
        .as_array()
        .into_iter()
        .flatten()
        .filter(|line| line["message"].as_str().is_some_and(|text| text.contains("Content Security Policy")))
        .collect();
    assert!(policy.is_empty(), "the browser lets all of it be: {policy:?}");
}
