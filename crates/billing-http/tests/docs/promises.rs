//! That what the documents promise has tests.

use std::fs;
use std::path::{Path, PathBuf};

use billing_http::endpoint::Access;
use billing_http::routes;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(super) fn read(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of the table of proofs: promise and tests.
fn proofs() -> Vec<(String, Vec<String>)> {
    let document = read("docs/api.md");
    let (_, table) = document.split_once("<!-- proof: begin -->\n").expect("a begin marker");
    let (table, _) = table.split_once("<!-- proof: end -->").expect("an end marker");
    let rows = table.lines().skip(2).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').rsplitn(2, " | ").collect();
        let [tests, promise] = cells[..] else { panic!("{line}") };
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (promise.trim().to_owned(), tests)
    });
    rows.collect()
}

/// The file that a test is in, and its name.
pub(super) fn located(test: &str) -> (String, &str) {
    let (module, name) = test.rsplit_once("::").unwrap_or_else(|| panic!("{test} names no file"));
    let file = match module.split_once("::") {
        Some(("workflow", file)) => format!("crates/billing-domain/src/workflow/tests/{file}.rs"),
        Some(("pricing", file)) => format!("crates/billing-domain/tests/pricing/{file}.rs"),
        Some((folder, file)) => format!("crates/billing-http/tests/{folder}/{file}.rs"),
        None => format!("crates/billing-http/tests/{module}.rs"),
    };
    (file, name)
}

#[test]
fn every_promise_names_tests_that_exist() {
    let proofs = proofs();
    assert!(proofs.len() > 90);
    for (promise, tests) in proofs {
        // Headings are bold.
        assert!(!tests.is_empty() || promise.starts_with("**"), "no test proves: {promise}");
        for test in tests {
            let (file, name) = located(&test);
            assert!(read(&file).contains(&format!("\nfn {name}()")), "{file} has no test {name}: {promise}");
        }
    }
}

/// The calls of the interface that clients of the existing system know, beside those that every service adds.
const CORE: &[(&str, &str)] = &[
    ("GET", "/api/ping/"),
    ("GET", "/api/plans/"),
    ("GET", "/api/plans/{plan_id}/"),
    ("GET", "/api/customers/"),
    ("GET", "/api/customers/{customer_id}/"),
    ("GET", "/api/invoices/"),
    ("GET", "/api/credits/"),
    ("POST", "/api/credits/{credit_id}/update/"),
    ("POST", "/api/credits/{credit_id}/void/"),
    ("GET", "/api/metric_access/"),
    ("POST", "/api/subscriptions/"),
    ("POST", "/api/subscriptions/add/"),
    ("POST", "/api/subscriptions/update/"),
    ("POST", "/api/subscriptions/cancel/"),
    ("POST", "/api/subscriptions/{subscription_id}/update/"),
    ("POST", "/api/subscriptions/{subscription_id}/cancel/"),
    ("POST", "/api/subscriptions/{subscription_id}/switch_plan/"),
    ("POST", "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/"),
    ("POST", "/api/subscriptions/{subscription_id}/addons/attach/"),
    ("POST", "/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/"),
    ("POST", "/api/verify_idems_received/"),
];

#[test]
fn every_call_of_the_core_answers_200_and_has_a_row_for_itself_and_its_parameters() {
    let promises: String = proofs().into_iter().map(|(promise, _)| promise + "\n").collect();
    for (method, path) in CORE {
        let table = routes::table();
        let endpoint = table.iter().find(|endpoint| endpoint.method.as_str() == *method && endpoint.path == *path);
        let endpoint = endpoint.unwrap_or_else(|| panic!("{method} {path} is not served"));
        assert_eq!(endpoint.access, Access::Key, "{method} {path}");
        assert_eq!(endpoint.answer.as_ref().map(|(status, _)| *status), Some(200), "{method} {path}");
        assert!(promises.contains(&format!("`{method} {path}`")), "no row for {method} {path}");
        for parameter in endpoint.parameters.iter().filter(|parameter| !["limit", "cursor"].contains(&parameter.name)) {
            assert!(promises.contains(&format!("`{}`", parameter.name)), "no row for {} of {path}", parameter.name);
        }
    }
}

/// What the table has no row for: the calls beyond the interface's core are proven by the tests of every route.
#[test]
fn the_core_of_the_interface_has_rows() {
    let promises: String = proofs().into_iter().map(|(promise, _)| promise + "\n").collect();
    for endpoint in routes::table().iter().filter(|endpoint| endpoint.access == Access::Key) {
        let resource = endpoint.path.split('/').nth(2).unwrap_or_default();
        let is_core = ["ping", "metric_access", "verify_idems_received"].contains(&resource)
            || resource == "subscriptions" && endpoint.method.as_str() == "POST"
            || endpoint.path.starts_with("/api/credits/{credit_id}/") && endpoint.method.as_str() == "POST";
        let call = match endpoint.path {
            "/api/subscriptions/" => "`POST /api/subscriptions/`".to_owned(),
            path => format!("`{} {path}`", endpoint.method),
        };
        assert!(!is_core || promises.contains(&call), "no row for {call}");
    }
}
