//! Users of the console, made by whoever is at the machine.

use std::io::{IsTerminal, Read, stdin, stdout};
use std::time::Instant;

use anyhow::{anyhow, bail};
use billing_domain::id::OrganizationId;
use billing_domain::store::{ApiKeyLookup, Users};
use billing_domain::text::check_email;
use billing_domain::user::{Role, normal_email};
use clap::Args;

use crate::first_link::FirstLink;
use crate::password::{CHARACTERS_MAX, CHARACTERS_MIN, hash, is_acceptable};
use crate::settings::{Settings, Switch};
use crate::startup::{Opened, say};

/// Most bytes that are read for a password.
const INPUT_BYTES_MAX: u64 = 4_096;

/// Who is made a user.
#[derive(Args, Debug)]
pub struct CreateUser {
    /// Where: the organization's id; not needed when there is only one.
    #[arg(long)]
    organization: Option<OrganizationId>,
    /// The user's e-mail address, which is what one signs in with.
    #[arg(long, value_parser = read_email)]
    email: String,
    /// What the user may: owner, finance, support, developer or reader.
    #[arg(long)]
    role: Role,
    /// Read the password from standard input: a flag is seen by everybody on the machine.
    #[arg(long, required = true)]
    password_stdin: bool,
}

/// Whose password is changed.
#[derive(Args, Debug)]
pub struct ResetPassword {
    /// The user's e-mail address.
    #[arg(long, value_parser = read_email)]
    email: String,
    /// Read the password from standard input: a flag is seen by everybody on the machine.
    #[arg(long, required = true)]
    password_stdin: bool,
}

fn read_email(text: &str) -> Result<String, String> {
    let email = normal_email(text);
    check_email(&email).map_err(|error| error.detail)?;
    Ok(email)
}

/// The hash of the password on standard input, whose last line ending is not part of it.
fn hash_of_input() -> anyhow::Result<String> {
    let mut text = String::new();
    stdin().take(INPUT_BYTES_MAX).read_to_string(&mut text)?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if !is_acceptable(password) {
        bail!("the password must have {CHARACTERS_MIN} to {CHARACTERS_MAX} characters");
    }
    hash(password).map_err(|error| anyhow!("the password could not be hashed: {error}"))
}

impl CreateUser {
    /// Makes the user.
    ///
    /// # Errors
    /// Without such an organization; with a password that is too short.
    pub fn run(&self, settings: &Settings) -> anyhow::Result<()> {
        let hashed = hash_of_input()?;
        let opened = Opened::open_beside(settings)?;
        let organization = opened.organization(self.organization, None)?;
        let is_new = opened.store.put_user(&self.email, &hashed, organization, self.role)?;
        let (email, role) = (&self.email, self.role);
        Ok(say(&if is_new {
            format!("Created {email}, {role} of {organization}.")
        } else {
            format!("{email} was there already, with a password that stays: {role} of {organization} from now on.")
        })?)
    }
}

impl ResetPassword {
    /// Changes the password.
    ///
    /// # Errors
    /// Without such a user; with a password that is too short.
    pub fn run(&self, settings: &Settings) -> anyhow::Result<()> {
        let hashed = hash_of_input()?;
        let opened = Opened::open_beside(settings)?;
        if !opened.store.set_password(&self.email, &hashed)? {
            bail!("there is no user {}", self.email);
        }
        Ok(say(&format!("{} has another password, and is signed out everywhere.", self.email))?)
    }
}

/// The link that makes the first user, and its path; only where there is nobody yet, and somebody at the terminal: what goes into a
/// file is read by others, and later.
pub fn first_link(opened: &Opened, settings: &Settings) -> anyhow::Result<Option<(FirstLink, String)>> {
    if settings.console == Switch::Off || !stdout().is_terminal() || opened.store.has_users()? {
        return Ok(None);
    }
    let Some(organization) = opened.store.list_organizations()?.first().copied() else { return Ok(None) };
    Ok(Some(FirstLink::new(organization, Instant::now())?))
}
