//! Every dependency may be used under a licence that asks for no more than attribution.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use cargo_metadata::MetadataCommand;

/// The settings of `cargo deny`, which knows more; this check needs nothing installed, and reads the same list.
const SETTINGS: &str = ".deny.toml";

/// # Errors
/// Names every package, of any platform, whose licence is not on the list.
pub fn check(repository: &Path) -> anyhow::Result<()> {
    let settings = fs::read_to_string(repository.join(SETTINGS)).context(SETTINGS)?;
    let allowed = allowed(&settings).with_context(|| format!("{SETTINGS} has no list `allow`"))?;
    let metadata = MetadataCommand::new().current_dir(repository).exec()?;
    let refused: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| !package.license.as_ref().is_some_and(|licence| is_allowed(licence, &allowed)))
        .map(|package| {
            let licence = package.license.as_deref().unwrap_or("no licence expression");
            format!("{} {}: {licence}", package.name, package.version)
        })
        .collect();
    if !refused.is_empty() {
        bail!("licences that are not in {SETTINGS}:\n{}", refused.join("\n"));
    }
    println!("  {} packages", metadata.packages.len());
    Ok(())
}

/// The quoted words between `allow = [` and `]`.
fn allowed(settings: &str) -> Option<Vec<&str>> {
    let (list, _) = settings.split_once("\nallow = [")?.1.split_once(']')?;
    Some(list.split('"').skip(1).step_by(2).collect())
}

/// Whether an SPDX expression leaves at least one choice of allowed licences. Old manifests write `/` for `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().collect::<Vec<_>>();
    words.reverse();
    let verdict = any_of(&mut words, allowed);
    verdict && words.is_empty()
}

/// `a AND b OR c`: `AND` binds tighter. The next word is the last of `words`.
fn any_of(words: &mut Vec<&str>, allowed: &[&str]) -> bool {
    let mut verdict = all_of(words, allowed);
    while words.pop_if(|word| *word == "OR").is_some() {
        verdict |= all_of(words, allowed);
    }
    verdict
}

fn all_of(words: &mut Vec<&str>, allowed: &[&str]) -> bool {
    let mut verdict = one(words, allowed);
    while words.pop_if(|word| *word == "AND").is_some() {
        verdict &= one(words, allowed);
    }
    verdict
}

/// A licence, perhaps with an exception (which only gives more freedom), or an expression in parentheses.
fn one(words: &mut Vec<&str>, allowed: &[&str]) -> bool {
    match words.pop() {
        Some("(") => any_of(words, allowed) & (words.pop() == Some(")")),
        Some(licence) => {
            if words.pop_if(|word| *word == "WITH").is_some() {
                words.pop();
            }
            allowed.contains(&licence)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_expressions() {
        #[rustfmt::skip]
        let cases = [
            // expression,                             allowed, why
            ("MIT",                                    true,    "on the list"),
            ("GPL-3.0-only",                           false,   "not on the list"),
            ("MIT OR GPL-3.0-only",                    true,    "we may choose"),
            ("GPL-3.0-only OR MIT",                    true,    "in any order"),
            ("MIT AND GPL-3.0-only",                   false,   "we may not choose"),
            ("MIT/Apache-2.0",                         true,    "the old spelling"),
            ("(MIT OR GPL-3.0-only) AND Apache-2.0",   true,    "parentheses"),
            ("MIT AND (GPL-3.0-only OR LGPL-3.0-only)", false,  "no choice is good"),
            ("MIT OR GPL-3.0-only AND GPL-2.0-only",   true,    "AND binds tighter"),
            ("Apache-2.0 WITH LLVM-exception",         true,    "an exception gives more freedom"),
            ("GPL-2.0-only WITH Classpath-exception-2.0", false, "but not enough"),
            ("MIT )",                                  false,   "unreadable"),
            ("(MIT",                                   false,   "unreadable"),
            ("",                                       false,   "nothing is allowed by nothing"),
        ];
        for (expression, verdict, why) in cases {
            assert_eq!(is_allowed(expression, &["MIT", "Apache-2.0"]), verdict, "{expression}: {why}");
        }
    }

    #[test]
    fn the_list_has_no_copyleft() {
        let settings = include_str!("../../.deny.toml");
        let allowed = allowed(settings).unwrap();
        assert!(allowed.contains(&"MIT") && !allowed.iter().any(|licence| licence.contains("GPL")), "{allowed:?}");
    }
}
