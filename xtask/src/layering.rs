//! The architecture is the dependency graph, and this is where it is proven.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// Crate, and all that it may name; tests may name more. Adding a word here is an architectural decision.
#[rustfmt::skip]
const ALLOWED: [(&str, &[&str]); 8] = [
    ("billing-audit", &["diesel", "pq-sys", "uuid"]),
    ("billing-console", &["billing-domain", "maud", "plotters", "serde_json", "time"]),
    ("billing-domain", &["bigdecimal", "serde", "serde_json", "sqlparser", "thiserror", "time", "uuid"]),
    ("billing-http", &[
        "actix-http", "actix-service", "actix-tls", "actix-web", "anyhow", "argon2", "aws-lc-rs", "bigdecimal", "billing-audit", "billing-console", "billing-domain", "billing-outbound",
        "billing-store", "chrono", "clap", "clap_complete", "env_logger", "flate2", "getrandom", "hmac", "httparse", "indicatif", "jiff", "log", "mimalloc", "openidconnect", "postgres-local", "rustix", "rustls", "serde",
        "serde_json", "sha2", "shlex", "subtle", "thiserror", "time", "tokio", "ureq", "utoipa", "uuid",
    ]),
    ("billing-outbound", &[
        "aws-lc-rs", "base64", "getrandom", "hmac", "httpdate", "rustls", "sha2", "subtle", "thiserror", "ureq",
    ]),
    ("billing-store", &[
        "bigdecimal", "billing-domain", "diesel", "diesel_migrations", "log", "postgres-local", "pq-sys", "quick_cache", "r2d2",
        "scheduled-thread-pool", "serde", "serde_json", "sha2", "thiserror", "time", "uuid",
    ]),
    ("postgres-local", &["log", "nix", "thiserror"]),
    ("xtask", &["anyhow", "billing-outbound", "cargo_metadata", "postgres-local", "rustix", "serde_json", "time", "ureq"]),
];

/// Crate, and what it must not reach, not even through others.
const UNREACHABLE: [(&str, &str); 12] = [
    ("billing-audit", "billing-domain"),
    ("billing-audit", "billing-store"),
    ("billing-console", "actix-web"),
    ("billing-console", "billing-store"),
    ("billing-console", "diesel"),
    ("billing-domain", "actix-web"),
    ("billing-domain", "diesel"),
    ("billing-domain", "tokio"),
    ("billing-outbound", "billing-domain"),
    ("billing-store", "actix-web"),
    ("billing-store", "billing-http"),
    ("postgres-local", "billing-domain"),
];

/// Every breach of the two tables.
pub fn problems(repository: &Path) -> anyhow::Result<Vec<String>> {
    let metadata = metadata(repository)?;
    let mut problems = direct_problems(&metadata);
    for (from, to) in UNREACHABLE {
        if reaches(&metadata, from, to)? {
            problems.push(format!("{from} must not depend on {to}: see `cargo tree -p {from} -e normal -i {to}`"));
        }
    }
    Ok(problems)
}

/// The graph of this machine's platform, which a build has already downloaded.
fn metadata(repository: &Path) -> anyhow::Result<Metadata> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let output = String::from_utf8(output.stdout)?;
    let host = output.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not tell its host")?;
    let options = ["--filter-platform".to_owned(), host.to_owned()];
    Ok(MetadataCommand::new().current_dir(repository).other_options(options).exec()?)
}

fn direct_problems(metadata: &Metadata) -> Vec<String> {
    let mut problems = Vec::new();
    for package in metadata.workspace_packages() {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name.as_str()) else {
            problems.push(format!("{}: a crate without a line in xtask/src/layering.rs", package.name));
            continue;
        };
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        let shipped = package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
        let named: BTreeSet<&str> = shipped.map(|dependency| dependency.name.as_str()).collect();
        problems.extend(named.difference(&allowed).map(|other| format!("{}: may not name {other}", package.name)));
        let unused = allowed.difference(&named);
        problems.extend(unused.map(|other| format!("{}: no longer names {other}; strike it out", package.name)));
    }
    problems
}

/// Whether a build of `from` has `to` in it, tests aside.
fn reaches(metadata: &Metadata, from: &str, to: &str) -> anyhow::Result<bool> {
    let resolve = metadata.resolve.as_ref().context("cargo gave no dependency graph")?;
    let start = metadata.workspace_packages().into_iter().find(|package| package.name == from);
    let mut open: Vec<&PackageId> = vec![&start.with_context(|| format!("no crate {from}"))?.id];
    let mut seen: BTreeSet<&PackageId> = open.iter().copied().collect();
    while let Some(id) = open.pop() {
        if metadata[id].name == to {
            return Ok(true);
        }
        let node = resolve.nodes.iter().find(|node| node.id == *id).context("a package outside the graph")?;
        let shipped = |dependency: &&cargo_metadata::NodeDep| {
            dependency.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development)
        };
        open.extend(node.deps.iter().filter(shipped).map(|dependency| &dependency.pkg).filter(|id| seen.insert(id)));
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository;

    #[test]
    fn every_crate_knows_only_what_it_may() {
        let problems = problems(&repository()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// What finds nothing proves something only if it can find.
    #[test]
    fn the_graph_shows_what_is_there() {
        let metadata = metadata(&repository()).unwrap();
        #[rustfmt::skip]
        let cases = [
            // from,           to,           why
            ("billing-store",  "diesel",     "directly"),
            ("billing-http",   "actix-web",  "directly"),
            ("billing-http",   "diesel",     "through the store"),
            ("billing-http",   "tokio",      "through actix-web too"),
            ("billing-domain", "num-bigint", "through bigdecimal"),
        ];
        for (from, to, why) in cases {
            assert!(reaches(&metadata, from, to).unwrap(), "{from} has {to} {why}");
        }
        assert!(!reaches(&metadata, "billing-domain", "proptest").unwrap(), "tests do not count");
    }
}
