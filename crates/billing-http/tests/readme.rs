//! The README's quick start, run as it stands.

use std::process::Command;

use crate::support::World;

const README: &str = include_str!("../../../README.md");

/// The shell block below the heading "Quick start" that defines `post`.
fn quick_start() -> &'static str {
    let section = README.split("## Quick start").nth(1).expect("the section");
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.into_iter().find(|block| block.contains("post()")).expect("the block")
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped must be seen")]
fn the_quick_start_works_as_pasted() {
    if Command::new("curl").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI must have curl: the README's quick start needs it");
        eprintln!("SKIPPED: the README's quick start needs curl, which is not installed");
        return;
    }
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", quick_start()])
        .current_dir(folder.path())
        .env("URL", format!("http://{}", world.addr()))
        .env("KEY", &world.key)
        .output()
        .expect("bash");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for part in [
        r#""success":"all""#,
        r#""access":true"#,
        r#""metric_usage":1"#,
        r#""invoice_number":""#,
        r#""customer_id":"acme""#,
    ] {
        assert!(out.contains(part), "the output lacks {part}:\n{out}");
    }
    let refused = out.matches("validation_errors\":[{").count();
    assert_eq!(refused, 0, "{out}");
}
