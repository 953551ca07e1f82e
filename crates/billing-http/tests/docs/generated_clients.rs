//! Clients that others' generators make of the description: they compile in strict mode, carry the quick start out, read a
//! long list to its end, and get every decimal as it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::packages::{installed_by_npm, installed_by_pip, printed};
use crate::support::{Field, World, now};

/// What npm installs; the generator of types works with TypeScript 5.
const NPM_PACKAGES: [&str; 4] =
    ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@22.19.1"];
const PIP_PACKAGES: [&str; 1] = ["openapi-python-client==0.29.1"];
/// So many invoices that the first answer has not all of them.
const COPIES: u32 = 2_500;

/// A service with more invoices than one answer holds, and the description of answers whose decimals are text, in `folder`.
fn world(folder: &Path) -> World {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    world.copy_customers(COPIES);
    let description = world.send("GET", "/openapi.json?numbers=text", &[], b"");
    fs::write(folder.join("openapi.json"), &description.text).expect("written");
    world
}

fn environment(command: &mut Command, world: &World) -> Result<String, String> {
    let url = format!("http://{}", world.addr());
    printed(command.env("URL", url).env("KEY", &world.key).env("COPIES", COPIES.to_string()))
}

#[test]
fn a_typescript_client_is_generated_and_works() {
    let packages = installed_by_npm("openapi-typescript-7.13.0", &NPM_PACKAGES);
    let Some(packages) = packages else { return };
    let folder = tempfile::tempdir_in(&packages).expect("a folder");
    let world = world(folder.path());
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(packages.join("node_modules/.bin").join(program));
        printed(command.args(arguments).current_dir(folder.path())).unwrap_or_else(|error| panic!("{program}: {error}"))
    };
    run("openapi-typescript", &["openapi.json", "-o", "schema.d.ts"]);
    fs::write(folder.path().join("client.ts"), include_str!("generated_client.ts")).expect("written");
    let strict = ["--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--lib", "es2023,dom"];
    let modules = ["--module", "nodenext", "--skipLibCheck", "--types", "node", "client.ts"];
    run("tsc", &[&strict[..], &modules[..]].concat());
    let out = environment(Command::new("node").arg("client.js").current_dir(folder.path()), &world);
    let out = out.unwrap_or_else(|error| panic!("{error}"));
    assert!(out.contains("2502 invoices by a generated client"), "{out}");
}

#[test]
fn a_python_client_is_generated_and_works() {
    let Some(packages) = installed_by_pip("openapi-python-client-0.29.1", &PIP_PACKAGES) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let world = world(folder.path());
    let python = || {
        let mut python = Command::new("python3");
        python.current_dir(folder.path()).env("PYTHONPATH", &packages);
        python
    };
    // Nothing is formatted: nobody reads it.
    fs::write(folder.path().join("settings.yml"), "post_hooks: []\n").expect("written");
    let mut generate = python();
    generate.args(["-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"]);
    let told = printed(generate.args(["--output-path", "made", "--config", "settings.yml", "--fail-on-warning"]));
    told.unwrap_or_else(|error| panic!("{error}"));
    let out = environment(python().args(["-c", include_str!("generated_client.py")]), &world);
    let out = out.unwrap_or_else(|error| panic!("{error}"));
    assert!(out.contains("2502 invoices by a generated client"), "{out}");
}
