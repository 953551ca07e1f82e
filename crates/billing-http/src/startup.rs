//! From settings to a store that is fit to serve, with an organization in it.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use billing_domain::api_key::KeyKind;
use billing_domain::id::OrganizationId;
use billing_domain::organization::Organization;
use billing_domain::store::{ApiKeyLookup, Scope, Store};
use billing_domain::workflow::{CreateApiKey, CreateOrganization, create_api_key, create_organization};
use billing_store::PgStore;
use postgres_local::Cluster;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::caller::{KeyText, Pepper};
use crate::settings::Settings;

/// Name of the database in a private cluster.
const DATABASE: &str = "billing";
/// Connections for the background workers, beside those of requests.
const WORKER_CONNECTIONS: u32 = 3;
/// Name of the organization that is made when there is none, and of one that is made without a name.
pub(crate) const FIRST_ORGANIZATION: &str = "My organization";
/// Organizations that an error lists.
const LISTED_MAX: usize = 20;
const FIRST_KEY: &str = "first key";

/// A store, and the private cluster below it when there is one.
pub struct Opened {
    /// The store. Its connections end before the cluster does.
    pub store: PgStore,
    /// What keys are digested with.
    pub pepper: Pepper,
    /// Stops when dropped.
    pub cluster: Option<Cluster>,
}

/// A database that can be connected to.
pub struct Database {
    /// Where it is.
    pub url: String,
    /// Stops when dropped.
    pub cluster: Option<Cluster>,
}

impl Database {
    /// The database of the settings, otherwise that of a private cluster, which is started.
    ///
    /// # Errors
    /// When there is no Postgres to start, or it does not start.
    pub fn open(settings: &Settings) -> anyhow::Result<Self> {
        if let Some(url) = settings.database_url()? {
            return Ok(Self { url, cluster: None });
        }
        let data_dir = settings.data_dir();
        let cluster = match Cluster::persistent(&data_dir) {
            Err(postgres_local::Error::NotInstalled { .. }) if settings.install_postgres => {
                postgres_local::install_postgres()?;
                Cluster::persistent(&data_dir)
            }
            started => started,
        };
        let cluster = cluster.with_context(|| format!("no private Postgres in {}", data_dir.display()))?;
        cluster.create_database_if_absent(DATABASE)?;
        Ok(Self { url: cluster.url(DATABASE), cluster: Some(cluster) })
    }

    /// A database that is there, beside a server that is at work on the private cluster too: none is made.
    ///
    /// # Errors
    /// As [`Database::open`]; when there is none.
    pub fn open_existing(settings: &Settings) -> anyhow::Result<Self> {
        let data_dir = settings.data_dir();
        let given = settings.database_url()?;
        if let Some(url) = given.or_else(|| postgres_local::running_url(&data_dir, DATABASE)) {
            return Ok(Self { url, cluster: None });
        }
        let no_database = || format!("no database here, in {}", data_dir.display());
        let cluster = Cluster::existing(&data_dir).with_context(no_database)?;
        if !cluster.has_database(DATABASE)? {
            bail!(no_database());
        }
        Ok(Self { url: cluster.url(DATABASE), cluster: Some(cluster) })
    }

    /// The URL of the database of the settings, or of the private one that a server is at work on.
    ///
    /// # Errors
    /// When no server is.
    pub fn url_beside(settings: &Settings) -> anyhow::Result<String> {
        if let Some(url) = settings.database_url()? {
            return Ok(url);
        }
        let data_dir = settings.data_dir();
        let url = postgres_local::running_url(&data_dir, DATABASE);
        url.ok_or_else(|| anyhow!("no service runs on {}: its private Postgres runs only with it", data_dir.display()))
    }
}

/// Brings the database up to date, and answers the versions that were missing.
///
/// # Errors
/// Also when it has another number of lanes than the settings ask for.
pub fn migrate(url: &str, settings: &Settings) -> anyhow::Result<Vec<String>> {
    let applied = match settings.lanes {
        Some(lanes) => PgStore::migrate_into_lanes(url, lanes),
        None => PgStore::migrate(url),
    };
    applied.context("the database could not be migrated")
}

impl Opened {
    /// Opens the store of the settings, migrated.
    ///
    /// # Errors
    /// Also when the database is set to forget commits in a power cut.
    pub fn open(settings: &Settings) -> anyhow::Result<Self> {
        Self::over(Database::open(settings)?, settings)
    }

    /// As [`Opened::open`], but a database that is there, beside a server that is at work on the private cluster too.
    ///
    /// # Errors
    /// As [`Opened::open`]; when there is none.
    pub fn open_beside(settings: &Settings) -> anyhow::Result<Self> {
        let database = Database::open_existing(settings)?;
        if !PgStore::is_made(&database.url)? {
            bail!("no database here: it has no tables of this service, which `migrate` makes");
        }
        Self::over(database, settings)
    }

    /// As [`Opened::open_beside`], and makes the tables where there are none: for what a new installation may begin with.
    ///
    /// # Errors
    /// As [`Opened::open`]; when there is no database.
    pub fn found_beside(settings: &Settings) -> anyhow::Result<Self> {
        Self::over(Database::open_existing(settings)?, settings)
    }

    fn over(Database { url, cluster }: Database, settings: &Settings) -> anyhow::Result<Self> {
        for version in migrate(&url, settings)? {
            log::info!("applied migration {version}");
        }
        let store = PgStore::connect(&url, settings.pool_size + WORKER_CONNECTIONS)?;
        store.check_durability().context("refusing to work on this database")?;
        let pepper = pepper(&store, settings)?;
        Ok(Self { store, pepper, cluster })
    }

    /// Makes a first organization when there is none. What comes is to be said of it, with its key, which is shown this once;
    /// nothing where the key was given.
    ///
    /// # Errors
    /// Those of the store; a bootstrap key that is none.
    pub fn bootstrap(&self, settings: &Settings) -> anyhow::Result<Option<String>> {
        let store: &dyn Store = &self.store;
        // Nobody's id: of several processes that start on one empty database, one makes the organization.
        let lock = Scope::Catalog(Uuid::nil().into());
        let given = settings.bootstrap_api_key()?;
        let key = key_of(given.as_deref())?;
        let made = store.run_for(&lock, |_, _| {
            if !self.store.list_organizations()?.is_empty() {
                return Ok(None);
            }
            let id = OrganizationId::from(Uuid::now_v7());
            self.insert_organization(id, FIRST_ORGANIZATION, &key).map(Some)
        })?;
        let Some(id) = made else { return Ok(None) };
        if given.is_some() {
            log::info!("created the first organization {id} with the key given");
            return Ok(None);
        }
        Ok(Some(format!("Created {id}. Its API key, shown this once: {}", key.reveal())))
    }

    /// Makes an organization with one key: the one given, otherwise a random one.
    ///
    /// # Errors
    /// A bad name or key; those of the store.
    pub fn create_organization(&self, name: &str, key: Option<&str>) -> anyhow::Result<(OrganizationId, KeyText)> {
        let key = key_of(key)?;
        let id = self.insert_organization(OrganizationId::from(Uuid::now_v7()), name, &key)?;
        Ok((id, key))
    }

    fn insert_organization(
        &self,
        id: OrganizationId,
        name: &str,
        key: &KeyText,
    ) -> Result<OrganizationId, billing_domain::Error> {
        let command = CreateOrganization { name: name.to_owned() };
        let store: &dyn Store = &self.store;
        store.run_for(&Scope::Catalog(id), |tx, now| {
            create_organization(tx, &command, now)?;
            create_api_key(tx, &self.new_key(key, FIRST_KEY, None), now)?;
            Ok(id)
        })
    }

    fn new_key(&self, key: &KeyText, name: &str, expires_at: Option<OffsetDateTime>) -> CreateApiKey {
        let fingerprint = self.pepper.fingerprint(key);
        CreateApiKey { kind: KeyKind::ApiKey, name: name.to_owned(), expires_at, scopes: None, fingerprint }
    }

    /// Makes one more key of an organization.
    ///
    /// # Errors
    /// A bad name, an expiry that has passed; those of the store.
    pub fn create_key(
        &self,
        organization: OrganizationId,
        name: &str,
        expires_at: Option<OffsetDateTime>,
    ) -> anyhow::Result<KeyText> {
        let key = KeyText::generate()?;
        let store: &dyn Store = &self.store;
        store.run_for(&Scope::Catalog(organization), |tx, now| {
            tx.organizations().get()?;
            create_api_key(tx, &self.new_key(&key, name, expires_at), now)
        })?;
        Ok(key)
    }

    /// The organization meant: that of the key, the one named, or the only one there is.
    ///
    /// # Errors
    /// When that is none or several.
    pub fn organization(&self, named: Option<OrganizationId>, key: Option<&str>) -> anyhow::Result<OrganizationId> {
        if let Some(text) = key {
            let key = KeyText::parse(text).context("this is not an API key")?;
            let known = self.store.find_key(key.prefix())?;
            let known =
                known.filter(|(known, now)| self.pepper.matches(&key, &known.digest) && !known.is_expired(*now));
            let known = known.filter(|(known, _)| known.kind == KeyKind::ApiKey);
            return known.map(|(known, _)| known.organization).ok_or_else(|| anyhow!("the API key is not valid"));
        }
        let all = self.store.list_organizations()?;
        match (named, all.as_slice()) {
            (Some(id), _) if all.contains(&id) => Ok(id),
            (Some(id), _) => bail!("there is no organization {id}"),
            (None, [only]) => Ok(*only),
            (None, []) => bail!("there is no organization yet; create one with create-organization"),
            (None, _) => bail!("there are several organizations; name one with --organization{}", self.listed()?),
        }
    }

    /// Looks whether there are all of these organizations.
    ///
    /// # Errors
    /// The first that there is not; those of the store.
    pub fn check_organizations(&self, named: impl Iterator<Item = OrganizationId>) -> anyhow::Result<()> {
        let all = self.store.list_organizations()?;
        for organization in named {
            if !all.contains(&organization) {
                bail!("there is no organization {organization}{}", self.listed()?);
            }
        }
        Ok(())
    }

    /// All organizations, oldest first.
    ///
    /// # Errors
    /// Those of the store.
    pub fn organizations(&self) -> anyhow::Result<Vec<Organization>> {
        let store: &dyn Store = &self.store;
        let read = |id| store.run_for(&Scope::Organization(id), |tx, _| tx.organizations().get());
        Ok(self.store.list_organizations()?.into_iter().map(read).collect::<Result<_, _>>()?)
    }

    /// A line for each of the first organizations.
    fn listed(&self) -> anyhow::Result<String> {
        let all = self.organizations()?;
        let lines: Vec<String> = all.iter().take(LISTED_MAX).map(|one| format!("\n  {}", named(one))).collect();
        Ok(lines.concat())
    }

    /// The store as a server takes it.
    pub fn backend(&self) -> Arc<dyn crate::Backend> {
        Arc::new(self.store.clone())
    }
}

/// The pepper of the settings, if it is the one that the keys of this database are digested with. Where there is none, one is made only for a
/// database that has never had one: with another all keys would be refused, and nobody would know why.
fn pepper(store: &PgStore, settings: &Settings) -> anyhow::Result<Pepper> {
    let data_dir = settings.data_dir();
    let given = match settings.key_pepper()? {
        Some(text) => Some(Pepper::from_text(&text)),
        None => Pepper::find_in(&data_dir)?,
    };
    let what_to_do = "Start with the pepper that the keys were made with: the file `key-pepper` of the old data folder, or the old \
                      BILLING_KEY_PEPPER. If it is lost, so are all keys: see \"A lost pepper\" in docs/operating.md";
    let pepper = match given {
        Some(pepper) => pepper,
        None if store.find_pepper()?.is_some() => {
            bail!(
                "there is no key pepper in {}, and this database has API keys made with one. {what_to_do}",
                data_dir.display()
            )
        }
        None => Pepper::of_data_dir(&data_dir)?,
    };
    if store.note_pepper(&pepper.mark())? != pepper.mark() {
        bail!("this key pepper is not the one that the API keys of this database were made with. {what_to_do}");
    }
    Ok(pepper)
}

/// An organization as the command line shows it.
pub fn named(organization: &Organization) -> String {
    format!("{}  {}", organization.id, organization.name)
}

fn key_of(given: Option<&str>) -> anyhow::Result<KeyText> {
    match given {
        Some(text) => KeyText::parse(text).context("the bootstrap key is not <8>.<32> letters and digits"),
        None => Ok(KeyText::generate()?),
    }
}

/// Writes a line for people to standard output.
///
/// # Errors
/// When nobody reads it.
pub fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
