//! Configuration: every setting is a flag and an environment variable; a secret is a variable or a file.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::bail;
use billing_outbound::Reach;
use clap::{Args, ValueEnum};

use crate::client_address::Network;
use crate::openid::OpenIdFlags;
use crate::secret::{file_named, has_password, secret};
use crate::telemetry::log::LogFormat;
use crate::tls::TlsFiles;

/// Where to listen when nothing is said.
const ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Whether something is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It is.
    #[default]
    On,
    /// It is not.
    Off,
}

/// What the program is told about itself.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    #[arg(long, env = "BILLING_ADDR", default_value_t = ADDR, global = true)]
    pub addr: SocketAddr,
    /// A Postgres to use instead of a private one; with a password in it only as the variable DATABASE_URL or from a file.
    #[arg(long, global = true)]
    database_url: Option<String>,
    /// A file with the URL in it.
    #[arg(long, env = "DATABASE_URL_FILE", global = true)]
    database_url_file: Option<PathBuf>,
    /// Where the private Postgres and the key pepper are kept [default: a folder of the user's].
    #[arg(long, env = "BILLING_DATA_DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// A file with the key of the first organization, which may also be the variable BILLING_BOOTSTRAP_API_KEY [default: a
    /// random key, printed once].
    #[arg(long, env = "BILLING_BOOTSTRAP_API_KEY_FILE", global = true)]
    bootstrap_api_key_file: Option<PathBuf>,
    /// A file with the secret that API keys are digested with, which may also be the variable BILLING_KEY_PEPPER [default: a
    /// file in the data folder].
    #[arg(long, env = "BILLING_KEY_PEPPER_FILE", global = true)]
    key_pepper_file: Option<PathBuf>,
    /// The certificate to serve HTTPS with, in PEM, with those that vouch for it; plain HTTP when missing.
    #[arg(long, env = "BILLING_TLS_CERT", requires = "tls_key", global = true)]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, env = "BILLING_TLS_KEY", requires = "tls_cert", global = true)]
    tls_key: Option<PathBuf>,
    /// Requests that may use the database at the same time.
    #[arg(long, env = "BILLING_POOL_SIZE", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000), global = true)]
    pub pool_size: u32,
    /// Into how many lanes the customers of a new database are divided: 1, 2, 4 .. 64; fixed from then on [default: 1, or as
    /// many as the database has].
    #[arg(long, env = "BILLING_LANES", value_parser = clap::value_parser!(u16).range(1..=64), global = true)]
    pub lanes: Option<u16>,
    /// Let what organizations name be called over plain HTTP and at private addresses too: only where all organizations are your own.
    #[arg(long, env = "BILLING_WEBHOOKS_ALLOW_PRIVATE", global = true)]
    webhooks_allow_private: bool,
    /// Whether there are pages for people under /console/; `off`: `/` says where the API is described.
    #[arg(long, env = "BILLING_CONSOLE", value_enum, default_value_t, global = true)]
    pub console: Switch,
    /// The provider that people may sign in with.
    #[command(flatten)]
    pub openid: OpenIdFlags,
    /// The proxies that are believed about where a request comes from and whether it was encrypted: addresses or networks,
    /// with commas between them.
    #[arg(long, env = "BILLING_TRUSTED_PROXIES", value_delimiter = ',', global = true)]
    pub trusted_proxies: Vec<Network>,
    /// How the log looks.
    #[arg(long, env = "BILLING_LOG", value_enum, default_value_t, global = true)]
    pub log: LogFormat,
    /// How many days messages are kept for the feed.
    #[arg(long, env = "BILLING_FEED_DAYS", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3_650), global = true)]
    pub feed_days: u32,
    /// Install Postgres with the system's package manager where there is none.
    #[arg(long, global = true)]
    pub install_postgres: bool,
}

impl Settings {
    /// The certificate and its key, when both are given.
    pub fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key })
    }

    /// The Postgres to use instead of a private one: that of the flag, of the file, or of the variable.
    ///
    /// # Errors
    /// When the file cannot be read, as with every secret; when a flag has a password in it, which by then is known to
    /// everybody on the machine.
    pub fn database_url(&self) -> anyhow::Result<Option<String>> {
        match &self.database_url {
            Some(url) if has_password(url) => bail!(
                "--database-url has a password in it, which everybody on this machine can read: change the password, and put \
                 the URL into the variable DATABASE_URL or a file for --database-url-file"
            ),
            Some(url) => Ok(Some(url.clone())),
            None => secret(file_named(self.database_url_file.as_ref()), "DATABASE_URL"),
        }
    }

    /// The key of the first organization.
    ///
    /// # Errors
    /// As [`Settings::database_url`].
    pub fn bootstrap_api_key(&self) -> anyhow::Result<Option<String>> {
        secret(file_named(self.bootstrap_api_key_file.as_ref()), "BILLING_BOOTSTRAP_API_KEY")
    }

    /// The secret that API keys are digested with.
    ///
    /// # Errors
    /// As [`Settings::database_url`].
    pub fn key_pepper(&self) -> anyhow::Result<Option<String>> {
        secret(file_named(self.key_pepper_file.as_ref()), "BILLING_KEY_PEPPER")
    }

    /// How far calls to addresses go that organizations have named.
    pub fn reach(&self) -> Reach {
        if self.webhooks_allow_private { Reach::Anywhere } else { Reach::Public }
    }

    /// The flags by which another call of the program has the same address, database and pepper; none of them is a secret.
    pub fn flags(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags = [
            ("--addr", (self.addr != ADDR).then(|| self.addr.to_string())),
            ("--data-dir", path(&self.data_dir)),
            ("--database-url", self.database_url.clone().filter(|url| !has_password(url))),
            ("--database-url-file", path(&self.database_url_file)),
            ("--key-pepper-file", path(&self.key_pepper_file)),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        given.flatten().collect()
    }

    /// Where the private Postgres and the key pepper are kept.
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| postgres_local::default_data_dir("billing"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn another_call_by_the_flags_has_the_same_settings() {
        #[rustfmt::skip]
        let cases: [(&[&str], &[&str], &str); 4] = [
            // called with,                                                  flags,                                              why
            (&[],                                                             &[],                                               "nothing was said"),
            (&["demo", "--data-dir", "a b"],                                  &["--data-dir", "a b"],                            "no command, since serving is the usual one"),
            (&["--addr=127.0.0.1:9", "demo", "--pool-size=3"],                &["--addr", "127.0.0.1:9"],                        "what is served does not depend on the pool"),
            (&["demo", "--database-url", "postgresql://me:secret@db/billing"], &[],                                               "a secret is not told on"),
        ];
        for (called_with, expected, why) in cases {
            let parse = |words: &[&str]| Cli::try_parse_from([&["billing-http"], words].concat()).expect(why).settings;
            let settings = parse(called_with);
            let flags = settings.flags();
            assert_eq!(flags, expected, "{why}");
            let again = parse(&flags.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!((again.addr, again.data_dir()), (settings.addr, settings.data_dir()), "{why}");
        }
    }
}
