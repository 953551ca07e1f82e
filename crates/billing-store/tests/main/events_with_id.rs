//! Whose event an id is can be asked without reading the events of everybody.

use billing_domain::store::{EventIngest, PageRequest, Scope, Store, Window};
use billing_domain::testing::build;
use billing_store::testing::{TestStore, listen_to_statements, statements_heard};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::sql::{connect, execute};
use crate::usage::World;

const NOW: OffsetDateTime = datetime!(2024-03-10 12:30 UTC);

#[derive(QueryableByName)]
struct PlanLine {
    #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
    line: String,
}

/// How Postgres answers the statement: of the events of 3,000 customers over three months it reads the index that ids are unique by.
#[test]
fn an_id_is_looked_up_by_the_index_of_each_month() {
    listen_to_statements();
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let month = |n: i64| NOW - Duration::days(30 * (n % 3));
    let sent = |n: i64| build::event(&format!("c{n}"), "call", if n % 2 == 0 { "same" } else { "other" }, month(n));
    let events: Vec<_> = (0..3_000).map(sent).collect();
    store.ingest(world.organization, &events, Window::Open).expect("taken in");
    execute(store.url(), "ANALYZE events").expect("gathered");
    let scope = Scope::Organization(world.organization);
    let list = |after: Option<String>| {
        let (page, mut found) = (PageRequest { limit: 10, after }, None);
        let look = store.run(&scope, &mut |tx, _| {
            found = Some(tx.events().list_with_id("same", &page)?);
            Ok(())
        });
        look.expect("read");
        found.expect("a page")
    };
    let first = list(None);
    assert_eq!((first.items.len(), first.next.is_some()), (10, true));
    assert_eq!(list(first.next).items.len(), 10);

    let heard = statements_heard(store.url()).into_iter().filter(|text| text.contains("\"events\".\"id_hash\" = $1"));
    let statements: Vec<String> = heard.collect();
    assert_eq!(statements.len(), 2, "from the beginning and from a cursor on: {statements:?}");
    let mut pg = connect(store.url());
    let hash = "encode(substring(sha256('same'), 1, 16), 'hex')::uuid";
    let owner = format!("'{}'", world.organization.uuid());
    let from = "'10000000-0000-0000-0000-000000000000'";
    for (number, statement) in statements.iter().enumerate() {
        let has_cursor = statement.contains("$6");
        let cursor = if has_cursor { format!("{from}, {from}, '2024-03-01', ") } else { String::new() };
        let prepare = format!("PREPARE wanted_{number} AS {statement}");
        pg.batch_execute(&prepare).expect("a statement");
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE wanted_{number}({hash}, 'same', {owner}, 3, {cursor}11)");
        let plan: Vec<PlanLine> = diesel::sql_query(explain).load(&mut pg).expect("a plan");
        let plan = plan.into_iter().map(|line| line.line).collect::<Vec<_>>().join("\n");
        for month in ["2024_01", "2024_02", "2024_03"] {
            let index = format!("Index Scan using events_{month}_id_hash_key on events_{month} ");
            assert!(plan.contains(&index), "{month} is read by its index: {plan}");
        }
        assert!(plan.contains("Merge Append"), "in its order, until there are enough: {plan}");
    }
}
