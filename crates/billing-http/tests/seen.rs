//! Which codes the service is seen to answer with, call by call.
//!
//! Every answer that a test gets passes by here. A code that its call is not documented with fails the test at once; what
//! is seen is noted in a file, and the last step of continuous integration holds the documentation against all of it.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

use billing_http::endpoint::Endpoint;
use billing_http::error::codes;
use billing_http::openapi::calls;
use billing_http::routes;
use serde_json::Value;

use crate::support::Answer;

/// Where it is noted: one line for each call and code, any number of times.
const SEEN: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/seen_codes.txt");
/// Of no call in particular: the path or the method leads nowhere.
const NOWHERE: &[&str] = &["not_found", "method_not_allowed"];

/// A call, as its documentation has it.
struct Known {
    method: String,
    path: &'static str,
    codes: BTreeSet<&'static str>,
}

impl Known {
    fn new(endpoint: &Endpoint) -> Self {
        let (method, codes) = (endpoint.method.to_string(), calls::of_call(endpoint).into_iter().collect());
        Self { method, path: endpoint.path, codes }
    }

    /// How many parts of `path` the call's own path names outright; none when they differ.
    fn fits(&self, method: &str, path: &str) -> Option<usize> {
        let (known, asked) = (self.path.trim_end_matches('/').split('/'), path.trim_end_matches('/').split('/'));
        if self.method != method || known.clone().count() != asked.clone().count() {
            return None;
        }
        let mut named = 0;
        for (known, asked) in known.zip(asked) {
            if known == asked {
                named += 1;
            } else if !known.starts_with('{') {
                return None;
            }
        }
        Some(named)
    }
}

/// The call that a request is for.
fn call(method: &str, target: &str) -> Option<&'static Known> {
    static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| routes::table().iter().map(Known::new).collect());
    let path = target.split('?').next().unwrap_or_default();
    let fitting = known.iter().filter_map(|known| Some((known.fits(method, path)?, known)));
    fitting.max_by_key(|(named, _)| *named).map(|(_, known)| known)
}

/// The codes in an error answer: its own, and those of its fields.
fn codes_of(answer: &Answer) -> Vec<String> {
    if answer.header("content-type") != "application/problem+json" {
        return Vec::new();
    }
    let Ok(body) = serde_json::from_str::<Value>(&answer.text) else { return Vec::new() };
    let faults = body["validation_errors"].as_array().into_iter().flatten().map(|fault| &fault["code"]);
    std::iter::once(&body["title"]).chain(faults).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Notes what an answer says.
pub fn note(method: &str, target: &str, answer: &Answer) {
    let codes = codes_of(answer);
    if codes.is_empty() {
        return;
    }
    let call = call(method, target);
    let mut lines = String::new();
    for code in codes {
        let is_of_call = call.is_some_and(|call| call.codes.contains(code.as_str()));
        assert!(
            is_of_call || NOWHERE.contains(&code.as_str()),
            "{method} {target} answered {code}, which openapi/calls.rs does not list for it: {}",
            answer.text
        );
        let of = call.filter(|_| is_of_call).map_or_else(String::new, |call| format!("{} {}", call.method, call.path));
        lines.push_str(&format!("{of}\t{code}\n"));
    }
    append(&lines);
}

/// As [`note`], of an answer that was read off the wire as text.
pub fn note_text(text: &str) {
    let Some(title) = text.split("\"title\":\"").nth(1).and_then(|rest| rest.split('"').next()) else { return };
    append(&format!("\t{title}\n"));
}

fn append(lines: &str) {
    let file = OpenOptions::new().create(true).append(true).open(SEEN);
    file.and_then(|mut file| file.write_all(lines.as_bytes())).expect("the codes that were seen are noted");
}

#[test]
#[ignore = "looks back on a run of all tests, as `cargo xtask ci` makes it"]
fn every_documented_code_was_seen() {
    let text = fs::read_to_string(SEEN).expect("a run of all tests before this one");
    let seen: BTreeSet<(&str, &str)> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    let seen_anywhere: BTreeSet<&str> = seen.iter().map(|(_, code)| *code).collect();
    let never: Vec<&str> =
        codes::table().into_iter().map(|(code, ..)| code).filter(|code| !seen_anywhere.contains(code)).collect();
    assert_eq!(never, [""; 0], "codes that are documented and that no answer had");
    let mut missing = Vec::new();
    for endpoint in routes::table() {
        let of = format!("{} {}", endpoint.method, endpoint.path);
        for code in calls::of_rules(&endpoint.method, endpoint.path) {
            if !seen.contains(&(of.as_str(), code.text)) {
                missing.push(format!("{of}: {}", code.text));
            }
        }
    }
    assert_eq!(missing, [""; 0], "rules that are documented for a call and that it never answered with");
    // The next run begins anew.
    fs::remove_file(SEEN).expect("removed");
}
