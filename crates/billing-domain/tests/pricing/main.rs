//! Computes every example of `docs/pricing.md` with the engine. A table is found by its heading row; one that
//! no test here knows fails [`every_table_is_checked`].

mod money;
mod periods;
mod tiers;

use std::collections::BTreeSet;

use billing_domain::BigDecimal;
use billing_domain::currency::Currency;
use billing_domain::decimal::{parse_property, plain};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

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

#[test]
fn every_table_is_checked() {
    let headings: BTreeSet<&str> = {
        let lines: Vec<&str> = text().lines().collect();
        lines.windows(2).filter(|pair| pair[1].starts_with("|---")).map(|pair| pair[0]).collect()
    };
    let known = [money::TABLES.as_slice(), &periods::TABLES, &tiers::TABLES].concat();
    // Read by the vectors' own test.
    let vectors = ["| kind |", "| vector |", "| reason |"];
    for heading in &headings {
        let checked = known.contains(heading) || vectors.iter().any(|start| heading.starts_with(start));
        assert!(checked, "no test reads the table {heading}");
    }
    let absent: Vec<&&str> = known.iter().filter(|heading| !headings.contains(*heading)).collect();
    assert!(absent.is_empty(), "docs/pricing.md lacks the tables {absent:?}");
}
