//! Which settings mean something to which command: its help shows these, and others are refused.
//!
//! All of them may stand before the command as well as behind it, so each is known to the whole program.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Error};

/// Where the database is, of a command that needs one that is there.
const DATABASE: &[&str] = &["database_url", "database_url_file", "data_dir", "log"];
/// Of a command that works on the store, as the service does.
const STORE: &[&str] = &["key_pepper_file", "pool_size", "lanes"];

/// Each command with the settings that mean something to it; to one that is not here all do.
const MEANT: &[(&str, &[&[&str]])] = &[
    ("demo", &[DATABASE, STORE, &["addr", "bootstrap_api_key_file", "install_postgres"]]),
    ("import-events", &[DATABASE, STORE]),
    ("bill-run", &[DATABASE, STORE, &["webhooks_allow_private"]]),
    ("audit", &[DATABASE]),
    ("list-organizations", &[DATABASE, STORE]),
    ("create-organization", &[DATABASE, STORE]),
    ("create-key", &[DATABASE, STORE]),
    ("lanes", &[DATABASE, STORE]),
    ("migrate", &[DATABASE, &["lanes"]]),
    ("database-url", &[DATABASE]),
    ("health", &[&["addr", "tls_cert", "tls_key", "log"]]),
    ("listen", &[&["addr", "data_dir", "tls_cert", "tls_key", "log"]]),
    ("completions", &[&["log"]]),
];

fn means_something(command: &str, setting: &str) -> bool {
    let row = MEANT.iter().find(|(name, _)| *name == command);
    row.is_none_or(|(_, meant)| meant.iter().any(|some| some.contains(&setting)))
}

/// Hides from each command's help what means nothing to it.
pub fn fitted(mut command: Command) -> Command {
    let settings: Vec<Arg> = command.get_arguments().filter(|flag| flag.is_global_set()).cloned().collect();
    for sub in command.get_subcommands_mut() {
        let name = sub.get_name().to_owned();
        let hidden = settings.iter().filter(|flag| !means_something(&name, flag.get_id().as_str()));
        // What a command has already is not handed down to it.
        *sub = std::mem::take(sub).args(hidden.map(|flag| flag.clone().hide(true)));
    }
    command
}

fn settings_of(command: &Command) -> Vec<String> {
    let globals = command.get_arguments().filter(|flag| flag.is_global_set());
    globals.map(|flag| flag.get_id().to_string()).collect()
}

/// Refuses a flag that was given and means nothing to the command: whoever wrote it meant something else.
///
/// # Errors
/// The first such flag.
pub fn check(command: &mut Command, matches: &ArgMatches) -> Result<(), Error> {
    let Some((name, given)) = matches.subcommand() else { return Ok(()) };
    let is_given = |setting: &String| given.value_source(setting) == Some(ValueSource::CommandLine);
    let wrong = settings_of(command).into_iter().find(|setting| is_given(setting) && !means_something(name, setting));
    let Some(setting) = wrong else { return Ok(()) };
    let flag = setting.replace('_', "-");
    let message = format!("'--{flag}' means nothing to '{name}'; '{name} --help' shows what does");
    Err(command.error(ErrorKind::UnknownArgument, message))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn help_of(name: &str) -> String {
        let mut command = fitted(Cli::command());
        command.build();
        command.find_subcommand_mut(name).expect(name).render_help().to_string()
    }

    #[test]
    fn a_command_shows_and_takes_what_means_something_to_it() {
        #[rustfmt::skip]
        let cases = [
            // command,                 flag,                         meant, why
            ("serve",                   "--addr=127.0.0.1:9",         true,  "where it listens"),
            ("serve",                   "--pool-size=3",              true,  "how much it may do at once"),
            ("audit",                   "--data-dir=/nowhere",        true,  "which database"),
            ("audit",                   "--addr=127.0.0.1:9",         false, "it does not listen"),
            ("audit",                   "--log=json",                 true,  "it says something"),
            ("create-key",              "--key-pepper-file=/p",       true,  "what the key is digested with"),
            ("create-key",              "--webhooks-allow-private",   false, "it calls nobody"),
            ("bill-run",                "--webhooks-allow-private",   true,  "it asks tax providers"),
            ("health",                  "--addr=127.0.0.1:9",         true,  "where to ask"),
            ("health",                  "--data-dir=/nowhere",        false, "it asks the service"),
            ("migrate",                 "--install-postgres",         false, "it makes no database"),
            ("demo",                    "--install-postgres",         true,  "it may make one"),
        ];
        for (command, flag, meant, why) in cases {
            let long = flag.split('=').next().expect("a flag");
            assert_eq!(
                help_of(command).contains(&format!("{long} ")) || help_of(command).contains(&format!("{long}\n")),
                meant,
                "{command} {flag}: {why}"
            );
            for arguments in [["billing-http", command, flag], ["billing-http", flag, command]] {
                let mut program = fitted(Cli::command());
                let matches = program.try_get_matches_from_mut(arguments).expect(why);
                assert_eq!(check(&mut program, &matches).is_ok(), meant, "{arguments:?}: {why}");
            }
        }
    }

    #[test]
    fn the_table_names_what_there_is() {
        let program = Cli::command();
        let settings = settings_of(&program);
        for (name, meant) in MEANT {
            assert!(program.find_subcommand(name).is_some(), "{name}");
            assert!(meant.concat().iter().all(|setting| settings.iter().any(|known| known == setting)), "{name}");
        }
    }
}
