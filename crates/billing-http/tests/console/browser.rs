//! A real browser, driven over WebDriver: Debian's `chromium` and `chromium-driver`. Where they are not installed the test is left
//! out, except in continuous integration, which installs them. Screenshots are written into the folder of the build.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use billing_console::{Method, table};
use billing_domain::user::Role;
use serde_json::{Value, json};
use ureq::Agent;

use super::who_may::filled;
use super::{PASSWORD, user};
use crate::docs::packages::installed_by_npm;
use crate::samples::Fixture;
use crate::support::{Field, World, ago};

const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Widths of a phone and of a desk, in both schemes.
const LOOKS: [(u32, &str); 4] = [(390, "light"), (390, "dark"), (1440, "light"), (1440, "dark")];

/// A browser without a window.
pub(crate) struct Driver {
    process: Child,
    agent: Agent,
    session: String,
    base: String,
    screenshots: PathBuf,
}

impl Driver {
    /// `None`, and it is said, where no browser is installed; CI must have one.
    #[expect(clippy::print_stderr, reason = "a test that is skipped must be seen")]
    pub(crate) fn start(base: String) -> Option<Self> {
        let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = match started {
            Ok(process) => process,
            Err(error) => {
                assert!(env::var_os("CI").is_none(), "chromium-driver is not installed: {error}");
                eprintln!("SKIPPED: the console is looked at with chromium-driver, which is not installed: {error}");
                return None;
            }
        };
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let port = lines.find_map(|line| {
            let line = line.expect("a line");
            line.split_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.').to_owned())
        });
        let session = format!("http://127.0.0.1:{}/session", port.expect("it says where it listens"));
        let agent: Agent = Agent::config_builder().http_status_as_error(false).build().into();
        let screenshots = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console");
        fs::create_dir_all(&screenshots).expect("a folder");
        let mut driver = Self { process, agent, session, base, screenshots };
        let options = json!({"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]});
        let wanted = json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let made = driver.post("", &json!({"capabilities": {"alwaysMatch": wanted}}));
        driver.session = format!("{}/{}", driver.session, made["sessionId"].as_str().expect("a session"));
        Some(driver)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let sent = self.agent.post(format!("{}{path}", self.session)).send_json(body);
        let answer: Value = sent.expect("an answer").body_mut().read_json().expect("JSON");
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].clone()
    }

    /// Opens pages at another URL of the server from now on. Whoever has signed in still is, if the host is the same.
    pub(crate) fn goes_to(&mut self, base: String) {
        self.base = base;
    }

    pub(crate) fn open(&self, path: &str) {
        self.post("/url", &json!({"url": format!("{}{path}", self.base)}));
    }

    /// What a script returns.
    pub(crate) fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    pub(crate) fn write(&self, selector: &str, text: &str) {
        self.post(&format!("/element/{}/value", self.element(selector)), &json!({"text": text}));
    }

    pub(crate) fn click(&self, selector: &str) {
        self.post(&format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    /// Waits until a page whose path begins like this is there.
    pub(crate) fn arrives(&self, path: &str) {
        let began = Instant::now();
        loop {
            let here = self.script("return document.readyState === 'complete' ? location.pathname : ''");
            if here.as_str().is_some_and(|here| here.starts_with(path)) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{path} is not reached: {here}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a script says yes.
    pub(crate) fn waits(&self, script: &str) {
        let began = Instant::now();
        while self.script(&format!("return document.readyState === 'complete' && !!({script})")) != true {
            assert!(began.elapsed() < Duration::from_secs(30), "it never comes true: {script}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Signs somebody in, and waits for the first page.
    pub(crate) fn sign_in(&self, email: &str) {
        self.open("/console/sign-in/");
        self.write("#email", email);
        self.write("#password", PASSWORD);
        self.click("button[type=submit]");
        self.arrives("/console/");
    }

    /// How far what the page shows has moved while it was loading, on a phone and on a desk, as browsers measure it.
    pub(crate) fn shifts(&self, path: &str) -> Vec<f64> {
        let total = "return new Promise(done => {
            let total = 0;
            const add = entries => entries.forEach(entry => { total += entry.hadRecentInput ? 0 : entry.value; });
            const observer = new PerformanceObserver(list => add(list.getEntries()));
            observer.observe({type: 'layout-shift', buffered: true});
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => { add(observer.takeRecords()); done(total); })));
        })";
        let shifts = [390, 1440].map(|width| {
            let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
            self.devtools("Emulation.setDeviceMetricsOverride", &size);
            self.open(path);
            self.script(total).as_f64().expect("a number")
        });
        self.devtools("Emulation.clearDeviceMetricsOverride", &json!({}));
        shifts.to_vec()
    }

    /// Photographs a page as it looks on a phone and on a desk, light and dark. Nothing may be wider than the screen.
    pub(crate) fn photograph(&self, name: &str) {
        for (width, scheme) in LOOKS {
            let feature = json!({"name": "prefers-color-scheme", "value": scheme});
            self.devtools("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
            let size =
                |height: u64| json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
            self.devtools("Emulation.setDeviceMetricsOverride", &size(900));
            let is = self.script("const page = document.documentElement; return [page.scrollWidth, page.scrollHeight]");
            assert!(is[0].as_u64() <= Some(u64::from(width)), "{name} is {} wide on {width}", is[0]);
            let height = is[1].as_u64().unwrap_or_default().clamp(600, 4_000);
            self.devtools("Emulation.setDeviceMetricsOverride", &size(height));
            let picture = self.devtools("Page.captureScreenshot", &json!({"format": "png", "optimizeForSpeed": true}));
            let bytes = STANDARD.decode(picture["data"].as_str().expect("a picture")).expect("base64");
            fs::write(self.screenshots.join(format!("{name}-{width}-{scheme}.png")), bytes).expect("written");
        }
        self.devtools("Emulation.clearDeviceMetricsOverride", &json!({}));
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.agent.delete(self.session.as_str()).call());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// An accessibility checker: axe, from npm.
pub(crate) struct Checker(String);

impl Checker {
    /// `None`, and it is said, where it cannot be installed; CI must have it.
    pub(crate) fn installed() -> Option<Self> {
        let packages = installed_by_npm("axe-core-4.10.3", &["axe-core@4.10.3"])?;
        Some(Self(fs::read_to_string(packages.join("node_modules/axe-core/axe.min.js")).expect("the checker")))
    }

    /// What it finds on the page that is open: on a phone, and on a desk in both schemes.
    pub(crate) fn violations(&self, driver: &Driver) -> Vec<Value> {
        let mut found = Vec::new();
        for (width, scheme) in [(390, "light"), (1440, "dark"), (1440, "light")] {
            let feature = json!({"name": "prefers-color-scheme", "value": scheme});
            driver.devtools("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
            let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
            driver.devtools("Emulation.setDeviceMetricsOverride", &size);
            // It is half a megabyte, and stays until the next page.
            if driver.script("return Boolean(window.axe)") == json!(false) {
                driver.script(&self.0);
            }
            let run = "return axe.run(document, {resultTypes: ['violations']}).then(({violations, passes}) => ({checked: passes.length,
                found: violations.map(one => [one.id, one.help, one.nodes.slice(0, 3).map(node => node.html)])}))";
            let result = driver.script(run);
            assert!(result["checked"].as_u64() > Some(10), "it has looked at the page: {result}");
            found.extend(result["found"].as_array().cloned().unwrap_or_default());
        }
        driver.devtools("Emulation.clearDeviceMetricsOverride", &json!({}));
        found
    }
}

/// A world with a customer of a name made of markup, and one with usage and an invoice.
fn world() -> World {
    let world = World::new();
    let plan = world.plan(&world.metric());
    for (id, name) in [("acme", "Acme Corporation"), ("other", "<b>Other</b> & Sons")] {
        let body = json!({"customer_id": id, "customer_name": name, "email": format!("{id}@example.com")});
        world.post("/api/customers/", &body).ok(201);
    }
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::days(1))});
    world.post("/api/subscriptions/", &body).ok(200);
    user(&world, "finance@acme.example", world.organization, Role::Finance);
    world
}

#[test]
fn finance_opens_an_invoice_and_voids_it_once() {
    let world = world();
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.open("/");
    driver.arrives("/console/sign-in/");
    driver.photograph("sign-in");
    driver.write("#email", "finance@acme.example");
    driver.write("#password", PASSWORD);
    driver.click("button[type=submit]");
    driver.arrives("/console/");
    driver.photograph("home");
    driver.write("#search", "acme\n");
    driver.arrives("/console/customers/acme/");
    driver.photograph("customer");
    for (name, path) in [("customers", "/console/customers/"), ("invoices", "/console/invoices/")] {
        driver.open(path);
        driver.photograph(name);
    }
    let invoice = world.get("/api/invoices/").ok(200)[0].id("invoice_id");
    let path = format!("/console/invoices/{invoice}/");
    driver.open(&path);
    driver.click("details.line summary");
    driver.photograph("invoice");
    let shown = driver.script("return document.querySelector('details[open] .rounding').textContent");
    let explained = world.get(&format!("/api/invoices/{invoice}/explain/")).ok(200);
    let exact = explained["line_items"][0]["trace"]["rounding"]["exact_so_far"].to_string();
    assert!(shown.as_str().is_some_and(|shown| shown.contains(&exact)), "{exact}: {shown}");
    driver.click("a.danger");
    driver.arrives(&format!("{path}void/"));
    driver.photograph("void");
    driver.script("const button = document.querySelector('button.danger'); button.click(); button.click();");
    driver.arrives(&path);
    assert_eq!(world.get(&format!("/api/invoices/{invoice}/")).ok(200)["payment_status"], "voided");
    driver.script("history.back()");
    driver.arrives(&path);
    driver.script("location.reload()");
    driver.arrives(&path);
    let logged = driver.post("/se/log", &json!({"type": "browser"}));
    let faults: Vec<_> = logged.as_array().into_iter().flatten().filter(|line| line["level"] == "SEVERE").collect();
    assert!(faults.is_empty(), "the browser complains: {faults:?}");
    let elsewhere = "return performance.getEntriesByType('resource').map(one => one.name).filter(one => !one.startsWith(location.origin))";
    assert_eq!(driver.script(elsewhere), json!([]), "nothing is asked of anybody else");
}

#[test]
fn events_are_seen_as_they_come_in() {
    let world = World::new();
    world.customer("acme");
    user(&world, "ada@acme.example", world.organization, Role::Reader);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.open("/console/sign-in/?to=%2Fconsole%2Fevents%2F");
    driver.write("#email", "ada@acme.example");
    driver.write("#password", PASSWORD);
    driver.click("button[type=submit]");
    driver.arrives("/console/events/");
    let shown = || driver.script("return document.querySelector('.live').innerText").to_string();
    let until = |what: &str| {
        let began = Instant::now();
        while !shown().contains(what) {
            assert!(began.elapsed() < Duration::from_secs(20), "no {what}: {}", shown());
            thread::sleep(Duration::from_millis(50));
        }
    };
    let send = |id: &str| {
        let body = json!({"customer_id": "acme", "event_name": "<img src=x onerror=document.title='run'>", "idempotency_id": id,
            "time_created": ago(time::Duration::ZERO), "properties": {"<b>": "<script>document.title='run'</script>"}});
        world.post("/api/track/", &body).ok(201);
    };
    driver.script("window.isTheSamePage = true");
    until("Waiting for events.");
    send("first");
    until("first");
    until("1 came in since this page was opened.");
    driver.photograph("live-events");
    driver.click(".live button");
    until("Paused.");
    send("second");
    thread::sleep(Duration::from_secs(3));
    assert!(!shown().contains("second"), "{}", shown());
    driver.click(".live button");
    until("second");
    until("2 came in");
    let order = "return [...document.querySelectorAll('.live tbody tr')].map(row => row.lastElementChild.innerText)";
    assert_eq!(driver.script(order), json!(["second", "first"]), "the latest first");
    let found = "return [document.querySelectorAll('.live img, .live b, .live script').length, document.title, window.isTheSamePage]";
    assert_eq!(
        driver.script(found),
        json!([0, "Events \u{b7} Billing", true]),
        "names are text, and nothing was loaded again"
    );
    let signed_out = "const form = document.querySelector('form[action=\"/console/sign-out/\"]');
        return fetch(form.action, {method: 'POST', body: new URLSearchParams(new FormData(form))}).then(answer => answer.ok)";
    assert_eq!(driver.script(signed_out), json!(true));
    until("This has ended");
}

#[test]
fn every_page_fits_the_screen_and_an_accessibility_checker_finds_nothing() {
    let Some(checker) = Checker::installed() else { return };
    let world = World::new();
    let fixture = Fixture::new(&world, "First");
    user(&world, "owner@first.example", fixture.organization, Role::Owner);
    let second = world.opened.create_organization("Second", None).expect("made").0;
    user(&world, "owner@first.example", second, Role::Reader);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("owner@first.example");
    let mut faults = Vec::new();
    let rows = table().iter().filter(|row| row.method == Method::Get).map(|row| row.path);
    let looked_at = "/console/subscriptions/{subscription_id}/cancel/?preview=1";
    let receipt = "/console/customers/{customer_id}/event/?idempotency_id=event%20of%20First";
    let usage = format!("/console/customers/{{customer_id}}/usage/?metric_id={}", fixture.id("metric"));
    let grouped = "/console/search/?q=event%20of%20First";
    let others = [
        "/console/sessions/",
        "/console/identities/",
        "/console/organizations/",
        "/console/time_zone/",
        "/console/nothing/",
        "/console/search/?q=c",
        grouped,
        looked_at,
        receipt,
        &usage,
    ];
    for row in rows.chain(others) {
        let shifts = driver.shifts(&filled(row, &fixture));
        assert!(shifts.iter().all(|shift| *shift == 0.0), "{row} moves while it is loaded: {shifts:?}");
        driver.script("document.querySelectorAll('main details').forEach(one => one.open = true)");
        let name = row.trim_start_matches("/console").trim_matches('/').replace(['/', '{', '}', '?', '=', '%'], "-");
        driver.photograph(&format!("every-{name}"));
        faults.extend(checker.violations(&driver).into_iter().map(|fault| format!("{row}: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
