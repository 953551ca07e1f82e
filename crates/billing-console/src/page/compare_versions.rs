//! Two versions of a plan side by side: what differs is marked, and what usage costs is drawn over each other.

use maud::{Markup, html};
use serde_json::Value;

use super::plan::{dates, plan_path, range, read};
use super::plan_version::{called, find};
use super::price_curve::{self, PriceCurve};
use crate::api::Failure;
use crate::layout::failed_part;
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

/// `GET /console/plans/{plan_id}/compare/?from=&to=`: without versions the newest and the one before it.
///
/// # Errors
/// When there is no such plan or version.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let plan = read(visit).await?;
    let versions = show::items(&plan["versions"]);
    let named = |name: &str| visit.query.get(name).map(|id| find(versions, id)).transpose();
    let (from, to) = (named("from")?, named("to")?);
    let newest = to.or_else(|| versions.last());
    let before = from.or_else(|| versions.iter().rev().nth(1)).or(newest);
    let name = show::plain(&plan["plan_name"]);
    let title = format!("{name}: {}", text::COMPARE_VERSIONS);
    let content = html! {
        nav.path { a.long href=(plan_path(&plan)) { (name) } }
        h1.long { (title) }
        @match (before, newest) {
            (Some(from), Some(to)) => {
                (choice(&visit.path, versions, from, to))
                (compared(&Pair { from, to }))
            }
            _ => { p.empty { (text::NO_VERSIONS) } }
        }
    };
    Ok(Outcome::Page(title, content))
}

fn choice(path: &str, versions: &[Value], from: &Value, to: &Value) -> Markup {
    html! {
        form.narrow method="get" action=(path) {
            @for (name, label, chosen) in [("from", text::COMPARED_FROM, from), ("to", text::COMPARED_TO, to)] {
                div {
                    label for=(name) { (label) }
                    select id=(name) name=(name) {
                        @for version in versions {
                            option value=(show::plain(&version["version_id"])) selected[version["version_id"] == chosen["version_id"]] {
                                (show::plain(&version["version"])) " \u{b7} " (show::code(&version["currency"])) " \u{b7} "
                                (show::plain(&version["status"]).replace('_', " "))
                            }
                        }
                    }
                }
            }
            button.quiet type="submit" { (text::COMPARE) }
        }
    }
}

/// The versions that are compared.
struct Pair<'v> {
    from: &'v Value,
    to: &'v Value,
}

/// One line of a comparison: what it is about, and how each side has it.
struct Row {
    about: Markup,
    sides: [Markup; 2],
}

impl Row {
    fn new(about: impl Into<String>, from: Markup, to: Markup) -> Self {
        let about: String = about.into();
        Self { about: html! { (about) }, sides: [from, to] }
    }

    fn differs(&self) -> bool {
        self.sides[0].0 != self.sides[1].0
    }
}

impl Pair<'_> {
    fn row(&self, about: impl Into<String>, side: impl Fn(&Value) -> Markup) -> Row {
        Row::new(about, side(self.from), side(self.to))
    }

    /// The names under which either side has something, in their order.
    fn names(&self, of: impl Fn(&Value) -> Vec<String>) -> Vec<String> {
        let mut names = of(self.from);
        names.extend(of(self.to).into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        names
    }
}

fn compared(pair: &Pair<'_>) -> Markup {
    let terms = terms(pair);
    let fees = pair.names(|version| fees_of(version).map(|fee| show::plain(&fee["name"])).collect());
    let fees: Vec<Row> = fees
        .into_iter()
        .map(|name| {
            pair.row(name.clone(), |version| fee_text(fees_of(version).find(|fee| fee["name"] == *name), version))
        })
        .collect();
    let metrics = pair.names(|version| components_of(version).map(metric_of).collect());
    let components: Vec<(String, Vec<Row>)> = metrics.into_iter().map(|id| (id.clone(), prices(pair, &id))).collect();
    let rows = || terms.iter().chain(&fees).chain(components.iter().flat_map(|(_, rows)| rows));
    let differing = rows().filter(|row| row.differs()).count();
    html! {
        p { @if differing == 0 { (text::NOTHING_DIFFERS) } @else { b { (differing) } " " (text::LINES_DIFFER) } }
        (table(pair, &terms))
        @if !fees.is_empty() { h2 { (text::RECURRING_CHARGES) } (table(pair, &fees)) }
        @for (id, rows) in &components { (component(pair, id, rows)) }
    }
}

fn terms(pair: &Pair<'_>) -> Vec<Row> {
    let features = |version: &Value| {
        let names = show::items(&version["features"]).iter().map(|feature| show::plain(&feature["feature_name"]));
        show::or_none(&names.collect::<Vec<_>>().join(", ").into())
    };
    let adjustment = |version: &Value| {
        let adjustment = &version["price_adjustment"];
        let words = ["price_adjustment_name", "price_adjustment_type", "price_adjustment_amount"];
        show::or_none(&words.map(|field| show::plain(&adjustment[field])).join(" ").trim().into())
    };
    vec![
        pair.row(text::STATUS, |version| show::badge(version["status"].as_str().unwrap_or_default())),
        pair.row(text::SUBSCRIBABLE, dates),
        pair.row(text::CURRENCY, |version| html! { (show::code(&version["currency"])) }),
        pair.row(text::FEATURES, features),
        pair.row(text::PLAN_ADJUSTMENT, adjustment),
    ]
}

fn fees_of(version: &Value) -> impl Iterator<Item = &Value> {
    show::items(&version["recurring_charges"]).iter()
}

fn components_of(version: &Value) -> impl Iterator<Item = &Value> {
    show::items(&version["components"]).iter()
}

fn metric_of(component: &Value) -> String {
    show::plain(&component["billable_metric"]["metric_id"])
}

fn none() -> Markup {
    show::or_none(&Value::Null)
}

fn fee_text(fee: Option<&Value>, version: &Value) -> Markup {
    fee.map_or_else(none, |fee| {
        html! {
            (show::amount(&fee["amount"], &version["currency"])) " "
            (interval(fee, "reset")) ", " (show::plain(&fee["charge_timing"]).replace('_', " ")) ", "
            (show::plain(&fee["charge_behavior"]).replace('_', " ")) ", " (text::INVOICED) " " (interval(fee, "invoicing"))
        }
    })
}

/// How often something begins anew, or is invoiced.
fn interval(charged: &Value, kind: &str) -> String {
    let part = |name: &str| show::plain(&charged[format!("{kind}_interval_{name}")]);
    match (part("unit"), part("count")) {
        (unit, _) if unit.is_empty() => text::EACH_PERIOD.to_owned(),
        (unit, count) => format!("{} {count} {unit}", text::EVERY),
    }
}

/// What a component costs on either side: its terms, and tier by tier.
fn prices(pair: &Pair<'_>, id: &str) -> Vec<Row> {
    let of = |version: &Value, shown: &dyn Fn(&Value) -> Markup| {
        components_of(version).find(|one| metric_of(one) == id).map_or_else(none, shown)
    };
    let counts = [pair.from, pair.to].map(|version| {
        components_of(version).find(|one| metric_of(one) == id).map_or(0, |one| show::items(&one["tiers"]).len())
    });
    let mut rows = vec![
        pair.row(text::BEGINS_ANEW, |version| of(version, &|one| html! { (interval(one, "reset")) })),
        pair.row(text::INVOICED_HOW_OFTEN, |version| of(version, &|one| html! { (interval(one, "invoicing")) })),
        pair.row(text::PRICED, |version| {
            of(version, &|one| html! { @if one["bulk_pricing_enabled"] == true { (text::IN_BULK) } @else { (text::TIER_BY_TIER) } })
        }),
        pair.row(text::SEGMENT, |version| of(version, &prepaid)),
    ];
    rows.extend((0..counts.into_iter().max().unwrap_or_default()).map(|place| {
        let tier = |version: &Value| {
            of(version, &|one| one["tiers"].get(place).map_or_else(none, |tier| tier_text(tier, &version["currency"])))
        };
        pair.row(format!("{} {}", text::TIER, place + 1), tier)
    }));
    rows
}

fn prepaid(component: &Value) -> Markup {
    match &component["prepaid_charge"] {
        Value::Null => none(),
        charge => html! {
            @if charge["units"].is_null() { (text::AS_SUBSCRIBED) } @else { (show::number(&charge["units"])) " " (text::SOME_UNITS) }
            ", " (show::plain(&charge["charge_behavior"]).replace('_', " "))
        },
    }
}

fn tier_text(tier: &Value, currency: &Value) -> Markup {
    html! {
        (range(tier)) ": "
        @match tier["type"].as_str() {
            Some("free") => { (text::FREE) }
            Some("flat") => { (show::amount(&tier["cost_per_batch"], currency)) " " (text::FLAT) }
            _ => {
                (show::amount(&tier["cost_per_batch"], currency)) " " (text::PER) " " (show::number(&tier["metric_units_per_batch"]))
                @if tier["batch_rounding_type"] != "no_rounding" { ", " (show::plain(&tier["batch_rounding_type"]).replace('_', " ")) }
            }
        }
    }
}

fn table(pair: &Pair<'_>, rows: &[Row]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::TERM) } th { (called(pair.from)) } th { (called(pair.to)) } } }
            tbody { @for row in rows { tr {
                td.long { (row.about) @if row.differs() { " " span.badge.open { (text::DIFFERS) } } }
                @for side in &row.sides { td.long { (side) } }
            } } }
        } }
    }
}

fn component(pair: &Pair<'_>, id: &str, rows: &[Row]) -> Markup {
    let sides = [pair.from, pair.to]
        .map(|version| (version, components_of(version).find(|one| metric_of(one) == id)))
        .map(|(version, one)| one.map(|one| (version, one)));
    let metric = sides.iter().flatten().next().map(|(_, one)| show::plain(&one["billable_metric"]["metric_name"]));
    let metric = metric.unwrap_or_default();
    let curves = sides
        .iter()
        .flatten()
        .map(|(version, one)| Ok::<_, Failure>((&version["currency"], PriceCurve::of(called(version), one)?)));
    let curves: Result<Vec<(&Value, PriceCurve)>, Failure> = curves.collect();
    let title = format!("{}: {metric}", text::PRICE_CURVES);
    html! {
        section {
            h2.long { (metric) }
            (table(pair, rows))
            @match &curves {
                Err(failure) => { (failed_part(failure)) }
                Ok(curves) if curves.iter().all(|(currency, _)| show::code(currency) == show::code(curves[0].0)) => {
                    @let both: Vec<&PriceCurve> = curves.iter().map(|(_, curve)| curve).collect();
                    (price_curve::picture(&both, curves[0].0, &title))
                    (price_curve::table(&both, curves[0].0))
                }
                // Amounts in two currencies have no common scale.
                Ok(curves) => { @for (currency, curve) in curves {
                    h3 { (curve.name) }
                    (price_curve::picture(&[curve], currency, &format!("{title}, {}", curve.name)))
                    (price_curve::table(&[curve], currency))
                } }
            }
        }
    }
}
