//! The provider as it is set.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use billing_outbound::{Destination, Reach};
use clap::Args;
use ureq::tls::{Certificate, PemItem, parse_pem};

use super::group_roles::GroupRoles;
use crate::secret::{file_named, secret};

/// How long keys rest that were just asked for: what is signed by an unknown one is asked for no more often.
const KEYS_REST: Duration = Duration::from_secs(60);
/// How long all calls of one step may take together.
const PATIENCE: Duration = Duration::from_secs(8);

/// The provider that people may sign in to the console with.
#[derive(Args, Clone, Debug, Default)]
pub struct OpenIdFlags {
    /// An OpenID provider that people may sign in to the console with, as `https://login.example.com`.
    #[arg(long, env = "BILLING_OIDC_ISSUER", global = true)]
    oidc_issuer: Option<String>,
    /// What the provider calls this service.
    #[arg(long, env = "BILLING_OIDC_CLIENT_ID", global = true)]
    oidc_client_id: Option<String>,
    /// A file with the secret that the provider knows this service by, which may also be the variable BILLING_OIDC_CLIENT_SECRET.
    #[arg(long, env = "BILLING_OIDC_CLIENT_SECRET_FILE", global = true)]
    oidc_client_secret_file: Option<PathBuf>,
    /// The claim of the provider's tokens that lists groups.
    #[arg(long, env = "BILLING_OIDC_GROUPS_CLAIM", default_value = "groups", global = true)]
    oidc_groups_claim: String,
    /// What groups make of people: group=organization_id:role, with commas between them; of one organization the first that fits.
    #[arg(long, env = "BILLING_OIDC_ROLES", global = true)]
    oidc_roles: Option<String>,
    /// A file with the certificates, in PEM, of the authorities that vouch for the provider [default: those that Mozilla trusts].
    #[arg(long, env = "BILLING_OIDC_CA_FILE", global = true)]
    oidc_ca_file: Option<PathBuf>,
    /// Where people reach this service, as `https://billing.example.com`: what the provider sends them back to.
    #[arg(long, env = "BILLING_CONSOLE_URL", global = true)]
    console_url: Option<String>,
}

/// A provider, whole.
#[derive(Clone)]
pub struct OpenIdSettings {
    /// The provider, as it calls itself.
    pub issuer: String,
    /// What it calls this service.
    pub client_id: String,
    /// What it knows this service by.
    pub client_secret: String,
    /// The claim that lists groups.
    pub groups_claim: String,
    /// What they make of people.
    pub roles: GroupRoles,
    /// Where people are sent back to.
    pub redirect_url: String,
    /// Who vouches for it; `None`: whom Mozilla trusts.
    pub authorities: Option<Vec<Certificate<'static>>>,
    /// How long keys rest that were just asked for.
    pub keys_rest: Duration,
    /// How long all calls of one step may take together.
    pub patience: Duration,
}

impl OpenIdSettings {
    /// A provider with the usual settings.
    ///
    /// # Errors
    /// What is wrong, by the variable that says it.
    pub fn new(
        (issuer, client_id, client_secret): (&str, &str, &str),
        roles: &str,
        console_url: &str,
    ) -> anyhow::Result<Self> {
        let roles = roles.parse().map_err(|error: String| anyhow::anyhow!("BILLING_OIDC_ROLES: {error}"))?;
        check_url("BILLING_OIDC_ISSUER", issuer)?;
        let base = console_url.strip_suffix('/').unwrap_or(console_url);
        check_url("BILLING_CONSOLE_URL", base)?;
        if base.matches('/').count() != 2 {
            bail!("BILLING_CONSOLE_URL: {console_url:?} has a path, and the console is at /console/ of its host");
        }
        Ok(Self {
            issuer: issuer.to_owned(),
            client_id: client_id.to_owned(),
            client_secret: client_secret.to_owned(),
            groups_claim: "groups".to_owned(),
            roles,
            redirect_url: format!("{base}/console/oidc/callback/"),
            authorities: None,
            keys_rest: KEYS_REST,
            patience: PATIENCE,
        })
    }

    /// Whether the provider is called over plain HTTP, which one on this machine may be.
    pub fn is_plain(&self) -> bool {
        self.issuer.starts_with("http://")
    }

    /// The provider's host, by which people know it.
    pub fn host(&self) -> &str {
        let rest = self.issuer.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

/// Never the secret: it would be in logs.
impl fmt::Debug for OpenIdSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenIdSettings").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

fn check_url(variable: &str, text: &str) -> anyhow::Result<()> {
    let destination = Destination::parse(text, Reach::Anywhere).with_context(|| format!("{variable}: {text:?}"))?;
    if !destination.is_encrypted() && !destination.is_local() {
        bail!("{variable}: {text:?} must begin with https://, unless it is this machine");
    }
    if text.contains(['?', '#']) {
        bail!("{variable}: {text:?} must have no query and no fragment");
    }
    Ok(())
}

impl OpenIdFlags {
    /// The provider, if there is one.
    ///
    /// # Errors
    /// When it is set in part; what is wrong, by the variable that says it.
    pub fn read(&self) -> anyhow::Result<Option<OpenIdSettings>> {
        let secret = secret(file_named(self.oidc_client_secret_file.as_ref()), "BILLING_OIDC_CLIENT_SECRET")?;
        self.with_secret(secret)
    }

    fn with_secret(&self, secret: Option<String>) -> anyhow::Result<Option<OpenIdSettings>> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let parts = [
            ("BILLING_OIDC_ISSUER", given(&self.oidc_issuer)),
            ("BILLING_OIDC_CLIENT_ID", given(&self.oidc_client_id)),
            ("BILLING_OIDC_CLIENT_SECRET or BILLING_OIDC_CLIENT_SECRET_FILE", secret),
            ("BILLING_OIDC_ROLES", given(&self.oidc_roles)),
        ];
        // Where the console is may be said for other ends one day.
        if parts.iter().all(|(_, value)| value.is_none()) {
            return Ok(None);
        }
        let url = ("BILLING_CONSOLE_URL", given(&self.console_url));
        let all: Vec<(&str, Option<String>)> = parts.into_iter().chain([url]).collect();
        let missing: Vec<&str> = all.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            bail!("signing in with an OpenID provider is set in part: there is no {}", missing.join(", no "));
        }
        let all: Vec<String> = all.into_iter().filter_map(|(_, value)| value).collect();
        let [issuer, client_id, secret, roles, url] = all.as_slice() else { bail!("five settings are not five") };
        let mut settings = OpenIdSettings::new((issuer, client_id, secret), roles, url)?;
        settings.groups_claim = self.oidc_groups_claim.trim().to_owned();
        if settings.groups_claim.is_empty() {
            bail!("BILLING_OIDC_GROUPS_CLAIM is empty");
        }
        settings.authorities = self.authorities()?;
        Ok(Some(settings))
    }

    fn authorities(&self) -> anyhow::Result<Option<Vec<Certificate<'static>>>> {
        let Some(path) = file_named(self.oidc_ca_file.as_ref()) else { return Ok(None) };
        let told = || format!("BILLING_OIDC_CA_FILE: {}", path.display());
        let pem = fs::read(path).with_context(told)?;
        let mut found = Vec::new();
        for item in parse_pem(&pem) {
            if let PemItem::Certificate(certificate) = item.with_context(told)? {
                found.push(certificate);
            }
        }
        if found.is_empty() {
            bail!("{} has no certificate in it", told());
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: &str = "admins=org_00000000000000000000000000000001:owner";

    fn flags() -> OpenIdFlags {
        let some = |text: &str| Some(text.to_owned());
        OpenIdFlags {
            oidc_issuer: some("https://login.example.com/realms/main"),
            oidc_client_id: some("billing"),
            oidc_client_secret_file: None,
            oidc_groups_claim: "groups".to_owned(),
            oidc_roles: some(ROLES),
            oidc_ca_file: None,
            console_url: some("https://billing.example.com/"),
        }
    }

    #[test]
    fn a_provider_is_set_whole_or_not_at_all() {
        let secret = || Some("secret".to_owned());
        let found = flags().with_secret(secret()).expect("settings").expect("a provider");
        assert_eq!(found.redirect_url, "https://billing.example.com/console/oidc/callback/");
        assert_eq!(found.host(), "login.example.com");
        assert!(!format!("{found:?}").contains("secret"));
        assert!(OpenIdFlags::default().with_secret(None).expect("nothing").is_none());
        let only_url = OpenIdFlags { console_url: flags().console_url, ..OpenIdFlags::default() };
        assert!(
            only_url.with_secret(None).expect("nothing").is_none(),
            "where the console is says nothing of a provider"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let no_certificate = folder.path().join("empty.pem");
        fs::write(&no_certificate, "nothing").expect("written");
        type Change<'c> = &'c dyn Fn(&mut OpenIdFlags);
        #[rustfmt::skip]
        let cases: [(Change<'_>, Option<String>, &str, &str); 14] = [
            // change,                                                            secret,    told,                            why
            (&|flags| flags.oidc_issuer = None,                                   secret(),  "no BILLING_OIDC_ISSUER",        "who"),
            (&|flags| flags.oidc_client_id = Some(String::new()),                 secret(),  "no BILLING_OIDC_CLIENT_ID",     "an empty variable is none"),
            (&|_| {},                                                             None,      "no BILLING_OIDC_CLIENT_SECRET or BILLING_OIDC_CLIENT_SECRET_FILE", "by what"),
            (&|flags| flags.oidc_roles = None,                                    secret(),  "no BILLING_OIDC_ROLES",         "nobody would have a role"),
            (&|flags| flags.console_url = None,                                   secret(),  "no BILLING_CONSOLE_URL",        "nobody would come back"),
            (&|flags| *flags = OpenIdFlags::default(),                            secret(),  "no BILLING_OIDC_ISSUER, no",    "a secret alone"),
            (&|flags| flags.oidc_issuer = Some("login.example.com".to_owned()),   secret(),  "BILLING_OIDC_ISSUER: ",         "no URL"),
            (&|flags| flags.oidc_issuer = Some("http://login.example.com".to_owned()), secret(), "must begin with https://",  "anybody on the way could read it"),
            (&|flags| flags.oidc_issuer = Some("https://login.example.com/?a".to_owned()), secret(), "no query",              "issuers have none"),
            (&|flags| flags.console_url = Some("https://a.example/billing".to_owned()), secret(), "BILLING_CONSOLE_URL: \"https://a.example/billing\" has a path", "pages are at /console/"),
            (&|flags| flags.console_url = Some("http://billing.example".to_owned()), secret(), "BILLING_CONSOLE_URL: ",       "not encrypted"),
            (&|flags| flags.oidc_roles = Some("admins=owner".to_owned()),         secret(),  "BILLING_OIDC_ROLES: ",          "of which organization"),
            (&|flags| flags.oidc_groups_claim = " ".to_owned(),                   secret(),  "BILLING_OIDC_GROUPS_CLAIM",     "no name"),
            (&|flags| flags.oidc_ca_file = Some(no_certificate.clone()),          secret(),  "has no certificate in it",      "nobody to trust"),
        ];
        for (change, secret, told, why) in cases {
            let mut flags = flags();
            change(&mut flags);
            let error = format!("{:#}", flags.with_secret(secret).map(drop).expect_err(why));
            assert!(error.contains(told), "{why}: {error}");
        }
        let local = OpenIdFlags { oidc_issuer: Some("http://127.0.0.1:9".to_owned()), ..flags() };
        assert!(
            local.with_secret(secret()).expect("settings").is_some(),
            "what does not leave this machine needs no TLS"
        );
    }
}
