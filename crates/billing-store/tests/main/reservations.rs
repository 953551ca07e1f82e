//! What a lane in another database has reserved at home, when its transaction stops anywhere in between.

use std::time::{Duration, Instant};

use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::idempotency::{Answer, IdempotencyStore};
use billing_domain::store::{Scope, Store};
use billing_domain::testing::build::{self, Ids};
use billing_store::PgStore;
use billing_store::testing::{commit_reserved, empty_database, reserve, resolve_reservations};
use diesel::connection::SimpleConnection;
use postgres_local::testing::TestDatabase;
use uuid::Uuid;

use crate::sql::{connect, execute, query};

/// A database of two lanes, the second of which is in another database.
struct Apart {
    // In the order of dropping: connections before their databases.
    store: PgStore,
    home: TestDatabase,
    node: TestDatabase,
    organization: OrganizationId,
    customer: CustomerKey,
}

fn apart() -> Apart {
    let (home, node) = (empty_database(), empty_database());
    for database in [&home, &node] {
        PgStore::migrate_into_lanes(database.url(), 2).expect("two lanes");
    }
    let place = "SELECT concat_ws(', ', quote_literal(btrim(current_setting('unix_socket_directories'), '\"')), current_setting('port'),
            quote_literal(current_database()), (SELECT system_identifier FROM pg_control_system()),
            (SELECT oid FROM pg_database WHERE datname = current_database())) AS value";
    let place = query(node.url(), place).remove(0);
    let moved =
        format!("INSERT INTO nodes VALUES ('other', {place}); UPDATE lanes SET node_name = 'other' WHERE number = 1");
    execute(home.url(), &moved).expect("moved");
    let store = PgStore::connect(home.url(), 4).expect("connected");
    let organization: OrganizationId = Ids::new(1).next();
    let made = (&store as &dyn Store).run_for(&Scope::Catalog(organization), |tx, now| {
        tx.organizations().insert(&build::organization(organization, now))
    });
    made.expect("an organization");
    let customer = CustomerKey::from(Uuid::from_u128(u128::MAX >> 1 << 1 | 1 << 127));
    Apart { store, home, node, organization, customer }
}

impl Apart {
    /// What is taken at home: addresses, numbers to be used next, keys with their answers, and reservations.
    fn at_home(&self) -> [String; 4] {
        [
            "SELECT coalesce(string_agg(email, ' ' ORDER BY email), '') AS value FROM customer_emails",
            "SELECT coalesce(string_agg(sequence::text, ' ' ORDER BY sequence), '') AS value FROM returned_numbers",
            "SELECT coalesce(string_agg(key || '=' || coalesce(answer, '?'), ' ' ORDER BY key), '') AS value FROM idempotency_keys",
            "SELECT count(*)::text AS value FROM lane_reservations",
        ]
        .map(|sql| query(self.home.url(), sql).remove(0))
    }

    fn reserve(&self, name: &str) -> (Uuid, i64) {
        reserve(&self.store, self.organization, self.customer, (name, name)).expect("reserved")
    }

    fn commit(&self, token: Uuid) -> Result<(), billing_domain::Error> {
        let answer = Answer { status: 201, text: "made".to_owned() };
        commit_reserved(&self.store, self.customer, token, &answer)
    }
}

#[test]
fn what_was_committed_is_settled_by_whoever_looks() {
    let apart = apart();
    let (token, number) = apart.reserve("a");
    assert_eq!((number, apart.at_home()), (1, ["a", "", "a=?", "3"].map(str::to_owned)), "taken before the commit");
    apart.commit(token).expect("committed");
    // Here its process died.
    assert_eq!(resolve_reservations(&apart.store, 60), Ok(0), "it is too young to be looked at");
    assert_eq!(resolve_reservations(&apart.store, 0), Ok(1));
    assert_eq!(apart.at_home(), ["a", "", "a=made", "0"].map(str::to_owned));
    assert_eq!(resolve_reservations(&apart.store, 0), Ok(0), "once");
    let kept = apart.store.find_answer(apart.organization, "a").expect("an answer").expect("kept");
    assert_eq!(kept.answer.text, "made");
}

#[test]
fn what_was_not_committed_is_given_back_and_never_committed() {
    let apart = apart();
    let (first, number) = apart.reserve("a");
    let (second, next) = apart.reserve("b");
    assert_eq!((number, next), (1, 2), "nobody waits for a number that is in doubt");
    apart.commit(second).expect("committed");
    assert_eq!(resolve_reservations(&apart.store, 0), Ok(2));
    assert_eq!(apart.at_home(), ["b", "1", "b=made", "0"].map(str::to_owned), "address and key are free");
    let late = apart.commit(first).expect_err("it was given up").to_string();
    assert!(late.contains("given up"), "{late}");
    let (third, again) = apart.reserve("a");
    assert_eq!(again, 1, "numbers have no gap: what came back is used next");
    assert_eq!(apart.reserve("c").1, 3, "and then the one behind the last");
    apart.commit(third).expect("committed");
    assert_eq!(resolve_reservations(&apart.store, 0), Ok(2));
    assert_eq!(apart.at_home(), ["a b", "3", "a=made b=made", "0"].map(str::to_owned));
}

#[test]
fn a_transaction_on_its_way_is_waited_for() {
    for (end, left, why) in [
        ("COMMIT", ["a", "", "a=?", "0"], "it was committed, without an answer"),
        ("ROLLBACK", ["", "1", "", "0"], "it was taken back"),
    ] {
        let apart = apart();
        let (token, _) = apart.reserve("a");
        let mut open = connect(apart.node.url());
        let insert = format!("BEGIN; INSERT INTO lane_01.lane_tokens (token, is_given_up) VALUES ('{token}', false)");
        open.batch_execute(&insert).expect("on its way");
        let begun = Instant::now();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                open.batch_execute(end).expect(end);
            });
            assert_eq!(resolve_reservations(&apart.store, 0), Ok(1), "{why}");
        });
        assert!(begun.elapsed() >= Duration::from_millis(300), "{why}: nobody decides before it has ended");
        assert_eq!(apart.at_home(), left.map(str::to_owned), "{why}");
    }
}

#[test]
fn what_a_silent_lane_has_reserved_stays_reserved() {
    let apart = apart();
    apart.reserve("a");
    execute(apart.home.url(), "UPDATE nodes SET port = 1").expect("unreachable");
    let store = PgStore::connect(apart.home.url(), 4).expect("connected");
    assert_eq!(resolve_reservations(&store, 0), Ok(0));
    assert_eq!(apart.at_home(), ["a", "", "a=?", "3"].map(str::to_owned));
    let next = reserve(&store, apart.organization, apart.customer, ("b", "b")).expect("others go on");
    assert_eq!(next.1, 2);
}

#[test]
fn a_copy_that_is_behind_is_waited_for_and_never_used() {
    let apart = apart();
    let read = || {
        (&apart.store as &dyn Store).run_for(&Scope::Customer(apart.organization, apart.customer), |tx, _| {
            tx.customers().find_by_email("a").map(drop)
        })
    };
    read().expect("as far as home");
    execute(apart.home.url(), "UPDATE catalogue_position SET position = 7").expect("changed");
    let behind = read().expect_err("two seconds behind").to_string();
    assert!(behind.contains("7 changes behind"), "{behind}");
    let begun = Instant::now();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            execute(apart.node.url(), "UPDATE catalogue_position SET position = 7").expect("sent");
        });
        read().expect("it has come");
    });
    assert!(begun.elapsed() >= Duration::from_millis(300), "it waited");
}
