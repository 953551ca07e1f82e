//! Computes every example of `docs/pricing.md` with the engine. A table is found by its heading row; one that
//! no test here knows fails [`every_table_is_checked`].

mod addons;
mod billing;
mod corrections;
mod credit_notes;
mod invoices;
mod levels;
mod meetings;
mod money;
mod one_off_lines;
mod payments;
mod periods;
mod prepaid;
mod reissues;
mod tiers;
mod traces;
mod usage;

use std::collections::BTreeSet;

use billing_domain::BigDecimal;
use billing_domain::currency::Currency;
use billing_domain::decimal::{parse_property, plain};
use billing_domain::period::Interval;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// A row of an example table, cell by cell.
type Row = Vec<String>;

fn text() -> &'static str {
    include_str!("../../../../docs/pricing.md")
}

fn cells(line: &str) -> Row {
    let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).unwrap_or(line);
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The rows of every table under the heading row `| a | b |`, which must be there.
fn table(heading: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut lines = text().lines();
    while lines.by_ref().any(|line| line == heading) {
        rows.extend(lines.by_ref().skip(1).take_while(|line| line.starts_with('|')).map(cells));
    }
    assert!(!rows.is_empty(), "docs/pricing.md has no table {heading}");
    rows
}

fn number(text: &str) -> BigDecimal {
    parse_property(text).unwrap_or_else(|| panic!("{text:?} is not a number"))
}

fn numbers(list: &str) -> Vec<BigDecimal> {
    list.split(',').map(|text| number(text.trim())).collect()
}

fn shown(numbers: &[BigDecimal]) -> String {
    numbers.iter().map(plain).collect::<Vec<_>>().join(", ")
}

fn currency(code: &str) -> Currency {
    Currency::iso_4217(code).unwrap_or_else(|| panic!("{code} is not a currency"))
}

/// A date is its midnight UTC.
fn instant(text: &str) -> OffsetDateTime {
    let text = if text.len() == 10 { format!("{text}T00:00:00Z") } else { format!("{text}:00Z") };
    OffsetDateTime::parse(&text, &Rfc3339).unwrap_or_else(|_| panic!("{text} is not an instant"))
}

/// The date alone when it is midnight.
fn shown_at(at: OffsetDateTime) -> String {
    let long = at.format(format_description!("[year]-[month]-[day]T[hour]:[minute]")).expect("a date");
    long.strip_suffix("T00:00").map_or_else(|| long.clone(), str::to_owned)
}

/// `2 week`; none when empty.
fn interval(text: &str) -> Option<Interval> {
    let (count, unit) = text.split_once(' ')?;
    Some(Interval::new(unit.parse().expect("a unit"), count.parse().expect("a count")).expect("at least 1"))
}

/// The code blocks in a language.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let ends = |block: &str| block.split_once("```").expect("a block ends").0.to_owned();
    text().split(&fence).skip(1).map(ends).collect()
}

/// An example in Rust is one that the crate's own documentation has, where it is run.
#[test]
fn examples_in_code_are_those_of_the_crate() {
    let documented: String = [include_str!("../../src/lib.rs"), include_str!("../../src/simulate/mod.rs")]
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    let examples = blocks("rust");
    assert!(!examples.is_empty());
    for example in examples {
        assert!(documented.contains(&example), "no test runs this example:\n{example}");
    }
}

#[test]
fn every_table_is_checked() {
    let headings: BTreeSet<&str> = {
        let lines: Vec<&str> = text().lines().collect();
        lines.windows(2).filter(|pair| pair[1].starts_with("|---")).map(|pair| pair[0]).collect()
    };
    let known = [
        addons::TABLES.as_slice(),
        &billing::TABLES,
        &corrections::TABLES,
        &reissues::TABLES,
        &credit_notes::TABLES,
        &invoices::TABLES,
        &levels::TABLES,
        &meetings::TABLES,
        &money::TABLES,
        &one_off_lines::TABLES,
        &payments::TABLES,
        &periods::TABLES,
        &prepaid::TABLES,
        &tiers::TABLES,
        &traces::TABLES,
        &usage::TABLES,
    ];
    let known = known.concat();
    // Read by the vectors' own test.
    let vectors = ["| kind |", "| vector |", "| reason |"];
    for heading in &headings {
        let checked = known.contains(heading) || vectors.iter().any(|start| heading.starts_with(start));
        assert!(checked, "no test reads the table {heading}");
    }
    let absent: Vec<&&str> = known.iter().filter(|heading| !headings.contains(*heading)).collect();
    assert!(absent.is_empty(), "docs/pricing.md lacks the tables {absent:?}");
}
