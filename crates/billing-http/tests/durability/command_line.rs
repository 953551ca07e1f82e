//! What the program says of itself and of what is there, and what it refuses.

use std::net::TcpListener;
use std::process::{Output, Stdio};

use billing_store::testing::TestStore;
use serde_json::{Value, json};

use super::commands::{Service, data_dir, program, text};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn only_serve_and_demo_make_a_database() {
    let folder = data_dir();
    for command in [
        &["audit"][..],
        &["bill-run"],
        &["create-key"],
        &["create-organization"],
        &["import-events", "/dev/null"],
        &["list-organizations"],
        &["migrate"],
    ] {
        let refused = program(folder.path()).args(command).output().expect("it runs");
        assert!(!refused.status.success() && said(&refused).contains("no database here"), "{command:?}: {refused:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "and they leave nothing behind");
}

#[test]
fn flags_that_mean_nothing_to_a_command_are_refused() {
    let folder = data_dir();
    #[rustfmt::skip]
    let cases: [(&[&str], &str); 4] = [
        (&["audit", "--addr", "127.0.0.1:9"],           "'--addr' means nothing to 'audit'"),
        (&["--install-postgres", "list-organizations"], "'--install-postgres' means nothing to 'list-organizations'"),
        (&["health", "--data-dir", "/nowhere"],         "'--data-dir' means nothing to 'health'"),
        (&["audit", "--made-up"],                       "unexpected argument '--made-up'"),
    ];
    for (arguments, expected) in cases {
        let refused = program(folder.path()).args(arguments).output().expect("it runs");
        assert!(refused.status.code() == Some(2) && said(&refused).contains(expected), "{arguments:?}: {refused:?}");
    }
    let help = text(&program(folder.path()).args(["audit", "--help"]).output().expect("it runs"));
    assert!(help.contains("--data-dir") && !help.contains("--addr") && !help.contains("--tls-key"), "{help}");
}

#[test]
fn a_provider_to_sign_in_with_that_is_set_in_part_is_refused_by_the_name_of_what_is_missing() {
    let folder = data_dir();
    let whole = [
        ("BILLING_OIDC_ISSUER", "https://login.example.com"),
        ("BILLING_OIDC_CLIENT_ID", "billing"),
        ("BILLING_OIDC_CLIENT_SECRET", "known to nobody"),
        ("BILLING_OIDC_ROLES", "admins=org_00000000000000000000000000000001:owner"),
        ("BILLING_CONSOLE_URL", "https://billing.example.com"),
    ];
    for (missing, _) in whole {
        let others = whole.into_iter().filter(|(name, _)| *name != missing);
        let refused = program(folder.path()).envs(others).output().expect("it runs");
        let said = said(&refused);
        assert!(
            !refused.status.success() && said.contains(missing) && !said.contains("known to nobody"),
            "{missing}: {said}"
        );
    }
    let addr = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let mut command = program(folder.path());
    let refused = command.envs(whole).env("BILLING_ADDR", addr.to_string()).output().expect("it runs");
    let told = said(&refused);
    assert!(!refused.status.success() && told.contains("BILLING_OIDC_ROLES: there is no organization org_"), "{told}");
    assert!(refused.stdout.is_empty(), "no key was made that nobody will see again: {refused:?}");
    let help = text(&program(folder.path()).args(["serve", "--help"]).output().expect("it runs"));
    assert!(
        help.contains("--oidc-client-secret-file") && !help.contains("--oidc-client-secret "),
        "no flag has a secret: {help}"
    );
}

#[test]
fn what_is_there_is_told_as_json_too() {
    let folder = data_dir();
    let service = Service::start(folder.path(), None);
    let run = |arguments: &[&str]| program(folder.path()).args(arguments).output().expect("it runs");
    let as_json = |arguments: &[&str]| serde_json::from_str::<Value>(&text(&run(arguments))).expect("JSON");
    text(&run(&["create-organization", "Globex"]));
    let listed = as_json(&["list-organizations", "--json"]);
    let names: Vec<_> = listed.as_array().expect("a list").iter().map(|one| &one["organization_name"]).collect();
    assert_eq!(names, ["My organization", "Globex"]);
    let ids: Vec<_> =
        listed.as_array().expect("a list").iter().map(|one| one["organization_id"].as_str().expect("an id")).collect();
    assert!(text(&run(&["list-organizations"])).lines().zip(ids).all(|(line, id)| line.starts_with(id)));
    assert_eq!(
        as_json(&["bill-run", "--json"]),
        json!({"billed": 0, "failed": 0, "parked": 0, "parked_customers": [], "waiting_for_tax": 0})
    );
    let audited = as_json(&["audit", "--json"]);
    assert!(audited["checks"].as_u64().is_some_and(|checks| checks > 20), "{audited}");
    assert_eq!((&audited["breaches"], &audited["notes"]), (&json!([]), &json!([])));

    let several = run(&["create-key"]);
    assert!(!several.status.success() && said(&several).contains("Globex"), "which one is asked: {several:?}");
    // What is wrong is told by the report, and by the status.
    let url = text(&run(&["database-url"]));
    let mut psql = std::process::Command::new("psql");
    let fee = json!({"name": "fee", "amount": 9, "charge_timing": "in_advance"});
    let plan = json!({"plan_name": "P", "plan_duration": "monthly", "initial_version": {"currency_code": "USD", "recurring_charges": [fee]}});
    let plan = service.post("/api/plans/", &plan)["plan_id"].clone();
    service.post("/api/customers/", &json!({"customer_id": "acme", "email": "a@acme.io"}));
    let today = time::OffsetDateTime::now_utc().date().to_string();
    service.post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": today}));
    let broken = "UPDATE invoice_counters SET last_sequence = 7";
    assert!(psql.args(["--quiet", "--command", broken, &url]).status().expect("psql").success());
    let found = run(&["audit", "--json"]);
    let report: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert!(!found.status.success() && report["breaches"][0]["check"] == "invoice_numbers_have_no_gap", "{report}");
}

#[test]
fn health_says_whether_the_service_is_ready() {
    let folder = data_dir();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let ask = |addr: &str| program(folder.path()).env("BILLING_ADDR", addr).arg("health").output().expect("it runs");
    let nobody = ask(&free.to_string());
    assert!(
        nobody.status.code() == Some(1) && said(&nobody).contains("nobody answers at http://127.0.0.1"),
        "{nobody:?}"
    );
    let mut service = Service::start(folder.path(), None);
    let port = service.url.rsplit(':').next().expect("a port").to_owned();
    for addr in [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}")] {
        assert!(ask(&addr).status.success(), "{addr}");
    }
    let by_url = |url: &str| program(folder.path()).args(["health", "--url", url]).output().expect("it runs");
    assert!(by_url(&service.url).status.success() && by_url(&format!("{}/", service.url)).status.success());
    assert_eq!(
        by_url("https://billing.example").status.code(),
        Some(1),
        "others are not asked without a look at whose it is"
    );
    service.stop();
    assert_eq!(by_url(&service.url).status.code(), Some(1), "it has gone");
}

#[test]
fn health_asks_over_tls_and_believes_a_service_that_is_not_ready() {
    let (folder, store) = (data_dir(), TestStore::new());
    let opened = billing_http::startup::Opened {
        store: store.store(),
        pepper: billing_http::caller::Pepper::from_text("pepper"),
        cluster: None,
    };
    let made = rcgen::generate_simple_self_signed(["billing.example".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let tls = billing_http::tls::TlsFiles { certificate: certificate.clone(), key: key.clone() };
    let mut settings =
        billing_http::ServerSettings::new("127.0.0.1:0".parse().expect("an address"), opened.pepper.clone(), 4);
    settings.tls = Some(tls.load().expect("a certificate"));
    settings.notice = std::time::Duration::from_secs(5);
    let server = billing_http::Server::start(&settings, opened.backend()).expect("a server");
    let addr = server.addr.to_string();
    let ask = || {
        let mut command = program(folder.path());
        command.args(["health", "--addr", &addr, "--tls-cert"]).arg(&certificate).arg("--tls-key").arg(&key);
        command.stdin(Stdio::null()).output().expect("it runs")
    };
    let ready = ask();
    assert!(ready.status.success(), "its certificate is for another name: {ready:?}");
    let plain = program(folder.path()).args(["health", "--addr", &addr]).output().expect("it runs");
    assert_eq!(plain.status.code(), Some(1), "it speaks no plain HTTP");
    let stopping = std::thread::spawn(move || server.stop());
    let draining = loop {
        let asked = ask();
        if !asked.status.success() {
            break asked;
        }
        assert!(!stopping.is_finished(), "it never said no");
    };
    assert!(said(&draining).contains("shutting_down"), "{draining:?}");
    stopping.join().expect("a thread").expect("a clean stop");
}
