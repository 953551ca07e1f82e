//! The command line.

mod flags;
mod health;
mod listen;
mod user;

use std::future::{Future, poll_fn};
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::rt::System;
use actix_web::rt::signal::unix::{SignalKind, signal};
use anyhow::{Context as _, bail};
use billing_audit::{Breach, Note, Report, audit_database, audit_organization};
use billing_domain::FieldErrors;
use billing_domain::id::OrganizationId;
use billing_domain::organization::Organization;
use billing_outbound::Client;
use billing_store::with_timeouts;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use indicatif::ProgressBar;
use postgres_local::Cluster;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::oneshot;

use crate::billing_run::{Asking, run_all, run_to_the_end};
use crate::demo;
use crate::import::{EventForm, ImportSource, import_events, refused_beside};
use crate::lanes::{self, LanesCommand};
use crate::message;
use crate::secret::{file_named, secret};
use crate::server::Server;
use crate::server_settings::DiskCheck;
use crate::server_settings::ServerSettings;
use crate::settings::{Settings, Switch};
use crate::startup::{Database, FIRST_ORGANIZATION, Opened, migrate, named, say};
use crate::taxes::Taxes;
use crate::wire::{FromJson, Instant};

/// What the program is called.
const PROGRAM: &str = env!("CARGO_PKG_NAME");

/// What to do first, below the list of commands.
const FIRST_STEPS: &str = "\
Examples:
  billing-http                                    serve on 127.0.0.1:8080 with a private Postgres; prints an API key once
  billing-http --install-postgres demo            see the main job done on real events
  billing-http create-key deploy                  one more key, also while the service runs
  billing-http list-organizations                 the tenants there are
  billing-http create-user --email me@example.com --role owner --password-stdin < file
  billing-http import-events 2024.csv             back-fill; run it again after an interruption, nothing counts twice
  pg_dump -Fc \"$(billing-http database-url)\"      a backup of the running service
  billing-http completions bash > /etc/bash_completion.d/billing-http

The running service describes its interface at http://127.0.0.1:8080/docs";

/// A billing and usage-metering service.
#[derive(Debug, Parser)]
#[command(version, about, after_help = FIRST_STEPS)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub settings: Settings,
    /// What to do; serve when missing.
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// What the program was called with; ends it where that cannot be done, or help was asked for.
    pub fn of_the_command_line() -> Self {
        let mut command = flags::fitted(Self::command());
        let matches = command.get_matches_mut();
        let checked = flags::check(&mut command, &matches);
        let read = checked.and_then(|()| Self::from_arg_matches(&matches));
        read.unwrap_or_else(|error| error.format(&mut command).exit())
    }

    /// What is logged when `RUST_LOG` does not say: a line for each request, but none amid what the demo shows.
    pub fn usual_log_level(&self) -> &'static str {
        match self.command {
            Some(Command::Demo) => "warn",
            // What the server's library has to say of its start would come behind the key and the addresses.
            _ => "info,actix_server=warn",
        }
    }
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API (the default).
    Serve,
    /// Run the main job on 30,442 real events: define, subscribe, import, bill, and print the invoices.
    Demo,
    /// Back-fill events of any age from a file, also gzipped; running it again changes nothing.
    ImportEvents {
        /// The file: events as `POST /api/track/` takes them, or CloudEvents, one on each line or all in a JSON array; or a CSV.
        file: PathBuf,
        /// How its events are written [default: what the file's name says: .jsonl, .ndjson, .json, .csv, each also .gz; otherwise jsonl].
        #[arg(long, value_enum)]
        format: Option<EventForm>,
        /// Begin at this line: where an import that failed says that it came to.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        from_line: u64,
        /// Where refused lines are written, each with its number and the reason [default: FILE.refused].
        #[arg(long)]
        refused: Option<PathBuf>,
        /// Whose events: the organization's id; not needed when there is only one.
        #[arg(long)]
        organization: Option<OrganizationId>,
        /// Whose events: a file with a key of the organization's, which may also be the variable BILLING_API_KEY; not looked at
        /// with `--organization`.
        #[arg(long, env = "BILLING_API_KEY_FILE")]
        api_key_file: Option<PathBuf>,
    },
    /// Bill every customer who is due and say how many that were; fails when one of them could not be billed.
    BillRun {
        /// Only what is due by then: a date or date-time in UTC that is not to come; now when missing.
        #[arg(long, value_parser = read_instant)]
        until: Option<OffsetDateTime>,
        /// Try customers again that were parked because their billing failed too often.
        #[arg(long)]
        retry_parked: bool,
        /// Print what was done as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Check the books, read only: print everything that does not add up, and fail when there is anything.
    Audit {
        /// Whose books: the organization's id; everybody's when missing.
        #[arg(long)]
        organization: Option<OrganizationId>,
        /// Print what was found as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the tenants there are, id and name.
    ListOrganizations {
        /// Print them as a JSON list.
        #[arg(long)]
        json: bool,
    },
    /// Make a tenant and print its API key.
    CreateOrganization {
        /// Its name, as invoices show it.
        #[arg(default_value = FIRST_ORGANIZATION)]
        name: String,
    },
    /// Make one more API key and print it.
    CreateKey {
        /// What it is for.
        #[arg(default_value = "key")]
        name: String,
        /// Whose: the organization's id; not needed when there is only one.
        #[arg(long)]
        organization: Option<OrganizationId>,
        /// From when on it is worthless: a date or date-time in UTC.
        #[arg(long, value_parser = read_instant)]
        expires_at: Option<OffsetDateTime>,
    },
    /// Make a user of the console, or give one that there is a role in an organization.
    CreateUser(user::CreateUser),
    /// Give a user of the console another password, and end all its sessions.
    ResetPassword(user::ResetPassword),
    /// Look at the lanes that customers are divided into.
    Lanes {
        /// What to do.
        #[command(subcommand)]
        command: LanesCommand,
    },
    /// Bring the schema up to date and say what was done.
    Migrate,
    /// Print the URL of the service's database, for pg_dump and psql; of a private one while the service runs.
    DatabaseUrl,
    /// Ask the service that runs here whether it is ready, for the health checks of containers; fails when it is not.
    Health {
        /// Where to ask, as http://127.0.0.1:8080 [default: where the settings say that it listens].
        #[arg(long)]
        url: Option<String>,
    },
    /// Follow the feed of a running service, and post its messages to a developer's machine, signed; begun anew, it goes on where it was.
    Listen(listen::Listening),
    /// Print what makes a shell complete this program's commands and flags.
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

fn read_instant(text: &str) -> Result<OffsetDateTime, String> {
    let Instant(instant) = Instant::from_json(Value::from(text)).map_err(|errors| details(&errors))?;
    Ok(instant)
}

/// What is wrong with a value; which one it is, the command line says itself.
fn details(errors: &FieldErrors) -> String {
    errors.0.iter().map(|error| error.detail.as_str()).collect::<Vec<_>>().join(" ")
}

/// Does what the command line says.
///
/// # Errors
/// Whatever kept it from being done.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    let Cli { settings, command } = cli;
    match command.unwrap_or(Command::Serve) {
        Command::Serve => serve(&settings),
        Command::Demo => demo::command::run(&settings),
        Command::ImportEvents { file, format, from_line, refused, organization, api_key_file } => {
            let key = match organization {
                Some(_) => None,
                None => secret(file_named(api_key_file.as_ref()), "BILLING_API_KEY")?,
            };
            let opened = Opened::open_beside(&settings)?;
            let organization = opened.organization(organization, key.as_deref())?;
            let refused = refused.unwrap_or_else(|| refused_beside(&file));
            let source = ImportSource { refused, file, form: format, from_line };
            let imported = import_events(&opened.store, organization, &source);
            // Also when it did not come to the end: what is there is asked for.
            if let Err(error) = opened.store.refresh_statistics() {
                log::warn!("statistics could not be gathered: {error}");
            }
            let imported = imported?;
            let events = if imported.stored == 1 { "event" } else { "events" };
            say(&format!("{} {events} stored, {} known before", imported.stored, imported.duplicates))?;
            match imported.rejected {
                0 => Ok(()),
                1 => bail!("1 event was refused: {} says why", source.refused.display()),
                many => bail!("{many} events were refused: {} says why", source.refused.display()),
            }
        }
        Command::BillRun { until, retry_parked, json } => bill_run(&settings, until, retry_parked, json),
        Command::Audit { organization, json } => audit(&settings, organization, json),
        Command::Health { url } => health::ask(&settings, url.as_deref()),
        Command::Listen(listening) => listen::follow(&settings, &listening),
        Command::ListOrganizations { json } => {
            let organizations = Opened::open_beside(&settings)?.organizations()?;
            if json {
                return Ok(say(&Value::from_iter(organizations.iter().map(organization_json)).to_string())?);
            }
            organizations.iter().try_for_each(|organization| Ok(say(&named(organization))?))
        }
        Command::CreateOrganization { name } => {
            let (id, key) = Opened::found_beside(&settings)?.create_organization(&name, None)?;
            Ok(say(&format!("Created {id}. Its API key, shown this once: {}", key.reveal()))?)
        }
        Command::CreateKey { name, organization, expires_at } => {
            let opened = Opened::open_beside(&settings)?;
            let organization = opened.organization(organization, None)?;
            let key = opened.create_key(organization, &name, expires_at)?;
            Ok(say(&format!("API key of {organization}, shown this once: {}", key.reveal()))?)
        }
        Command::CreateUser(command) => command.run(&settings),
        Command::ResetPassword(command) => command.run(&settings),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut flags::fitted(Cli::command()), PROGRAM, &mut script);
            Ok(say(&String::from_utf8(script)?)?)
        }
        Command::Lanes { command } => lanes::run(&settings, command),
        Command::DatabaseUrl => Ok(say(&Database::url_beside(&settings)?)?),
        Command::Migrate => {
            let database = Database::open_existing(&settings)?;
            let applied = migrate(&database.url, &settings)?;
            Ok(say(&if applied.is_empty() {
                "Up to date.".to_owned()
            } else {
                format!("Applied {}.", applied.join(", "))
            })?)
        }
    }
}

fn organization_json(organization: &Organization) -> Value {
    json!({
        "organization_id": organization.id.to_string(),
        "organization_name": organization.name,
        "default_currency_code": organization.default_currency_code,
    })
}

fn bill_run(
    settings: &Settings,
    until: Option<OffsetDateTime>,
    retry_parked: bool,
    as_json: bool,
) -> anyhow::Result<()> {
    if until.is_some_and(|until| until > OffsetDateTime::now_utc()) {
        bail!(
            "--until lies in the future: customers in real time are billed up to now at most; those of a test clock go ahead with it"
        );
    }
    let backend = Opened::open_beside(settings)?.backend();
    message::render_on(backend.as_ref());
    if retry_parked {
        let released = backend.release_parked()?;
        if !as_json {
            say(&format!("{released} parked customers are tried again."))?;
        }
    }
    let taxes = Taxes::new(Client::new(settings.reach()));
    if as_json {
        let done = run_all(backend.as_ref(), Asking::Now(&taxes), until)?;
        say(&done.json()?.to_string())?;
        return done.is_all_right().map(drop);
    }
    let run = run_to_the_end(backend.as_ref(), Asking::Now(&taxes), until)?;
    Ok(say(&format!("{} customers billed.", run.billed))?)
}

/// Audits the database as it is: nothing is made, nothing migrated, nothing written.
fn audit(settings: &Settings, organization: Option<OrganizationId>, as_json: bool) -> anyhow::Result<()> {
    let database = Database::open_existing(settings)?;
    let progress = ProgressBar::new_spinner();
    let mut tell = |check| {
        progress.set_message(check);
        progress.tick();
    };
    let url = with_timeouts(&database.url);
    let report = match organization {
        None => audit_database(&url, &mut tell),
        Some(organization) => audit_organization(&url, organization.uuid(), &mut tell),
    }?;
    progress.finish_and_clear();
    say(&if as_json { report_json(&report).to_string() } else { report.to_string() })?;
    if !report.is_clean() {
        bail!("the books are not right");
    }
    Ok(())
}

fn report_json(report: &Report) -> Value {
    let breach =
        |Breach { check, subject, problem }: &Breach| json!({"check": check, "subject": subject, "problem": problem});
    let note = |Note { about, subject, text }: &Note| json!({"about": about, "subject": subject, "text": text});
    json!({
        "checks": report.checks,
        "breaches": report.breaches.iter().map(breach).collect::<Vec<_>>(),
        "notes": report.notes.iter().map(note).collect::<Vec<_>>(),
    })
}

/// Serves until it is told to stop. The private Postgres, if any, stops last; when it died and cannot be started again, nothing
/// is served any more.
fn serve(settings: &Settings) -> anyhow::Result<()> {
    // A bad certificate is told before a database is started.
    let tls = settings.tls().map(|files| files.load()).transpose()?;
    let openid = settings.openid.read()?;
    // As is an address that is taken, before a key is made and shown for nothing.
    drop(TcpListener::bind(settings.addr).with_context(|| format!("cannot listen on {}", settings.addr))?);
    let mut opened = Opened::open(settings)?;
    let mut given_up = opened.cluster.as_mut().map(watch).transpose()?;
    // Before a key is made and shown for nothing.
    if let Some(openid) = &openid {
        opened.check_organizations(openid.roles.organizations()).context("BILLING_OIDC_ROLES")?;
    }
    let first_key = opened.bootstrap(settings)?;
    let (first_link, first_page) = user::first_link(&opened, settings)?.unzip();
    let connections = usize::try_from(settings.pool_size)?;
    let mut server = ServerSettings::new(settings.addr, opened.pepper.clone(), connections);
    server.tls = tls;
    server.reach = settings.reach();
    server.feed_days = settings.feed_days;
    server.has_console = settings.console == Switch::On;
    server.trusted_proxies.clone_from(&settings.trusted_proxies);
    server.openid = openid;
    server.first_link = first_link.map(Arc::new);
    server.is_disk_full = opened.cluster.is_some().then(|| disk_check(settings.data_dir()));
    let system = System::new();
    let mut stop_signal = system.block_on(async { StopSignal::new() })?;
    let started = Server::start(&server, opened.backend());
    if let Ok(running) = &started {
        let base = format!("{}://{}", if server.tls.is_some() { "https" } else { "http" }, running.addr);
        say(&format!("Serving on {base}\nThe interface, to read and to try: {base}/docs/"))?;
        if let Some(path) = first_page {
            say(&format!("The console, for its first user, open once and for 15 minutes: {base}{path}"))?;
        }
    }
    // Last, where it is seen; and also when nothing can be served, because nobody can read it again.
    first_key.map_or(Ok(()), |told| say(&told))?;
    let running = started?;
    let fatal = system.block_on(poll_fn(|context| {
        let given_up = given_up.as_mut().map_or(Poll::Pending, |given_up| Pin::new(given_up).poll(context));
        match given_up {
            Poll::Ready(reason) => Poll::Ready(Some(reason.map_or_else(anyhow::Error::from, anyhow::Error::from))),
            Poll::Pending => stop_signal.poll(context).map(|()| None),
        }
    }));
    log::info!("stopping; a second signal stops at once");
    let (sender, mut stopped) = oneshot::channel();
    // An error means that a second signal came first.
    std::thread::spawn(move || drop(sender.send(running.stop())));
    system.block_on(poll_fn(|context| match Pin::new(&mut stopped).poll(context) {
        Poll::Ready(outcome) => Poll::Ready(outcome?),
        Poll::Pending => stop_signal.poll(context).map(|()| bail!("stopped before everything was finished")),
    }))?;
    fatal.map_or(Ok(()), |error| Err(error.context("the private Postgres has died")))
}

/// Has the private Postgres started again when it dies. What comes is why it cannot be, any more.
fn watch(cluster: &mut Cluster) -> Result<oneshot::Receiver<postgres_local::Error>, postgres_local::Error> {
    let (sender, given_up) = oneshot::channel();
    // An error means that the service stops already.
    cluster.watch(|error| drop(sender.send(error)))?;
    Ok(given_up)
}

/// Whether the private Postgres has no room to start in: it needs two files of its log.
fn disk_check(data_dir: PathBuf) -> DiskCheck {
    const NEEDED_BYTES: u64 = 32 << 20;
    Arc::new(move || postgres_local::free_bytes(&data_dir).is_some_and(|free| free < NEEDED_BYTES))
}

/// SIGTERM or SIGINT.
struct StopSignal {
    terminate: actix_web::rt::signal::unix::Signal,
    interrupt: actix_web::rt::signal::unix::Signal,
}

impl StopSignal {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let came = self.terminate.poll_recv(context).is_ready() | self.interrupt.poll_recv(context).is_ready();
        if came { Poll::Ready(()) } else { Poll::Pending }
    }
}
