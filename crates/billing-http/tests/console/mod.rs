//! The console over HTTP, as a browser without JavaScript uses it; `browser` uses a real one.

mod actions;
mod at_work;
pub(crate) mod browser;
mod changes;
mod curl;
mod customer_page;
mod forms;
pub(crate) mod openid;
mod openid_faults;
pub(crate) mod openid_provider;
mod pages;
mod pieces;
mod plan_builder;
mod programs;
mod sessions;
mod tails;
mod who_may;
mod zones;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;

use billing_console::asset;
use billing_domain::id::OrganizationId;
use billing_domain::store::Users;
use billing_domain::user::Role;
use billing_http::password;
use flate2::Compression;
use flate2::write::GzEncoder;
use ureq::Agent;
use ureq::http::Request;

use crate::support::{Answer, World};

/// What everybody signs in with here.
pub const PASSWORD: &str = "correct horse battery";

/// Makes a user.
pub fn user(world: &World, email: &str, organization: OrganizationId, role: Role) {
    static HASH: OnceLock<String> = OnceLock::new();
    let hash = HASH.get_or_init(|| password::hash(PASSWORD).expect("hashed"));
    world.opened.store.put_user(email, hash, organization, role).expect("a user");
}

/// A browser: it keeps cookies, and follows nothing by itself.
pub struct Browser {
    /// Host and port.
    at: String,
    agent: Agent,
    pub cookies: RefCell<BTreeMap<String, String>>,
    pub headers: Vec<(&'static str, String)>,
}

impl Browser {
    pub fn new(world: &World) -> Self {
        Self::at(&world.addr().to_string())
    }

    /// Of the service that listens there.
    pub fn at(addr: &str) -> Self {
        let agent = Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
        Self { at: addr.to_owned(), agent, cookies: RefCell::default(), headers: Vec::new() }
    }

    /// Of somebody who is signed in.
    pub fn signed_in(world: &World, email: &str) -> Self {
        let browser = Self::new(world);
        let answer = browser.sign_in(email, PASSWORD);
        assert_eq!((answer.status, answer.header("location")), (303, "/console/"), "{}", answer.text);
        browser
    }

    /// Opens the form to sign in with, and sends it.
    pub fn sign_in(&self, email: &str, password: &str) -> Answer {
        let form = self.get("/console/sign-in/");
        let token = token(&form);
        self.post("/console/sign-in/", &[("form_token", &token), ("email", email), ("password", password)])
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let escaped = |text: &str| billing_console::visit::escaped(text);
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
        self.send("POST", path, Some(pairs.join("&")))
    }

    fn send(&self, method: &str, path: &str, form: Option<String>) -> Answer {
        self.try_send(method, path, form).expect("an answer")
    }

    /// The same where the service may be gone before it has answered.
    pub fn try_get(&self, path: &str) -> Option<Answer> {
        self.try_send("GET", path, None)
    }

    fn try_send(&self, method: &str, path: &str, form: Option<String>) -> Option<Answer> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.at));
        let cookies: Vec<String> =
            self.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if form.is_some() {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        let request = request.body(form.unwrap_or_default().into_bytes()).expect("a request");
        let mut response = self.agent.run(request).ok()?;
        for cookie in response.headers().get_all("set-cookie") {
            let text = cookie.to_str().expect("text").to_owned();
            let (name, value) = text.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            match text.contains("Max-Age=0") {
                true => drop(self.cookies.borrow_mut().remove(name)),
                false => drop(self.cookies.borrow_mut().insert(name.to_owned(), value.to_owned())),
            }
        }
        let text = response.body_mut().read_to_string().ok()?;
        Some(Answer { status: response.status().as_u16(), headers: response.headers().clone(), text })
    }
}

/// Most bytes that somebody waits for who opens a page for the first time.
const PAGE_BYTES_MAX: usize = 60_000;

/// Asserts what a page weighs as it is sent, compressed, with all that it loads.
pub fn assert_light(path: &str, page: &str) {
    let weight = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).expect("compressed");
        encoder.finish().expect("compressed").len()
    };
    let bytes = weight(page) + asset::ALL.iter().map(|(_, _, text)| weight(text)).sum::<usize>();
    assert!(bytes < PAGE_BYTES_MAX, "{path} weighs {bytes} bytes");
}

/// The value of a hidden field of a page: the last one of that name, which is the main form's.
pub fn hidden(page: &Answer, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.text.rsplit_once(&start).unwrap_or_else(|| panic!("no field {name}: {}", page.text)).1;
    rest.split('"').next().expect("an end").to_owned()
}

pub fn token(page: &Answer) -> String {
    hidden(page, "form_token")
}
