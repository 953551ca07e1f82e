//! How much one statement says. What it says is in `docs/pricing.md`, and a law.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::error::{Error, FieldCode};
use crate::testing::build::{Ids, credit};
use crate::testing::world::World;
use crate::workflow::{ReadStatement, STATEMENT_ENTRIES_MAX, read_statement};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);

#[test]
fn a_statement_has_so_many_entries_and_no_more() {
    let world = World::at(START);
    world.customer("acme");
    let key = world.key("acme");
    let mut ids = Ids::new(1_000_000);
    let mut grant = |count: usize, at| {
        let ledgers: Vec<_> = (0..count).map(|_| credit(&mut ids, "1", at)).collect();
        world
            .on("acme", |tx, _| ledgers.iter().try_for_each(|ledger| tx.credits().insert(key, ledger)))
            .expect("granted");
    };
    let read = |from| {
        let command = ReadStatement { customer: key, from, to: None };
        world.on("acme", |tx, _| read_statement(tx, &command)).map(|statement| statement.entries.len())
    };
    grant(STATEMENT_ENTRIES_MAX, START);
    assert_eq!(read(None), Ok(STATEMENT_ENTRIES_MAX));
    grant(1, START + Duration::microseconds(1));
    let Err(Error::Fields(faults)) = read(None) else { panic!("one more") };
    assert_eq!((&*faults.0[0].attr, faults.0[0].code), ("from", FieldCode::MinValue));
    assert_eq!(read(Some(START + Duration::microseconds(1))), Ok(1), "a shorter time");
}
