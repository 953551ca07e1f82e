//! The command: on the settings' store, in an organization of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::{env, io};

use anyhow::Context;
use billing_domain::id::OrganizationId;
use billing_domain::store::{ApiKeyLookup, Scope, Store};

use super::{Client, Commits, Demo};
use crate::caller::KeyText;
use crate::server::Server;
use crate::server_settings::ServerSettings;
use crate::settings::Settings;
use crate::startup::{Opened, say};

/// The organization that the demo makes and finds again.
const ORGANIZATION: &str = "Demo";

/// Runs the demo on the store of `settings`, through a server of its own on a free port, and says how to go on.
///
/// # Errors
/// As [`Demo::run`]; when there is no store to open.
pub fn run(settings: &Settings) -> anyhow::Result<()> {
    let opened = Opened::open(settings)?;
    let (organization, key) = organization(&opened, settings)?;
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = ServerSettings::new(addr, opened.pepper.clone(), usize::try_from(settings.pool_size)?);
    let running = Server::start(&server, opened.backend())?;
    let client = Client::new(&format!("http://{}", running.addr), key.reveal());
    let demo = Demo { client: &client, backend: &opened.store, organization };
    let done = demo.run(&Commits::all()?, &mut io::stdout());
    running.stop()?;
    done?;
    Ok(say(&how_to_go_on(settings, &key)?)?)
}

/// The demo's organization and a key of it: the bootstrap key if there is one, otherwise a new one each time.
fn organization(opened: &Opened, settings: &Settings) -> anyhow::Result<(OrganizationId, KeyText)> {
    let store: &dyn Store = &opened.store;
    let given = settings.bootstrap_api_key()?;
    for id in opened.store.list_organizations()? {
        let organization = store.run_for(&Scope::Organization(id), |tx, _| tx.organizations().get())?;
        if organization.name == ORGANIZATION {
            return match &given {
                Some(text) => {
                    opened.organization(None, Some(text)).context("the bootstrap key is not the demo's")?;
                    Ok((id, KeyText::parse(text).context("the bootstrap key is no key")?))
                }
                None => Ok((id, opened.create_key(id, "demo", None)?)),
            };
        }
    }
    opened.create_organization(ORGANIZATION, given.as_deref())
}

fn how_to_go_on(settings: &Settings, key: &KeyText) -> anyhow::Result<String> {
    let (addr, key) = (settings.addr, key.reveal());
    let called_as = env::args_os().next().map(|name| name.to_string_lossy().into_owned());
    // Cargo says that it runs the program; then the program has no name that a shell would find.
    let called_as = called_as.filter(|_| env::var_os("CARGO").is_none());
    let serve = serving(called_as.as_deref(), &settings.flags())?;
    Ok(format!(
        "\nTo look on, serve what is here:\n\n  {serve}\n\nIt prints a link into the console for its first user: open an invoice there, and its lines down to the events.\n\
         Or try the calls at http://{addr}/docs/ with this key:\n\n  \
         export KEY={key}\n  curl -sH \"X-API-KEY: $KEY\" http://{addr}/api/plans/\n  \
         curl -sH \"X-API-KEY: $KEY\" 'http://{addr}/api/invoices/?status=unpaid&limit=3'"
    ))
}

/// The command that serves what is there, by a program that is called so, or by Cargo; as a shell reads it.
fn serving(program: Option<&str>, flags: &[String]) -> anyhow::Result<String> {
    let program = match program {
        Some(program) => vec![program],
        None if flags.is_empty() => vec!["cargo", "run", "--release"],
        None => vec!["cargo", "run", "--release", "--"],
    };
    Ok(shlex::try_join(program.into_iter().chain(flags.iter().map(String::as_str)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_demo_made_is_served_by_the_same_program_from_the_same_place() {
        #[rustfmt::skip]
        let cases: [(Option<&str>, &[&str], &str, &str); 5] = [
            // program,        flags,                      served by,                             why
            (None,             &[],                        "cargo run --release",                 "as the README says"),
            (None,             &["--data-dir", "x"],       "cargo run --release -- --data-dir x", "where Cargo's own flags end"),
            (Some("meter"),    &[],                        "meter",                               "a copy that the shell finds"),
            (Some("./meter"),  &["--data-dir", "/tmp/d"],  "./meter --data-dir /tmp/d",           "where its data is"),
            (Some("./a b"),    &["--data-dir", "it's"],    r#"'./a b' --data-dir "it's""#,          "as a shell reads it"),
        ];
        for (program, flags, expected, why) in cases {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            assert_eq!(serving(program, &flags).expect(why), expected, "{why}");
        }
    }
}
