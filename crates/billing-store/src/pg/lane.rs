//! The directory of lanes: in which schema the customers of each are, where that is, and as whom the service works there.

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use uuid::Uuid;

use super::citus;
use super::node::{self, Node};
use super::place::Place;
use super::schema::{lanes, nodes};
use super::statement::statement;

/// Most lanes.
const LANES_MAX: u16 = 64;
/// The schema of the catalogue, and of the one lane of a database that was not made with more.
pub(crate) const CATALOGUE: &str = "public";

/// A row of the directory.
pub(crate) struct LaneRow {
    pub(crate) number: i16,
    /// Where the service works with all that the lane's customers own.
    pub(crate) schema: String,
    /// As whom the service works there; `None`: as itself.
    pub(crate) role: Option<String>,
    pub(crate) place: Place,
    /// The node that it is on; `None`: it is in the catalogue's database.
    pub(crate) node: Option<Node>,
    /// The schema that an engine has placed; `None`: none has.
    pub(crate) placed: Option<String>,
}

impl LaneRow {
    /// Whether it is where the catalogue is, and worked with as that is.
    pub(crate) fn is_with_the_catalogue(&self) -> bool {
        self.schema == CATALOGUE
            && self.role.is_none()
            && self.place.is_home()
            && self.node.is_none()
            && self.placed.is_none()
    }
}

statement! {
    /// Whether there is a table.
    HasTable -> Bool { "SELECT to_regclass(" name: String as Text; ") IS NOT NULL" }
}

statement! {
    /// Whether the catalogue's schema has customers: then it is the one lane.
    HasCustomers -> Bool { "SELECT to_regclass('public.customers') IS NOT NULL" }
}

statement! {
    /// Whether what customers own stands aside, to be divided or divided already.
    IsSplitting -> Bool { "SELECT to_regnamespace('splitting') IS NOT NULL" }
}

/// Whether what customers own was moved aside to be divided, and is not dropped yet.
pub(crate) fn is_splitting(pg: &mut PgConnection) -> QueryResult<bool> {
    IsSplitting {}.get_result(pg)
}

statement! {
    /// Whether there is a schema.
    HasSchema -> Bool { "SELECT to_regnamespace(" schema: String as Text; ") IS NOT NULL" }
}

/// Whether there is a schema of this name.
pub(crate) fn has_schema(pg: &mut PgConnection, schema: &str) -> QueryResult<bool> {
    HasSchema { schema: schema.to_owned() }.get_result(pg)
}

/// The schema of a lane of several.
pub(crate) fn lane_schema(number: usize) -> String {
    format!("lane_{number:02}")
}

/// A row as it is written down.
type Written = (i16, String, Option<String>, Place, Option<Node>);

/// Every lane as it is written down, by number: of those that an engine places that is not where they are.
pub(crate) fn written(pg: &mut PgConnection) -> QueryResult<Vec<LaneRow>> {
    let place = (lanes::host, lanes::port, lanes::database_name);
    let rows: Vec<Written> = lanes::table
        .left_join(nodes::table)
        .order(lanes::number)
        .select((lanes::number, lanes::schema_name, lanes::role_name, place, nodes::all_columns.nullable()))
        .load(pg)?;
    let row = |(number, schema, role, place, node)| LaneRow { number, schema, role, place, node, placed: None };
    Ok(rows.into_iter().map(row).collect())
}

/// Every lane where it is, by number.
pub(crate) fn directory(pg: &mut PgConnection) -> QueryResult<Vec<LaneRow>> {
    let mut rows = written(pg)?;
    if citus::is_there(pg)? {
        place(pg, &mut rows)?;
    }
    Ok(rows)
}

/// Says of the lanes that an engine places where they are, and what the service works with there.
fn place(home: &mut PgConnection, rows: &mut [LaneRow]) -> QueryResult<()> {
    let places = citus::places(home)?;
    if places.is_empty() {
        return Ok(());
    }
    let known = node::all(home)?;
    for (schema, group, host, port) in places {
        let (name, is_home) = (citus::node_name(group), citus::is_coordinator(group));
        let node = known.iter().find(|node| node.name == name).cloned();
        if node.is_none() && !is_home {
            log::warn!("{schema} is on {host}:{port}, which has no copy of the catalogue: run `billing-http migrate`");
        }
        for row in rows.iter_mut().filter(|row| row.schema == schema) {
            row.schema = citus::here(&schema);
            row.node = (!is_home).then(|| node.clone().unwrap_or_else(|| Node::strange(&name, &host, port)));
            row.placed = Some(schema.clone());
        }
    }
    Ok(())
}

/// How many top bits of a key tell so many lanes apart; `None`: so many cannot be.
pub(crate) fn bits(count: usize) -> Option<u8> {
    let is_possible = count.is_power_of_two() && count <= usize::from(LANES_MAX);
    is_possible.then_some(count.trailing_zeros() as u8)
}

/// The first and the last key of a lane, of as many as so many bits tell apart.
pub(crate) fn bounds(number: usize, bits: u8) -> (Uuid, Uuid) {
    let width = 256 >> bits;
    let (mut first, mut last) = ([0; 16], [u8::MAX; 16]);
    first[0] = (number * width) as u8;
    last[0] = (number * width + width - 1) as u8;
    (Uuid::from_bytes(first), Uuid::from_bytes(last))
}

/// The schemas of the lanes there are; none: the database has no customers' tables yet.
pub(crate) fn schemas(pg: &mut PgConnection) -> QueryResult<Vec<String>> {
    let known = written(pg)?;
    if known.is_empty() && (HasCustomers {}).get_result(pg)? {
        return Ok(vec![CATALOGUE.to_owned()]);
    }
    Ok(known.into_iter().map(|lane| lane.schema).collect())
}

/// The lanes that a database has or is to have.
pub(crate) struct Planned(Vec<String>);

/// Of a database with these lanes, those that it is to have: as many as are `wanted` if there are none yet.
pub(crate) fn planned(known: Vec<String>, wanted: Option<u16>) -> Result<Planned, StoreError> {
    let wanted = wanted.map(usize::from);
    if wanted.is_some_and(|count| bits(count).is_none()) {
        return Err(StoreError::Internal("there can be 1, 2, 4, 8, 16, 32 or 64 lanes".to_owned()));
    }
    match (known.len(), wanted) {
        (0, None | Some(1)) => Ok(Planned(vec![CATALOGUE.to_owned()])),
        (0, Some(count)) => Ok(Planned((0..count).map(lane_schema).collect())),
        (has, Some(count)) if has != count => Err(StoreError::Internal(format!(
            "{count} lanes are asked for, but this database has {has}: their number is fixed when a database is made"
        ))),
        _ => Ok(Planned(known)),
    }
}

impl Planned {
    pub(crate) fn schemas(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Writes them into the directory: see [`note`].
    pub(crate) fn note(&self, pg: &mut PgConnection) -> QueryResult<()> {
        note(pg, &self.0)
    }
}

/// Writes lanes into the directory, where they are not in it yet: a lane is known once it is whole. Key ranges are parts of
/// lanes, so there are at least as many.
pub(crate) fn note(pg: &mut PgConnection, schemas: &[String]) -> QueryResult<()> {
    let rows = schemas.iter().zip(0_i16..);
    let rows: Vec<_> = rows.map(|(schema, number)| (lanes::number.eq(number), lanes::schema_name.eq(schema))).collect();
    let bits = bits(schemas.len()).unwrap_or_default();
    pg.transaction(|pg| {
        diesel::insert_into(lanes::table).values(&rows).on_conflict_do_nothing().execute(pg)?;
        pg.batch_execute(&format!("UPDATE ingest_key_ranges SET range_bits = {bits} WHERE range_bits < {bits}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_ranges_of_keys_without_a_gap() {
        for bits in 0..=6 {
            let mut next = 0;
            for number in 0..1 << bits {
                let (first, last) = bounds(number, bits);
                assert_eq!(first.as_u128(), next, "lane {number} of {}", 1 << bits);
                next = last.as_u128().wrapping_add(1);
            }
            assert_eq!(next, 0, "to the very last key");
        }
    }

    #[test]
    fn lanes_are_made_once_and_their_number_is_fixed() {
        let lanes = |count: usize| (0..count).map(|number| format!("lane_{number:02}")).collect::<Vec<_>>();
        let public = || vec!["public".to_owned()];
        #[rustfmt::skip]
        let cases = [
            // there are, wanted,   come out,       why
            (lanes(0), None,     Some(public()), "one, where the catalogue is"),
            (lanes(0), Some(1),  Some(public()), "the same, said"),
            (lanes(0), Some(4),  Some(lanes(4)), "as many as are asked for"),
            (lanes(0), Some(3),  None,           "the top bits of a key tell 2, 4, 8 .. apart"),
            (lanes(0), Some(0),  None,           "nowhere to be"),
            (lanes(0), Some(128), None,          "too many"),
            (lanes(4), None,     Some(lanes(4)), "as it was made"),
            (lanes(4), Some(4),  Some(lanes(4)), "the same again"),
            (lanes(4), Some(8),  None,           "customers would be looked for where they are not"),
            (public(), Some(2),  None,           "the same of a database with one"),
        ];
        for (known, wanted, expected, why) in cases {
            assert_eq!(planned(known, wanted).ok().map(|planned| planned.0), expected, "{why}");
        }
    }
}
