//! The floors of the larger crates: a module names only modules of floors below its own. Read from the real imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::modules::Graph;
use crate::tidy::Files;

/// The floors of one crate's top modules, the ground first.
struct Floors {
    krate: &'static str,
    floors: &'static [&'static [&'static str]],
    /// Modules that still name each other, each list in a circle. None may join.
    knots: &'static [&'static [&'static str]],
}

#[rustfmt::skip]
const CRATES: [Floors; 3] = [
    Floors {
        krate: "billing-domain",
        floors: &[
            &["choice", "decimal", "id", "nearest"],
            &["country", "error", "money", "test_clock", "tier", "timezone"],
            &["api_key", "billing_run", "books_audit", "currency", "idempotency", "message_type", "period", "text"],
            &["address", "adjustment", "credit", "one_off_line", "payment", "tax", "user", "webhook"],
            &["customer", "organization"],
            &["access", "audit", "event", "plan"],
            &["addon", "approval", "subscription", "usage_alert"],
            &["custom_sql"],
            &["metric"],
            &["invoice", "job", "usage"],
            &["catalog", "charge", "credit_note", "statement"],
            &["message"],
            &["store"],
            &["faults", "memory"],
            &["workflow"],
            &["simulate", "testing"],
        ],
        knots: &[],
    },
    Floors {
        krate: "billing-store",
        floors: &[
            &["cache", "company", "issued", "measured", "pg", "tallies", "told"],
            &["batcher"],
            &["rollup"],
            &["custom_sql", "remembered"],
            &["lanes"],
            &["shared"],
            &["reservation"],
            &["transaction"],
            &["usage"],
            &["repo"],
            &["cached"],
            &["access", "backfill", "ingest", "over_lanes", "split"],
            &["nodes"],
            &["run"],
            &["batch"],
            &["store"],
            &["testing"],
        ],
        knots: &[],
    },
    Floors {
        krate: "billing-http",
        floors: &[
            // Ground: what knows nothing of calls.
            &[
                "answer", "backend", "client_address", "compress", "connections", "feed_signals", "key_uses", "needed_scope", "operation_id", "password", "places", "request_id", "secret", "slots", "tls", "usual_time",
                "wire", "zone",
            ],
            &["alert_run", "approval_view", "event_selection", "event_tails", "noted_call", "taxes", "usage_alert_view", "webhook_view"],
            &["billing_run", "books_audit_run", "clock_turns", "error", "job_run"],
            &["delivery"],
            &["telemetry"],
            // Requests, and who sends them.
            &["caller", "path", "unread", "worker"],
            &["body", "first_link", "openid"],
            &["settings"],
            &["startup"],
            &["server_settings"],
            &["app", "query"],
            &["idempotency", "list"],
            &["auth", "unknown_field"],
            // What every call is made with.
            &["endpoint", "json"],
            // The calls: one names another's views only downwards.
            &["correction_preview", "credit_note", "job"],
            &[
                "api_key", "billing_queue", "books_audit", "credit", "currency", "deprecated_access", "docs", "event", "event_correction", "event_receipt", "feature", "invoice", "metric",
                "metric_access", "organization", "overview", "ping", "test_clock", "track", "usage_alert", "user", "verify_idems",
            ],
            &["access_token", "feature_access", "openapi", "plan", "usage"],
            &["addon", "health", "metric_preview"],
            &["subscription"],
            &["customer"],
            &["message", "subscription_preview"],
            &["approval", "audit", "feed", "webhook"],
            // All of them, and what serves them.
            &["routes"],
            &["console"],
            &["decimal_form"],
            &["middleware"],
            &["listen"],
            &["server"],
            &["import", "lanes"],
            &["demo"],
            &["cli"],
        ],
        knots: &[],
    },
];

/// Every breach of the table, in both directions: what it does not say any more is struck out.
pub fn problems(files: &Files) -> Vec<String> {
    CRATES.iter().flat_map(|floors| floors.problems(&graph_of(files, floors.krate))).collect()
}

fn graph_of(files: &Files, krate: &str) -> Graph {
    let src = Path::new("crates").join(krate).join("src");
    Graph::of(files.under(&src))
}

impl Floors {
    fn problems(&self, graph: &Graph) -> Vec<String> {
        let mut problems = self.table_problems(graph);
        problems.extend(self.floor_problems(graph));
        problems.extend(self.circle_problems(graph));
        problems
    }

    /// Modules without a floor, and floors without their module.
    fn table_problems(&self, graph: &Graph) -> Vec<String> {
        let real: BTreeSet<&str> = graph.top_modules().collect();
        let listed: BTreeSet<&str> = self.floors.iter().flat_map(|floor| floor.iter().copied()).collect();
        let missing = real.difference(&listed).map(|module| format!("{}: {module} has no floor", self.krate));
        let gone = listed.difference(&real).map(|module| format!("{}: there is no {module} any more", self.krate));
        missing.chain(gone).collect()
    }

    fn floor_problems(&self, graph: &Graph) -> Vec<String> {
        let on =
            |(floor, modules): (usize, &&'static [&'static str])| modules.iter().map(move |module| (*module, floor));
        let floor_of: BTreeMap<&str, usize> = self.floors.iter().enumerate().flat_map(on).collect();
        let mut problems = Vec::new();
        for (module, named) in graph.top_edges() {
            for other in named {
                let (Some(own), Some(below)) = (floor_of.get(module.as_str()), floor_of.get(other.as_str())) else {
                    continue;
                };
                if below >= own && !self.is_knotted(&module, &other) {
                    problems.push(format!("{}: {module} names {other}, which does not stand below it", self.krate));
                }
            }
        }
        problems
    }

    fn circle_problems(&self, graph: &Graph) -> Vec<String> {
        let circles = graph.circles().into_iter().map(|circle| circle.iter().map(|module| module.join("::")).collect());
        let circles = circles.filter(|circle: &Vec<String>| !self.is_within_a_knot(circle));
        circles.map(|circle| format!("{}: a circle of imports: {}", self.krate, circle.join(", "))).collect()
    }

    fn is_knotted(&self, module: &str, other: &str) -> bool {
        self.knots.iter().any(|knot| knot.contains(&module) && knot.contains(&other))
    }

    fn is_within_a_knot(&self, circle: &[String]) -> bool {
        let top = |module: &String| module.split("::").next().unwrap_or_default().to_owned();
        self.knots.iter().any(|knot| circle.iter().all(|module| knot.contains(&top(module).as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository;

    #[test]
    fn every_module_stands_on_its_floor() {
        let problems = problems(&Files::read(&repository()).unwrap());
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// What finds nothing proves something only if it can find.
    #[test]
    fn the_imports_show_what_is_there() {
        let files = Files::read(&repository()).unwrap();
        #[rustfmt::skip]
        let cases = [
            // crate,           from,         to,        why
            ("billing-store",  "rollup",     "pg",      "a plain import"),
            ("billing-domain", "workflow",   "store",   "in many files of a folder"),
            ("billing-domain", "invoice",    "money",   "out of a file below"),
            ("billing-http",   "routes",     "usage",   "a path without an import"),
        ];
        for (krate, from, to, why) in cases {
            let edges = graph_of(&files, krate).top_edges();
            assert!(edges.get(from).is_some_and(|named| named.contains(to)), "{krate}: {from} names {to}: {why}");
        }
    }

    #[test]
    fn breaches_are_found() {
        const TABLE: Floors = Floors { krate: "a", floors: &[&["ground"], &["house"]], knots: &[] };
        #[rustfmt::skip]
        let cases: [(&[(&str, &str)], usize, &str); 6] = [
            // sources,                                                                            problems, why
            (&[("house.rs", "use crate::ground::Stone;"), ("ground.rs", "")],                       0, "down"),
            (&[("ground.rs", "use crate::house::Roof;"), ("house.rs", "")],                         1, "up"),
            (&[("ground.rs", "use crate::{house::{Roof, Wall as W}};"), ("house.rs", "")],          1, "in a group"),
            (&[("house.rs", "fn a() { crate::ground::dig() }"), ("ground.rs", "use super::house;")], 2, "and a circle"),
            (&[("ground.rs", "// use crate::house;\nconst A: &str = \"crate::house\";"), ("house.rs", "")], 0, "not code"),
            (&[("ground.rs", ""), ("house.rs", ""), ("shed.rs", "")],                               1, "without a floor"),
        ];
        for (sources, count, why) in cases {
            let graph = Graph::of(sources.iter().map(|(path, text)| (Path::new(*path), *text)));
            let problems = TABLE.problems(&graph);
            assert_eq!(problems.len(), count, "{why}: {problems:?}");
        }
    }
}
