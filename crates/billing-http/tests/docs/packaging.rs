//! The files for containers and systemd, as far as can be seen without either: what they name is there, and means what they think.
//! `cargo xtask packaging` holds their form against other people's checkers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use billing_store::testing::{empty_database, fingerprint};
use serde_json::{Value, json};

use super::promises::read;
use crate::support::{World, ago};

const FOLDER: &str = "crates/billing-http/packaging";
const PROGRAM: &str = env!("CARGO_BIN_EXE_billing-http");

fn packaging(name: &str) -> String {
    read(Path::new(FOLDER).join(name))
}

/// The values of the lines that begin like this.
fn values<'t>(text: &'t str, beginning: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(beginning)).map(str::trim).collect()
}

/// Whether the program has a command of this name.
fn has_command(name: &str) -> bool {
    Command::new(PROGRAM).args([name, "--help"]).output().expect("the program").status.success()
}

/// The environment variables that the program reads.
fn settings() -> String {
    let help = Command::new(PROGRAM).args(["serve", "--help"]).output().expect("the program");
    String::from_utf8(help.stdout).expect("text")
}

#[test]
fn the_container_file_makes_what_it_starts() {
    let file = packaging("Containerfile");
    let workspace = read("Cargo.toml");
    let profile = values(&file, "RUN cargo build --locked --profile ");
    let (profile, package) = profile[0].split_once(" --package ").expect("a package");
    assert!(workspace.contains(&format!("[profile.{profile}]")), "there is a profile {profile}");
    assert!(read(format!("crates/{package}/Cargo.toml")).contains(&format!("name = \"{package}\"")));
    let copied = format!("/build/target/{profile}/{package} /usr/local/bin/{package}");
    assert_eq!(values(&file, "COPY --from=build "), [copied.as_str()], "what is built is what is copied");
    assert_eq!(values(&file, "ENTRYPOINT "), [format!("[\"/usr/local/bin/{package}\"]").as_str()]);

    let rust = values(&workspace, "rust-version = ")[0].trim_matches('"');
    assert!(
        file.contains(&format!("docker.io/library/rust:{rust}-slim-bookworm AS build")),
        "the Rust of the workspace, {rust}"
    );
    let ignored = packaging("Containerfile.dockerignore");
    assert_eq!(ignored.lines().collect::<Vec<_>>(), [".git", "target"], "nothing that the build needs");

    let command: Vec<String> = serde_json::from_str(values(&file, "CMD ")[0]).expect("JSON");
    assert!(has_command(&command[0]), "{command:?}");
    let health = values(&file, "HEALTHCHECK ")[0].split_once("CMD ").expect("a command").1;
    let health: Vec<String> = serde_json::from_str(health).expect("JSON");
    assert_eq!(health[0], format!("/usr/local/bin/{package}"));
    assert!(has_command(&health[1]) && !has_command("heal"), "{health:?}");
    let settings = settings();
    for setting in values(&file, "ENV ")[0].split(' ').filter_map(|pair| pair.split('=').next()) {
        assert!(settings.contains(&format!("[env: {setting}")), "the program reads {setting}");
    }
}

#[test]
fn the_command_of_the_health_checks_says_how_the_service_is() {
    let mut world = World::new();
    let health = |world: &World| {
        let mut command = Command::new(PROGRAM);
        command.arg("health").env("BILLING_ADDR", world.addr().to_string());
        command.status().expect("the program").code()
    };
    let address = world.addr();
    assert_eq!(health(&world), Some(0));
    world.stop();
    let gone = Command::new(PROGRAM).arg("health").env("BILLING_ADDR", address.to_string()).status();
    assert_eq!(gone.expect("the program").code(), Some(1), "nobody is there");
}

#[test]
fn the_compose_file_names_what_is_there() {
    let file = packaging("compose.yaml");
    let context = Path::new(FOLDER).join(values(&file, "context: ")[0]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let context = root.join(context).canonicalize().expect("the context is there");
    assert_eq!(context, root.canonicalize().expect("the workspace"), "all of the workspace is built");
    assert!(context.join(values(&file, "dockerfile: ")[0]).is_file(), "the container file is there");
    let commands: Vec<Value> =
        values(&file, "test: ").into_iter().map(|test| serde_json::from_str(test).expect("JSON")).collect();
    assert_eq!(commands[0], json!(["CMD", "billing-http", "health"]));
    assert!(settings().contains("[env: DATABASE_URL"), "the program reads what it is given");
    let mut arguments = values(&file, "BILLING_REVISION: ");
    assert_eq!(arguments.pop(), Some("${BILLING_REVISION:-unknown}"));
    assert!(packaging("Containerfile").contains("ARG BILLING_REVISION="), "the build takes it");
    // The folder that is kept is the one that the program keeps its pepper in.
    let data = values(&packaging("Containerfile"), "VOLUME ")[0].to_owned();
    assert!(values(&file, "- keys:").contains(&data.as_str()), "{data}");
}

#[test]
fn the_unit_starts_what_the_others_start() {
    let unit = packaging("billing.service");
    let start = values(&unit, "ExecStart=")[0].split(' ').collect::<Vec<_>>();
    assert_eq!(start[0], "/usr/local/bin/billing-http");
    assert!(has_command(start[1]), "{start:?}");
    let settings = settings();
    for setting in values(&unit, "Environment=") {
        let (name, _) = setting.split_once('=').expect("a value");
        assert!(settings.contains(&format!("[env: {name}")), "the program reads {name}");
    }
    // What is kept is in the folder that systemd makes for it.
    let folder = format!("/var/lib/{}", values(&unit, "StateDirectory=")[0]);
    assert!(values(&unit, "Environment=").contains(&format!("BILLING_DATA_DIR={folder}").as_str()), "{folder}");
}

/// Stands in for Docker where there is none: runs what would run in a container here, on the database `$DB` and the folder `$VOLUME`.
const DOCKER: &str = r#"#!/bin/bash
set -eu
[ "$1 $2 $3" = "compose --file crates/billing-http/packaging/compose.yaml" ] || exit 64
what=$4 entry=
shift 4
[ "$what" = up ] && exit 0
while [[ $1 == --* ]]; do
    case $1 in --entrypoint=*) entry=${1#*=} ;; --no-TTY | --rm) ;; *) exit 65 ;; esac
    shift
done
service=$1
shift
case "$what $service" in
"exec postgres")
    arguments=()
    for argument; do
        case $argument in
        --username=billing) ;;
        --dbname=billing) arguments+=("--dbname=$DB") ;;
        billing) arguments+=("$DB") ;;
        *) arguments+=("$argument") ;;
        esac
    done
    exec "${arguments[@]}" ;;
"exec billing") exec "${@//\/var\/lib\/billing/$VOLUME}" ;;
"run billing") DATABASE_URL=$DB exec "${entry:-$PROGRAM}" "${@//\/var\/lib\/billing/$VOLUME}" ;;
*) exit 66 ;;
esac
"#;

#[test]
fn what_is_said_of_a_backup_with_compose_brings_everything_back() {
    let (world, target) = (World::new(), empty_database());
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::ZERO)});
    world.post("/api/subscriptions/", &body).ok(200);

    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    for volume in ["old", "new"] {
        fs::create_dir(file(volume)).expect("a volume");
    }
    fs::write(file("old/key-pepper"), "pepper\n").expect("a pepper");
    fs::write(file("docker"), DOCKER).expect("a program");
    fs::set_permissions(file("docker"), fs::Permissions::from_mode(0o755)).expect("it runs");
    let text = read("docs/operating.md");
    let block = |heading: &str| {
        let (_, section) = text.split_once(&format!("\n## {heading}\n")).expect("a section");
        let section = section.split("\n## ").next().expect("its text");
        let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
        blocks.filter(|block| block.contains("docker compose")).collect::<Vec<_>>()
    };
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    for (heading, database, volume) in [("Backup", world.url(), "old"), ("Restore", target.url(), "new")] {
        let [script] = block(heading)[..] else { panic!("{heading} has one block for compose") };
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(folder.path())
            .envs([("PATH", path.as_str()), ("DB", database), ("PROGRAM", PROGRAM)])
            .env("VOLUME", file(volume))
            .output()
            .expect("bash");
        assert!(output.status.success(), "{heading}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(fingerprint(target.url(), world.organization), fingerprint(world.url(), world.organization));
    let pepper = file("new/key-pepper");
    assert_eq!(fs::read_to_string(&pepper).expect("a pepper"), "pepper\n");
    assert_eq!(fs::metadata(&pepper).expect("a file").permissions().mode() & 0o777, 0o600, "nobody else reads it");
}
