//! An existing client of this interface, unmodified: the Python package of the system that the interface comes from.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;

use super::packages::installed_by_pip;
use crate::support::{Field, World, plan_body};

/// The package, and what it needs: its models are of the first generation of pydantic.
const PACKAGES: [&str; 2] = ["lotus-python==0.12.0", "pydantic<2"];
const SCRIPT: &str = include_str!("lotus_python.py");

/// A folder with the packages in it.
pub fn packages() -> Option<PathBuf> {
    installed_by_pip("lotus-python-0.12.0", &PACKAGES)
}

fn run(packages: &Path, world: &World, names: &[(&str, String)]) -> Output {
    Command::new("python3")
        .args(["-W", "ignore", "-c", SCRIPT])
        .env("PYTHONPATH", packages)
        .env("URL", format!("http://{}", world.addr()))
        .env("KEY", &world.key)
        .envs(names.iter().map(|(name, value)| (*name, value.as_str())))
        .output()
        .expect("python3")
}

#[test]
fn the_whole_python_client_works_unmodified() {
    let Some(packages) = packages() else { return };
    let world = World::new();
    let metric = world.metric();
    let feature = |name: &str| world.post("/api/features/", &json!({"feature_name": name})).ok(201).id("feature_id");
    let (support, _) = (feature("support"), feature("sso"));
    let plan = |name: &str| {
        let mut body = plan_body(name, &metric);
        body["tags"] = json!(["public"]);
        body["initial_version"]["features"] = json!([support]);
        world.post("/api/plans/", &body).ok(201)
    };
    let (starter, business) = (plan("Starter"), plan("Business"));
    let addon = json!({"addon_name": "Priority", "currency_code": "USD", "billing_frequency": "one_time",
        "invoice_when": "invoice_on_attach", "recurring_charges": [
            {"name": "once", "amount": 3, "charge_timing": "in_advance"}]});
    let names = [
        ("METRIC", metric.clone()),
        ("FEATURE", support.clone()),
        ("STARTER", starter.id("plan_id")),
        ("STARTER_VERSION", starter["versions"][0].id("version_id")),
        ("BUSINESS", business.id("plan_id")),
        ("ADDON", world.post("/api/addons/", &addon).ok(201).id("addon_id")),
    ];
    let output = run(&packages, &world, &names);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("calls of lotus-python 0.12.0 work"), "{out}\n{err}");
}
