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
    Ok(say(&how_to_go_on(settings, &key))?)
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

fn how_to_go_on(settings: &Settings, key: &KeyText) -> String {
    let (addr, key) = (settings.addr, key.reveal());
    // Cargo says that it runs the program; then the program has no name that a shell would find.
    let program = if env::var_os("CARGO").is_some() { "cargo run --release" } else { env!("CARGO_PKG_NAME") };
    format!(
        "\nTo look on, serve what is here, and try the calls at http://{addr}/docs/ with the key below:\n\n  {program}\n\n  \
         export KEY={key}\n  curl -sH \"X-API-KEY: $KEY\" http://{addr}/api/plans/\n  \
         curl -sH \"X-API-KEY: $KEY\" 'http://{addr}/api/invoices/?status=unpaid&limit=3'"
    )
}
