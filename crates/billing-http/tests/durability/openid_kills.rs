//! Signing in with an OpenID provider while the server is killed, over TLS with an authority that nobody else trusts.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_domain::store::Users;
use billing_domain::user::Role;
use postgres_local::Cluster;

use super::acknowledged::Process;
use crate::console::Browser;
use crate::console::openid::{START, is_signed_in, sent};
use crate::console::openid_provider::{CLIENT_ID, CLIENT_SECRET, Person, Provider};
use crate::support::connect;

/// Milliseconds after which the server dies when somebody has come back: before it asks, while it does, and when it has made a user.
const KILLS_MS: [u64; 6] = [0, 5, 15, 40, 80, 200];

fn person(number: usize) -> Person {
    const ALL: [(&str, &str); KILLS_MS.len()] = [
        ("s0", "p0@acme.example"),
        ("s1", "p1@acme.example"),
        ("s2", "p2@acme.example"),
        ("s3", "p3@acme.example"),
        ("s4", "p4@acme.example"),
        ("s5", "p5@acme.example"),
    ];
    let (subject, email) = ALL[number];
    Person { subject, email, groups: vec!["finance"] }
}

/// Starts the service with the provider; `authority`: a file with what vouches for that.
fn start(
    url: &str,
    folder: &Path,
    provider: &Provider,
    organization: OrganizationId,
    authority: Option<&Path>,
) -> Process {
    let roles = format!("finance={organization}:finance");
    let authority = authority.map(|path| path.to_str().expect("text"));
    let mut variables = vec![
        ("BILLING_OIDC_ISSUER", provider.issuer.as_str()),
        ("BILLING_OIDC_CLIENT_ID", CLIENT_ID),
        ("BILLING_OIDC_CLIENT_SECRET", CLIENT_SECRET),
        ("BILLING_OIDC_ROLES", &roles),
        ("BILLING_CONSOLE_URL", "https://billing.example"),
    ];
    variables.extend(authority.map(|path| ("BILLING_OIDC_CA_FILE", path)));
    Process::start_with(url, folder, &variables)
}

#[test]
fn whoever_signs_in_while_the_server_is_killed_is_made_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let (url, data) = (cluster.url("billing"), folder.path().join("server"));
    let first = Process::start(&url, &data);
    let organization = first.get("/api/organization/")["organization_id"].as_str().expect("an id").to_owned();
    let organization: OrganizationId = organization.parse().expect("an id");
    first.kill();
    let provider = Provider::encrypted(person(0));
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, provider.authority.as_ref().expect("a certificate")).expect("written");

    let untrusting = start(&url, &data, &provider, organization, None);
    let refused = Browser::at(untrusting.addr()).get(START);
    assert_eq!(refused.status, 502, "who vouches for the provider is unknown: {}", refused.text);
    assert_eq!(provider.calls("/.well-known/openid-configuration"), 0, "nothing was asked of somebody unknown");
    untrusting.kill();

    let store = connect(&url, 2);
    for (number, delay) in KILLS_MS.map(Duration::from_millis).into_iter().enumerate() {
        provider.vouches_for(person(number));
        let server = start(&url, &data, &provider, organization, Some(&authority));
        let browser = Browser::at(server.addr());
        let back = sent(&browser, &provider);
        let (addr, cookies) = (server.addr().to_owned(), browser.cookies.into_inner());
        provider.takes(Duration::from_millis(20));
        thread::scope(|scope| {
            let coming = scope.spawn(|| {
                let browser = Browser::at(&addr);
                *browser.cookies.borrow_mut() = cookies.clone();
                browser.try_get(&back);
            });
            let began = Instant::now();
            thread::sleep(delay.saturating_sub(began.elapsed()));
            server.kill();
            coming.join().expect("no panic");
        });
        provider.takes(Duration::ZERO);
        let server = start(&url, &data, &provider, organization, Some(&authority));
        let again = Browser::at(server.addr());
        *again.cookies.borrow_mut() = cookies;
        let repeated = again.get(&back);
        assert!((200..500).contains(&repeated.status), "{delay:?}: it is told readably: {}", repeated.text);
        let anew = Browser::at(server.addr());
        let answer = anew.get(&sent(&anew, &provider));
        assert!(answer.status == 303 && is_signed_in(&anew), "{delay:?}: {}", answer.text);
        let email = person(number).email;
        let user = store.find_user(email).expect("read").expect("a user");
        let roles: Vec<_> = user.memberships.iter().map(|one| (one.organization, one.role)).collect();
        assert_eq!(roles, [(organization, Role::Finance)], "{delay:?}");
        let entries = server.get("/api/audit_log/?operation=sign_up&limit=1000");
        let of_them = entries.as_array().expect("a list").iter().filter(|entry| entry.to_string().contains(email));
        assert_eq!(of_them.count(), 1, "{delay:?}: {entries}");
        server.kill();
    }
    let report = billing_audit::audit_database(&url, &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
}
