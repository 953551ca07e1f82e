//! Follows the feed of a running service, and posts its messages to a developer's machine, signed as those of webhooks are.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use billing_outbound::{Client, Destination, Message, Reach, Secret, TIMEOUT};
use clap::Args;
use rustls::crypto::aws_lc_rs;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use ureq::Agent;
use ureq::tls::TlsConfig;

use super::health;
use crate::secret::{file_named, secret};
use crate::settings::Settings;
use crate::startup::say;

/// Longer than the feed is asked to wait.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long after a failure it is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// What is asked for: few messages at once, since those of an answer are noted together.
const PART: &str = "limit=20&wait=20";

/// What is followed, and where to.
#[derive(Args, Debug)]
pub struct Listening {
    /// Where messages are posted, as http://127.0.0.1:3000/hooks.
    #[arg(long, required_unless_present = "print")]
    forward_to: Option<String>,
    /// Print messages, each as JSON on a line.
    #[arg(long)]
    print: bool,
    /// The service, as http://127.0.0.1:8080 [default: where the settings say that it listens].
    #[arg(long)]
    url: Option<String>,
    /// A file with an API key, which may also be the variable BILLING_API_KEY.
    #[arg(long, env = "BILLING_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    /// Where it is noted how far it came, and what it signs with [default: listen.json in the data folder].
    #[arg(long)]
    state: Option<PathBuf>,
}

/// What is kept from one run to the next.
#[derive(Clone, Serialize, Deserialize)]
struct State {
    secret: String,
    after: String,
}

/// A part of the feed, its messages as they came.
#[derive(Deserialize)]
struct Part {
    results: Vec<Box<RawValue>>,
    next: String,
}

/// What is read of a message.
#[derive(Deserialize)]
struct Envelope {
    id: String,
    r#type: String,
}

struct Feed {
    agent: Agent,
    base: String,
    key: String,
}

/// Follows the feed until it is stopped. Begun anew, it goes on where it was; the first time, with what is told from then on.
///
/// # Errors
/// When the service refuses, or nothing can be noted.
pub fn follow(settings: &Settings, listening: &Listening) -> anyhow::Result<()> {
    let key = secret(file_named(listening.api_key_file.as_ref()), "BILLING_API_KEY")?;
    let key = key.context("set BILLING_API_KEY, or name a file with --api-key-file")?;
    let base = health::base(settings, listening.url.as_deref())?;
    // It is this machine, and the certificate is for the name that others know it by.
    let tls = TlsConfig::builder()
        .disable_verification(true)
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .build();
    let config = Agent::config_builder().tls_config(tls).timeout_global(Some(PATIENCE)).http_status_as_error(false);
    let feed = Feed { agent: config.proxy(None).build().into(), base, key };
    let client = Client::new(Reach::Anywhere);
    let to = listening.forward_to.as_deref().map(|url| Destination::parse(url, Reach::Anywhere)).transpose()?;
    let file = listening.state.clone().unwrap_or_else(|| settings.data_dir().join("listen.json"));
    let mut state = match read(&file)? {
        Some(state) => state,
        None => begin(&feed, &file)?,
    };
    let signer = Secret::parse(&state.secret).with_context(|| format!("the secret in {}", file.display()))?;
    log::info!("following {}; messages are signed with {}", feed.base, state.secret);
    loop {
        let part = feed.read_on(&format!("{PART}&after={}", state.after))?;
        for message in &part.results {
            if listening.print {
                say(message.get())?;
            }
            if let Some(to) = &to {
                forward(&client, to, &signer, message)?;
            }
        }
        state.after = part.next;
        keep(&file, &state)?;
    }
}

/// Passes over what was told before.
fn begin(feed: &Feed, file: &Path) -> anyhow::Result<State> {
    let mut state = State { secret: Secret::generate()?.reveal(), after: String::new() };
    loop {
        let after = if state.after.is_empty() { String::new() } else { format!("&after={}", state.after) };
        let part = feed.read_on(&format!("limit=1000{after}"))?;
        state.after = part.next;
        if part.results.is_empty() {
            keep(file, &state)?;
            return Ok(state);
        }
    }
}

impl Feed {
    /// A part of the feed. A service that is not there is waited for.
    fn read_on(&self, query: &str) -> anyhow::Result<Part> {
        let mut is_gone = false;
        loop {
            let asked =
                self.agent.get(format!("{}/api/feed/?{query}", self.base)).header("X-API-KEY", &self.key).call();
            let why = match asked {
                Ok(mut answer) if answer.status().is_success() => {
                    let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string()?;
                    return Ok(serde_json::from_str(&text)?);
                }
                Ok(mut answer) if answer.status().is_client_error() && answer.status().as_u16() != 429 => {
                    bail!("the service refuses: {}", answer.body_mut().read_to_string()?)
                }
                Ok(answer) => format!("status {}", answer.status().as_u16()),
                Err(error) => error.to_string(),
            };
            if !is_gone {
                log::warn!("no answer at {}: {why}; trying until there is one", self.base);
                is_gone = true;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Posts a message, again and again until somebody answers, whatever it is.
fn forward(client: &Client, to: &Destination, signer: &Secret, message: &RawValue) -> anyhow::Result<()> {
    let body = message.get().as_bytes();
    let Envelope { id, r#type } = serde_json::from_str(message.get())?;
    let mut is_gone = false;
    loop {
        let timestamp = OffsetDateTime::now_utc().unix_timestamp();
        let signed = signer.sign(&Message { id: &id, timestamp, body });
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(signed.as_pairs());
        match client.post(to, &headers, body, TIMEOUT) {
            Ok(answer) => {
                log::info!("{type} {id}: {}", answer.status);
                return Ok(());
            }
            Err(failure) if !is_gone => log::warn!("{type} {id}: {failure}; trying until somebody answers"),
            Err(_) => {}
        }
        is_gone = true;
        thread::sleep(PAUSE);
    }
}

fn read(file: &Path) -> anyhow::Result<Option<State>> {
    match fs::read_to_string(file) {
        Ok(text) => {
            Ok(Some(serde_json::from_str(&text).with_context(|| format!("{} is not what was noted", file.display()))?))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

/// Notes how far it came, all at once or not at all. Nobody else may read what it signs with.
fn keep(file: &Path, state: &State) -> anyhow::Result<()> {
    let beside = file.with_extension("new");
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let noted = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    noted.and_then(|mut opened| opened.write_all(serde_json::to_string(state)?.as_bytes()))?;
    fs::rename(&beside, file).with_context(|| format!("{} cannot be written", file.display()))
}
