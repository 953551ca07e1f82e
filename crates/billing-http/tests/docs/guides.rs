//! The README's quick start and every guide, run as they stand: the shell blocks in their order, and whatever a guide
//! says that is to be seen (its `json` and `text` blocks, line by line) must be in what they print.

use std::path::Path;
use std::process::Command;

use billing_outbound::Reach;

use super::lotus_python;
use crate::support::World;

/// The guides' folder.
const GUIDES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides");
const README: &str = include_str!("../../../../README.md");

/// The blocks of one language.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Runs a script against the service and gives what it printed.
fn run(world: &World, name: &str, script: &str, environment: &[(&str, &Path)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(folder.path())
        .env("URL", format!("http://{}", world.addr()))
        .env("KEY", &world.key)
        .envs(environment.iter().copied())
        .output()
        .expect("bash");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {out}\n{err}");
    out.into_owned()
}

/// Whether scripts can run here; where they cannot, that is said, and never accepted of CI.
#[expect(clippy::print_stderr, reason = "a test that is skipped must be seen")]
fn has_curl() -> bool {
    let found = Command::new("curl").arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("CI").is_none(), "CI must have curl: the guides need it");
        eprintln!("SKIPPED: the guides need curl, which is not installed");
    }
    found
}

/// Runs a guide in an organization of its own, and holds what it prints against what it tells.
fn works_as_told(name: &str) {
    if has_curl() {
        works_as_told_in(&world(), name, &[]);
    }
}

/// As a developer starts the service, whose receiver of webhooks is on the same machine.
fn world() -> World {
    World::with(|settings| settings.reach = Reach::Anywhere)
}

fn works_as_told_in(world: &World, name: &str, environment: &[(&str, &Path)]) {
    let text = std::fs::read_to_string(Path::new(GUIDES).join(name)).expect(name);
    let scripts = blocks(&text, "sh");
    assert!(scripts.first().is_some_and(|script| script.starts_with("set -eu\n")), "{name} ends at its first error");
    let printed = squeezed(&run(world, name, &scripts.join("\n"), environment));
    let told: Vec<&str> = ["json", "text"].iter().flat_map(|language| blocks(&text, language)).collect();
    assert!(!told.is_empty(), "{name} says what is to be seen");
    for line in told.iter().flat_map(|block| block.lines()) {
        // A number ends where it ends: 20 is not seen in 200.
        let line = squeezed(line);
        let seen = printed
            .match_indices(&line)
            .any(|(at, _)| !printed[at + line.len()..].starts_with(|next: char| next.is_ascii_digit() || next == '.'));
        assert!(seen, "{name}: {line} is not in what was printed:\n{printed}");
    }
}

macro_rules! guides {
    ($($test:ident = $file:literal;)*) => {
        const TESTED: &[&str] = &[$($file,)* MOVE_OVER];
        $(#[test] fn $test() { works_as_told($file); })*
    };
}

guides! {
    meter_an_api = "meter-an-api.md";
    gate_a_feature = "gate-a-feature.md";
    prepaid_seats = "prepaid-seats.md";
    prepaid_credits = "prepaid-credits.md";
    change_a_price = "change-a-price.md";
    send_cloudevents = "send-cloudevents.md";
    react_to_invoices = "react-to-invoices.md";
    a_customer_disputes_an_invoice = "a-customer-disputes-an-invoice.md";
}

/// Needs the existing client, as its own test does.
const MOVE_OVER: &str = "move-over-from-lotus.md";

#[test]
fn move_over_from_lotus() {
    if let Some(folder) = lotus_python::packages() {
        works_as_told_in(&World::new(), MOVE_OVER, &[("PYTHONPATH", &folder)]);
    }
}

#[test]
fn every_guide_is_tested_and_found_from_the_readme() {
    for entry in std::fs::read_dir(GUIDES).expect("guides") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        assert!(TESTED.contains(&name.as_str()), "{name} is not tested");
        assert!(README.contains(&format!("docs/guides/{name}")), "the README does not name {name}");
    }
}

fn quick_start_works_in(world: &World) {
    let section = README.split("## Quick start").nth(1).expect("the section");
    let script = blocks(section, "sh").into_iter().find(|block| block.contains("post()")).expect("the block");
    let out = run(world, "README.md", script, &[]);
    for part in [
        r#""success":"all""#,
        r#""access":true"#,
        r#""metric_usage":1"#,
        r#""invoice_number":""#,
        r#""customer_id":"acme-"#,
    ] {
        assert!(out.contains(part), "the output lacks {part}:\n{out}");
    }
    assert_eq!(out.matches("validation_errors\":[{").count(), 0, "{out}");
}

#[test]
fn the_quick_start_works_as_pasted() {
    if has_curl() {
        quick_start_works_in(&World::new());
    }
}

/// A newcomer reads them one after the other, and comes back: nothing that one leaves behind is in the way of another.
#[test]
fn the_readme_and_every_guide_run_twice_in_one_organization() {
    if !has_curl() {
        return;
    }
    let world = world();
    let packages = lotus_python::packages();
    let mut issued = Vec::new();
    for _ in 0..2 {
        quick_start_works_in(&world);
        for name in TESTED.iter().copied().filter(|name| *name != MOVE_OVER) {
            works_as_told_in(&world, name, &[]);
        }
        if let Some(folder) = &packages {
            works_as_told_in(&world, MOVE_OVER, &[("PYTHONPATH", folder)]);
        }
        issued.push(world.get("/api/invoices/").ok(200).as_array().expect("a list").len());
    }
    assert_eq!(issued[1], 2 * issued[0], "the second time bills what the first did, and nothing else");
}
