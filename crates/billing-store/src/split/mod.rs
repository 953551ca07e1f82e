//! Dividing the customers of a database with one lane into several, while nobody works on it.
//!
//! ```text
//! begin    the lanes are made, empty; what customers own moves aside, in one transaction: no process finds it any more
//! copy     table by table and lane by lane, a transaction and a note for each: whoever begins again goes on there
//! verify   the digest of each table's rows is that of all lanes' together
//! switch   the directory names the lanes, in one transaction: from here on processes find them
//! finish   what was moved aside is dropped, once somebody has audited the books
//! ```
//!
//! Killed at any point, it is run again. Nothing is dropped before the end, and nobody can work on half of it.

pub(crate) mod statements;

use std::time::{Duration, Instant};

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use self::statements::{Digest, Table, digest, move_aside, tables};
use crate::pg::citus;
use crate::pg::error::Failure;
use crate::pg::lane::{bits, bounds, directory, lane_schema};
use crate::pg::lock::{LockClass, lock_for_connection};
use crate::pg::place::search_path;
use crate::pg::{lane, migration, url};

/// Where what customers own stands while it is copied.
pub(crate) const ASIDE: &str = "splitting";

/// What a split has done, and how long that took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Rows that were copied, without those of a run before that was interrupted.
    pub rows: u64,
    /// How long copying them took.
    pub took: Duration,
    /// Tables whose rows were found again in the lanes.
    pub verified: usize,
}

/// A split on its way.
struct Splitter {
    pg: PgConnection,
    lanes: usize,
}

/// Divides the customers of the database at `url`, which has one lane, into so many; or goes on where that was interrupted.
/// `progress` is told what is being done. What was there before is kept until [`finish`].
///
/// # Errors
/// [`StoreError::Internal`] with what is in the way: another number of lanes, or a digest that differs.
pub(crate) fn split(
    url: &str,
    lanes: u16,
    left: impl Fn(&mut PgConnection),
    progress: &mut dyn FnMut(&str),
) -> Result<Split, StoreError> {
    let lanes = usize::from(lanes);
    if bits(lanes).is_none() || lanes == 1 {
        return Err(StoreError::Internal("one lane can be split into 2, 4, 8, 16, 32 or 64".to_owned()));
    }
    let mut pg = url::connect(url)?;
    citus::keep_what_is_made(&mut pg).map_err(|error| Failure::from(error).into_store_error())?;
    let mut splitter = Splitter { pg, lanes };
    splitter.run(url, left, progress).map_err(Failure::into_store_error)
}

/// Drops what a split that is switched has left aside.
///
/// # Errors
/// [`StoreError::Internal`] when there is none that is switched.
pub(crate) fn finish(url: &str) -> Result<(), StoreError> {
    let mut pg = url::connect(url)?;
    let done = lock_for_connection(&mut pg, LockClass::Migration).and_then(|()| {
        let is_switched = directory(&mut pg)?.len() > 1;
        if is_switched {
            pg.batch_execute(&format!("SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {ASIDE} CASCADE"))?;
        }
        Ok(is_switched)
    });
    match done.map_err(|error| Failure::from(error).into_store_error())? {
        true => Ok(()),
        false => Err(StoreError::Internal("no split of this database is switched".to_owned())),
    }
}

impl Splitter {
    fn run(
        &mut self,
        url: &str,
        left: impl Fn(&mut PgConnection),
        progress: &mut dyn FnMut(&str),
    ) -> Result<Split, Failure> {
        lock_for_connection(&mut self.pg, LockClass::Migration)?;
        self.pg.batch_execute("SET timezone = 'UTC'; SET client_min_messages = warning; SET lock_timeout = '10s'")?;
        let known = directory(&mut self.pg)?;
        let is_aside = lane::is_splitting(&mut self.pg)?;
        if known.len() > 1 {
            return match known.len() == self.lanes {
                true => Ok(Split::default()),
                false => Err(StoreError::Internal(format!("this database has {} lanes", known.len())).into()),
            };
        }
        if is_aside {
            statements::expect_lanes(&mut self.pg, self.lanes)?;
        } else {
            self.expect_up_to_date()?;
        }
        progress("making lanes");
        for number in 0..self.lanes {
            migration::make_lane(url, &lane_schema(number), &left)?;
        }
        let tables = tables(&mut self.pg, &lane_schema(0))?;
        if !is_aside {
            progress("moving aside what customers own");
            let lanes = self.lanes;
            self.pg.transaction(|pg| move_aside(pg, &lane_schema(0), lanes))?;
        }
        let begun = Instant::now();
        let mut rows = 0;
        for number in 0..self.lanes {
            for table in &tables {
                rows += self.copy(number, table, progress)?;
            }
        }
        let took = begun.elapsed();
        let verified = self.verify(&tables, progress)?;
        progress("switching");
        self.switch(&tables, progress)?;
        Ok(Split { rows, took, verified })
    }

    /// Refuses a database that this program did not bring up to date: what is copied is what the lanes have columns for, and those are
    /// this program's.
    fn expect_up_to_date(&mut self) -> Result<(), Failure> {
        let (mut applied, mut expected) = (migration::applied_versions(&mut self.pg)?, migration::embedded_versions()?);
        applied.sort_unstable();
        expected.sort_unstable();
        match applied == expected {
            true => Ok(()),
            false => {
                let message = "the database has other migrations than this program: run `billing-http migrate` of the program that serves it first";
                Err(StoreError::Internal(message.to_owned()).into())
            }
        }
    }

    /// Copies what of a table is a lane's, unless that is done.
    fn copy(&mut self, number: usize, table: &Table, progress: &mut dyn FnMut(&str)) -> Result<u64, Failure> {
        let mut rows = 0;
        for part in table.parts(&mut self.pg, ASIDE)? {
            progress(&format!("lane {number}: {}", part.name));
            let copy = part.copy(ASIDE, number, bits(self.lanes).unwrap_or_default());
            rows += self.pg.transaction(|pg| {
                if !statements::begin_part(pg, number, &part.name)? {
                    return Ok(0);
                }
                pg.batch_execute(&format!("{}; {}", search_path(&lane_schema(number)), table.without_triggers()))?;
                part.prepare(pg)?;
                let copied = diesel::sql_query(copy).execute(pg)?;
                pg.batch_execute("SET search_path = public")?;
                Ok::<_, diesel::result::Error>(copied as u64)
            })?;
        }
        Ok(rows)
    }

    /// Holds the rows of each table against those of all lanes; how many tables those were.
    fn verify(&mut self, tables: &[Table], progress: &mut dyn FnMut(&str)) -> Result<usize, Failure> {
        for table in tables.iter().filter(|table| table.is_divided()) {
            progress(&format!("verifying {}", table.name));
            let before = digest(&mut self.pg, table, ASIDE)?;
            let mut after = Digest::default();
            for number in 0..self.lanes {
                after += digest(&mut self.pg, table, &lane_schema(number))?;
            }
            if before != after {
                let message =
                    format!("{} has {before}, and its copies in the lanes {after}: nothing was switched", table.name);
                return Err(StoreError::Internal(message).into());
            }
        }
        Ok(tables.iter().filter(|table| table.is_divided()).count())
    }

    /// From here on processes find the lanes.
    fn switch(&mut self, tables: &[Table], progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let lanes = self.lanes;
        for number in 0..lanes {
            // Lane by lane: one transaction can lock so many tables.
            self.pg.batch_execute(&search_path(&lane_schema(number)))?;
            self.pg.transaction(|pg| tables.iter().try_for_each(|table| table.complete(pg)))?;
        }
        self.pg.batch_execute("SET search_path = public")?;
        migration::forget_customers_versions(&mut self.pg)?;
        progress("noting");
        lane::note(&mut self.pg, &(0..lanes).map(lane_schema).collect::<Vec<_>>())?;
        Ok(())
    }
}

/// The keys of a lane as text, for statements whose names are made up anyway.
fn keys(number: usize, bits: u8) -> (String, String) {
    let (first, last) = bounds(number, bits);
    (first.to_string(), last.to_string())
}
