//! Lanes on a server of their own: everything that holds in one database holds over two.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use billing_domain::customer::Customer;
use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Attempt, Claim, IdempotencyStore};
use billing_domain::store::{EventIngest, InvoiceFilter, PageRequest, Scope, Store, Transaction};
use billing_domain::testing::build::{self, Ids};
use billing_domain::testing::contract::{Harness, all};
use billing_domain::{Error, Refusal, StoreError};
use billing_store::testing::{empty_database, put_on_node, resolve_reservations};
use billing_store::{Moved, PgStore};
use diesel::connection::SimpleConnection;
use postgres_local::Cluster;
use time::OffsetDateTime;

use crate::sql::{connect, execute, query};

/// The two servers of this process: home, and a node. Their companions stop them when it ends.
static SERVERS: LazyLock<Mutex<[Cluster; 2]>> = LazyLock::new(|| {
    Mutex::new([0, 1].map(|_| Cluster::temporary_sending().unwrap_or_else(|error| panic!("{error}"))))
});

/// A database of four lanes, two of which are on a node.
pub(crate) struct Spread {
    pub(crate) store: PgStore,
    pub(crate) home: String,
    pub(crate) node: String,
}

/// The URLs of a new database on each of the servers, and where the second one is.
pub(crate) fn databases() -> (String, String, (String, u16, String)) {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let name = format!("nodes_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    for server in servers.iter() {
        server.create_database_if_absent(&name).expect("a database");
    }
    let [home, node] = [&servers[0], &servers[1]].map(|server| server.url(&name));
    let host = "SELECT btrim(current_setting('unix_socket_directories'), '\"') AS value";
    let place = (query(&node, host).remove(0), 5432, name);
    (home, node, place)
}

pub(crate) fn spread() -> Spread {
    let (home, node, (host, port, database)) = databases();
    PgStore::migrate_into_lanes(&home, 4).expect("four lanes");
    PgStore::add_node(&home, ("east", &host, port, &database), &mut |_| {}).expect("a node");
    for lane in [1, 2] {
        put_on_node(&home, lane, "east").expect("moved");
    }
    let store = PgStore::connect(&home, 12).expect("connected");
    Spread { store, home, node }
}

#[test]
fn the_contract_holds_with_lanes_on_two_servers() {
    let spread = spread();
    let harness = Harness::of(&spread.store);
    let mut failed = Vec::new();
    for (name, case) in all() {
        let run = std::panic::AssertUnwindSafe(|| case(&harness));
        // Keys of filters are written at home before the transaction ends, and stay: one too many changes no figure.
        if std::panic::catch_unwind(run).is_err() && name != "catalog::takes_filter_keys_back" {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    let count = |url: &str, sql: &str| query(url, &format!("SELECT ({sql})::text AS value")).remove(0);
    for lane in ["lane_01", "lane_02"] {
        assert_ne!(count(&spread.node, &format!("SELECT count(*) FROM {lane}.invoices")), "0", "{lane} was used");
    }
    for table in ["lane_reservations", "returned_numbers"] {
        assert_eq!(count(&spread.home, &format!("SELECT count(*) FROM {table}")), "0", "{table}: all is settled");
    }
    assert_eq!(spread.store.check_lanes(&mut |_| {}), Ok(Vec::new()));
}

impl Spread {
    /// An organization, and a customer of each lane who is not made yet.
    pub(crate) fn furnished(&self) -> (OrganizationId, Vec<Customer>) {
        let organization: OrganizationId = Ids::new(u32::MAX).next(); // The contract begins with the first.
        let made = (&self.store as &dyn Store).run_for(&Scope::Catalog(organization), |tx, now| {
            tx.organizations().insert(&build::organization(organization, now))?;
            Ok(now)
        });
        let now = made.expect("an organization");
        let mut of_lanes: [Option<Customer>; 4] = Default::default();
        for n in 0.. {
            let customer = build::customer(organization, &format!("customer_{n}"), now);
            of_lanes[usize::from(customer.key.uuid().as_bytes()[0] >> 6)].get_or_insert(customer);
            if of_lanes.iter().all(Option::is_some) {
                break;
            }
        }
        (organization, of_lanes.into_iter().flatten().collect())
    }

    pub(crate) fn run<T>(
        &self,
        customer: &Customer,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        (&self.store as &dyn Store).run_for(&Scope::Customer(customer.organization, customer.key), work)
    }

    /// What a lane's schema is called.
    fn schema(&self, lane: u16) -> String {
        self.home(&format!("SELECT schema_name FROM lanes WHERE number = {lane}"))
    }

    pub(crate) fn home(&self, sql: &str) -> String {
        query(&self.home, &format!("SELECT coalesce(({sql})::text, '') AS value")).remove(0)
    }

    /// Numbers of invoices in every lane, by their places in the sequence.
    fn sequences(&self) -> Vec<i64> {
        let of = |url: &str, lane: &str| {
            query(url, &format!("SELECT split_part(number, '-', 2) AS value FROM {lane}.invoices"))
        };
        let lanes =
            [(&self.home, "lane_00"), (&self.node, "lane_01"), (&self.node, "lane_02"), (&self.home, "lane_03")];
        let numbers = lanes.into_iter().flat_map(|(url, lane)| of(url, lane));
        let mut sequences: Vec<i64> = numbers.map(|number| number.parse().expect("digits")).collect();
        sequences.sort_unstable();
        sequences
    }
}

/// Closes the connections to a database that are in the middle of a transaction.
fn kill_transactions(url: &str) {
    let kill = "SELECT coalesce(bool_and(pg_terminate_backend(pid)), false)::text AS value FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'idle in transaction'";
    assert_eq!(query(url, kill), ["true"], "somebody was killed");
}

fn issue(tx: &mut dyn Transaction, ids: &mut Ids, customer: &Customer, now: OffsetDateTime) -> Result<(), Error> {
    tx.invoices().issue(build::invoice(ids, customer, now, vec![build::line("fee", "1.10", now)]))?;
    // Its number is taken here, as by any work that looks at what it has issued.
    tx.invoices().list(&InvoiceFilter::default(), &PageRequest::first()).map(drop)
}

#[test]
fn numbers_have_no_gap_whatever_becomes_of_those_who_took_them() {
    let spread = spread();
    let (_, customers) = spread.furnished();
    std::thread::scope(|threads| {
        for (n, customer) in (0_u32..).zip(&customers) {
            let spread = &spread;
            threads.spawn(move || {
                let mut ids = Ids::new(100 + n);
                spread.run(customer, |tx, _| tx.customers().insert(customer)).expect("a customer");
                for round in 0..12 {
                    let done = spread.run(customer, |tx, now| {
                        issue(tx, &mut ids, customer, now)?;
                        match round % 3 {
                            1 => Err(StoreError::ReadOnly.into()),
                            _ => Ok(()),
                        }
                    });
                    assert_eq!(done.is_ok(), round % 3 != 1, "{done:?}");
                }
            });
        }
    });
    assert_eq!(spread.home("SELECT count(*) FROM lane_reservations"), "0");
    let returned: usize = spread.home("SELECT count(*) FROM returned_numbers").parse().expect("a number");
    let last: usize = spread.home("SELECT last_sequence FROM invoice_counters").parse().expect("a number");
    assert_eq!(spread.sequences().len() + returned, last, "what nobody has is to be used next");
    assert_eq!(spread.sequences().len(), 32);
    let mut ids = Ids::new(900);
    // Those who come next, wherever they are, use what came back.
    for n in 0..returned + 1 {
        let customer = &customers[n % 4];
        spread.run(customer, |tx, now| issue(tx, &mut ids, customer, now)).expect("issued");
    }
    let all = spread.sequences();
    assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>(), "no gap, and none twice");
    assert_eq!(spread.home("SELECT count(*) FROM invoice_numbers"), all.len().to_string());
}

#[test]
fn whoever_is_killed_before_its_commit_is_done_again_and_reserves_once() {
    let spread = spread();
    let (_, customers) = spread.furnished();
    for (n, customer) in (0_u32..).zip(&customers[1..=2]) {
        let customer = Customer { email: Some(format!("{n}@example.com")), ..customer.clone() };
        let (mut ids, mut attempts) = (Ids::new(50 + n), 0);
        let made = spread.run(&customer, |tx, now| {
            attempts += 1;
            tx.customers().insert(&customer)?;
            issue(tx, &mut ids, &customer, now)?;
            if attempts == 1 {
                kill_transactions(&spread.node);
            }
            Ok(())
        });
        assert_eq!((made, attempts), (Ok(()), 2));
    }
    assert_eq!(spread.home("SELECT count(*) FROM lane_reservations"), "0");
    assert_eq!(spread.home("SELECT count(*) FROM customer_emails"), "2");
    assert_eq!(spread.home("SELECT count(*) FROM returned_numbers"), "0");
    assert_eq!(spread.sequences(), [1, 2]);
}

#[test]
fn an_address_that_a_customer_leaves_is_free_at_once_and_one_that_was_not_taken_stays_free() {
    let spread = spread();
    let (_, customers) = spread.furnished();
    let with = |customer: &Customer, email: &str| Customer { email: Some(email.to_owned()), ..customer.clone() };
    // All of them want the same one, and leave it to the next.
    for customer in &customers {
        spread.run(customer, |tx, _| tx.customers().insert(&with(customer, "first@example.com"))).expect("it is free");
        let taken = spread.run(customer, |tx, _| tx.customers().find_by_email("first@example.com"));
        assert_eq!(taken, Ok(Some(customer.key)));
        let failed = spread.run(customer, |tx, _| {
            tx.customers().update(&with(customer, "lost@example.com"))?;
            assert_eq!(tx.customers().find_by_email("first@example.com"), Ok(None), "left within the transaction");
            Err::<(), _>(StoreError::ReadOnly.into())
        });
        assert!(failed.is_err());
        let own = format!("{}@example.com", customer.key.uuid());
        let moved = spread.run(customer, |tx, _| {
            tx.customers().update(&with(customer, "between@example.com"))?;
            tx.customers().update(&with(customer, "first@example.com"))?;
            tx.customers().update(&with(customer, &own))
        });
        assert_eq!(moved, Ok(()));
    }
    assert_eq!(spread.home("SELECT count(*) FROM customer_emails"), "4");
    assert_eq!(spread.home("SELECT count(*) FROM lane_reservations"), "0");
    let twice = spread.run(&customers[1], |tx, _| {
        tx.customers().update(&with(&customers[1], &format!("{}@example.com", customers[0].key.uuid())))
    });
    assert!(matches!(twice, Err(Error::Refused(Refusal::DuplicateResource(_)))), "{twice:?}");
    let kept = spread.run(&customers[1], |tx, _| tx.customers().get(customers[1].key));
    assert_eq!(kept.expect("a customer").email, Some(format!("{}@example.com", customers[1].key.uuid())));
}

#[test]
fn a_claimed_request_takes_effect_once_and_a_refused_one_leaves_its_answer_alone() {
    let spread = spread();
    let (organization, customers) = spread.furnished();
    for (n, customer) in (0_u32..).zip(&customers) {
        let scope = Scope::Customer(organization, customer.key);
        let customer = Customer { email: Some(format!("{n}@example.com")), ..customer.clone() };
        let claim = |key: &str| Claim { key: format!("{key} {n}"), fingerprint: vec![7; 32] };
        let answer = |text: &str| Answer { status: 201, text: text.to_owned() };
        let mut ids = Ids::new(70 + n);
        let refused = spread.store.run_once(&scope, &claim("refused"), &mut |tx, now| {
            tx.customers().insert(&customer)?;
            issue(tx, &mut ids, &customer, now)?;
            Ok(Attempt::Refused(answer("no")))
        });
        assert_eq!(refused, Ok(()));
        let kept = |key: &str| {
            let kept = spread.store.find_answer(organization, &claim(key).key).expect("an answer");
            kept.map(|kept| kept.answer.text)
        };
        assert_eq!(kept("refused").as_deref(), Some("no"));
        assert_eq!(spread.home("SELECT count(*) FROM customer_emails"), n.to_string(), "lane {n}: the address is free");

        let failed = spread.store.run_once(&scope, &claim("made"), &mut |tx, _| {
            tx.customers().insert(&customer)?;
            Err(StoreError::ReadOnly.into())
        });
        assert!(failed.is_err() && kept("made").is_none(), "lane {n}: the key is free");

        // Four at a time: one of them does it, and the others find its answer or are told to come again.
        let done = AtomicU32::new(0);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let mut ids = Ids::new(80 + n);
                    let run = spread.store.run_once(&scope, &claim("made"), &mut |tx, now| {
                        tx.customers().insert(&customer)?;
                        issue(tx, &mut ids, &customer, now)?;
                        Ok(Attempt::Done(answer("made")))
                    });
                    match run {
                        Ok(()) => drop(done.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => assert_eq!(error, Refusal::IdempotencyKeyInUse.into()),
                    }
                });
            }
        });
        assert_eq!((done.into_inner(), kept("made").as_deref()), (1, Some("made")), "lane {n}");
    }
    assert_eq!(spread.home("SELECT count(*) FROM lane_reservations"), "0");
    assert_eq!(spread.sequences(), [1, 2, 3, 4], "what was refused has used no number up");
}

#[test]
fn a_copy_of_the_catalogue_is_not_changed_by_hand() {
    let spread = spread();
    let changed = execute(&spread.node, "UPDATE plans SET name = name").expect_err("it is a copy");
    assert!(changed.contains("plans is changed at home"), "{changed}");
    let there = "SELECT string_agg(relname, ' ' ORDER BY relname) AS value FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname IN ('invoice_numbers', 'users', 'plans', 'lanes')";
    assert_eq!(query(&spread.node, there), ["plans"], "what is not sent is not to be found");
}

/// Four lanes at home with somebody at work since before there was a node, and a node.
fn with_a_first_node(before: impl FnOnce(&Spread)) -> Spread {
    let (home, node, (host, port, database)) = databases();
    PgStore::migrate_into_lanes(&home, 4).expect("four lanes");
    let spread = Spread { store: PgStore::connect(&home, 8).expect("connected"), home, node };
    before(&spread);
    PgStore::add_node(&spread.home, ("east", &host, port, &database), &mut |_| {}).expect("a node");
    spread
}

#[test]
fn whoever_is_at_work_since_before_the_first_node_completes_no_rollup_alone() {
    let organization: OrganizationId = Ids::new(u32::MAX).next();
    let make_metric = |spread: &Spread, seed: u32| {
        let metric = build::count_metric(&mut Ids::new(seed), &format!("call {seed}"), OffsetDateTime::UNIX_EPOCH);
        let scope = Scope::Catalog(organization);
        let made = (&spread.store as &dyn Store).run_for(&scope, |tx, _| tx.metrics().insert(&metric));
        made.expect("a metric");
    };
    let rolled_up_from = "SELECT string_agg(DISTINCT rolled_up_from::text, ' ') FROM metric_rollups";
    let spread = with_a_first_node(|spread| {
        assert_eq!(spread.furnished().0, organization);
        make_metric(spread, 10);
        assert_eq!(spread.home(rolled_up_from), "-infinity", "every event would be seen here");
    });
    for change in ["UPDATE metric_rollups SET filled_to = NULL", "UPDATE usage_alerts SET is_introduced = true"] {
        let refused = execute(&spread.home, change).expect_err(change);
        assert!(refused.contains("does not know of them"), "{refused}");
    }
    make_metric(&spread, 20);
    let from = spread.home(rolled_up_from);
    assert!(from.contains("9000-01-01"), "complete nowhere until everybody was waited for: {from}");
    while spread.store.catch_up().expect("filled in") {}
    assert_eq!(spread.home(rolled_up_from), "-infinity");
}

#[test]
fn whoever_is_at_work_since_before_the_first_node_uses_numbers_that_came_back() {
    let spread = with_a_first_node(|_| {});
    let (organization, customers) = spread.furnished();
    let back = format!("INSERT INTO returned_numbers VALUES ('{}', 'invoice_number', 7)", organization.uuid());
    execute(&spread.home, &back).expect("it has come back");
    assert_eq!(resolve_reservations(&spread.store, 0), Ok(0), "where it learns of nodes in passing");
    let (customer, mut ids) = (&customers[0], Ids::new(3));
    spread.run(customer, |tx, _| tx.customers().insert(customer)).expect("a customer");
    spread.run(customer, |tx, now| issue(tx, &mut ids, customer, now)).expect("issued");
    assert_eq!(spread.home("SELECT split_part(number, '-', 2)::bigint FROM invoice_numbers"), "7");
}

#[test]
fn migrations_reach_the_lanes_and_copies_of_nodes_and_make_no_second_lane_at_home() {
    let spread = spread();
    // As before some migrations: one of what customers own, one of a table that stays at home, one of what is made with a node.
    let unlearn = |url: &str, sql: &str, version: &str| {
        let forget = format!("DELETE FROM __diesel_schema_migrations WHERE version LIKE '%{version}'");
        execute(url, &format!("{sql}; {forget}")).expect("undone");
    };
    unlearn(&spread.node, "SET search_path = lane_01; DROP TABLE lane_tokens", "000601");
    unlearn(&spread.node, "DROP TABLE billing_at_home.key_pepper", "000042");
    unlearn(&spread.node, "DROP FUNCTION refuse_without_nodes CASCADE", "000602");
    unlearn(&spread.home, "DROP FUNCTION refuse_without_nodes CASCADE", "000602");
    unlearn(&spread.home, "DROP TABLE key_pepper", "000042");
    execute(&spread.home, "ALTER PUBLICATION billing_catalogue DROP TABLE usage_alerts").expect("not sent");
    execute(&spread.node, "ALTER SUBSCRIPTION billing_catalogue REFRESH PUBLICATION").expect("not taken");
    let applied = PgStore::migrate(&spread.home).expect("migrated");
    assert_eq!(applied.len(), 3, "{applied:?}");
    let there = "SELECT concat_ws(' ', to_regclass('lane_01.lane_tokens'), to_regclass('key_pepper'), to_regclass('billing_at_home.key_pepper'),
        to_regproc('refuse_without_nodes'), (SELECT count(*) FROM pg_subscription_rel WHERE srrelid = 'usage_alerts'::regclass)) AS value";
    assert_eq!(query(&spread.node, there), ["lane_01.lane_tokens billing_at_home.key_pepper refuse_without_nodes 1"]);
    execute(&spread.home, "UPDATE metric_rollups SET filled_to = NULL").expect_err("the triggers are there again");
    assert_eq!(spread.home("SELECT to_regnamespace('lane_01')"), "", "the lane is on the node, and only there");
    assert_eq!(spread.store.check_lanes(&mut |_| {}), Ok(Vec::new()));
    // A node that is away keeps nobody from starting, unless it lacks something.
    execute(&spread.home, "UPDATE nodes SET port = 1").expect("unreachable");
    assert_eq!(PgStore::migrate(&spread.home), Ok(Vec::new()));
    unlearn(&spread.home, "DROP FUNCTION refuse_without_nodes CASCADE", "000602");
    assert!(matches!(PgStore::migrate(&spread.home), Err(StoreError::Unavailable(_))));
}

#[test]
fn servers_that_cannot_be_nodes_are_refused_with_the_reason() {
    let spread = spread();
    let (home, node, (host, port, database)) = databases();
    let at_home = query(&home, "SELECT btrim(current_setting('unix_socket_directories'), '\"') AS value").remove(0);
    PgStore::migrate_into_lanes(&home, 2).expect("two lanes");
    let add = |home: &str, name: &str, host: &str, database: &str| {
        PgStore::add_node(home, (name, host, port, database), &mut |_| {}).map_err(|error| error.to_string())
    };
    let refused = add(&home, "near", &at_home, &database).expect_err("its own server");
    assert!(refused.contains("catalogue's own server"), "{refused}");
    let refused = add(&home, "nowhere", "/nowhere", &database).expect_err("nobody answers");
    assert!(refused.contains("/nowhere"), "{refused}");
    PgStore::migrate_into_lanes(&node, 2).expect("a service of its own");
    let refused = add(&home, "busy", &host, &database).expect_err("it has customers of its own");
    assert!(refused.contains("lanes of its own"), "{refused}");
    assert_eq!(query(&home, "SELECT count(*)::text AS value FROM nodes"), ["0"], "nothing is noted");
    let minimal = empty_database();
    PgStore::migrate(minimal.url()).expect("migrated");
    let refused = add(minimal.url(), "east", &host, "postgres").expect_err("it sends nothing");
    assert!(refused.contains("wal_level of the catalogue's server is minimal"), "{refused}");
    // Whoever adds it again finds it done.
    let name = query(&spread.node, "SELECT current_database()::text AS value").remove(0);
    assert_eq!(add(&spread.home, "east", &host, &name), Ok(()));
    let refused = add(&spread.home, "East!", &host, &name).expect_err("no name");
    assert!(refused.contains("small letters"), "{refused}");
}

/// Two databases, the second of which is a node of the first; what customers have is in four lanes, all of them at home.
fn at_home() -> Spread {
    let (home, node, (host, port, database)) = databases();
    PgStore::migrate_into_lanes(&home, 4).expect("four lanes");
    PgStore::add_node(&home, ("east", &host, port, &database), &mut |_| {}).expect("a node");
    let store = PgStore::connect(&home, 8).expect("connected");
    let harness = Harness::of(&store);
    for (name, case) in all() {
        if ["customer::", "subscription::", "event::", "invoice::", "credit::"].iter().any(|of| name.starts_with(of)) {
            case(&harness);
        }
    }
    Spread { store, home, node }
}

/// What is in the tables of a lane, a line for each.
fn contents(url: &str, schema: &str) -> Vec<String> {
    let tables = format!(
        "SELECT relname::text AS value FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind IN ('r', 'p')
            AND NOT relispartition AND relname !~ '^__diesel' AND relname <> 'lane_tokens' ORDER BY 1"
    );
    let content = |table: String| {
        let rows = format!(
            "SELECT '{table} ' || count(*) || ' ' || coalesce(md5(string_agg(to_jsonb(t)::text, ',' ORDER BY to_jsonb(t)::text)), '') AS value FROM {schema}.{table} t"
        );
        query(url, &rows).remove(0)
    };
    query(url, &tables).into_iter().map(content).collect()
}

#[test]
fn a_lane_moves_with_every_row_there_and_back() {
    let spread = at_home();
    let before = contents(&spread.home, "lane_01");
    let moved = PgStore::move_lane(&spread.home, 1, Some("east"), &mut |_| {}).expect("moved");
    assert!(moved.verified > 20, "{moved:?}");
    assert_eq!(contents(&spread.node, &spread.schema(1)), before);
    let there = spread.store.lanes().expect("whoever was at work with it finds it there");
    assert_eq!((&*there[1].schema, &*there[2].schema), ("lane_01_m1", "lane_02"));
    assert_eq!(PgStore::move_lane(&spread.home, 1, Some("east"), &mut |_| {}), Ok(Moved::default()), "it is there");

    let there = PgStore::connect(&spread.home, 8).expect("connected");
    let harness = Harness::of(&there);
    for (name, case) in all() {
        if ["customer::", "subscription::", "event::", "invoice::", "credit::", "message::"]
            .iter()
            .any(|of| name.starts_with(of))
        {
            case(&harness);
        }
    }
    assert_eq!(there.check_lanes(&mut |_| {}), Ok(Vec::new()));
    let grown = contents(&spread.node, &spread.schema(1));
    assert_ne!(grown, before, "it was worked with");
    PgStore::move_lane(&spread.home, 1, None, &mut |_| {}).expect("home again");
    assert_eq!(contents(&spread.home, &spread.schema(1)), grown);
    PgStore::move_lane(&spread.home, 1, Some("east"), &mut |_| {}).expect("and away");
    assert_eq!(contents(&spread.node, &spread.schema(1)), grown);
    let left =
        "SELECT string_agg(nspname, ' ' ORDER BY nspname) AS value FROM pg_namespace WHERE nspname LIKE '%lane_01%'";
    assert_eq!(query(&spread.home, left), ["lane_01_m2 moved_lane_01"], "moves do not pile up");
    assert_eq!(query(&spread.node, left), ["lane_01_m3"]);
    for (lane, to, why) in [(9, Some("east"), "there is no lane 9"), (2, Some("west"), "there is no node west")] {
        let refused = PgStore::move_lane(&spread.home, lane, to, &mut |_| {}).expect_err(why).to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let slots = "SELECT slot_name::text AS value FROM pg_replication_slots WHERE slot_name LIKE '%lane%' AND database = current_database()";
    assert_eq!((query(&spread.home, slots), query(&spread.node, slots)), (Vec::new(), Vec::new()), "nothing is kept");
}

#[test]
fn a_move_that_was_killed_anywhere_is_ended_by_the_next() {
    let spread = at_home();
    let before = contents(&spread.home, "lane_02");
    let (mut steps, mut kills) = (0, 0);
    loop {
        let mut left = steps;
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            PgStore::move_lane(&spread.home, 2, Some("east"), &mut |_| {
                assert!(left > 0, "killed");
                left -= 1;
            })
        }));
        if let Ok(done) = killed {
            done.expect("nothing is in the way");
            break;
        }
        kills += 1;
        let at = spread.home("SELECT coalesce(node_name, 'home') FROM lanes WHERE number = 2");
        assert_eq!(at, "home", "it is where all of it is, or nowhere");
        // One after the other at the beginning, where most differs from step to step.
        steps = if steps < 6 { steps + 1 } else { steps * 2 };
    }
    assert!(kills > 5, "it was killed at several steps");
    assert_eq!(contents(&spread.node, &spread.schema(2)), before);
    assert_eq!(PgStore::connect(&spread.home, 4).expect("connected").check_lanes(&mut |_| {}), Ok(Vec::new()));
}

#[test]
fn whoever_has_heard_of_no_move_finds_nothing_where_the_lane_comes_back() {
    let spread = at_home();
    let (_, customers) = spread.furnished();
    let customer = &customers[1];
    // It is killed between its last two steps, and run again.
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        PgStore::move_lane(&spread.home, 1, Some("east"), &mut |what| assert_ne!(what, "switching", "killed"))
    }));
    assert!(killed.is_err());
    let moved = PgStore::move_lane(&spread.home, 1, Some("east"), &mut |_| {}).expect("it goes on");
    assert_eq!(moved.verified, 0, "everything was verified before");
    let before = contents(&spread.node, &spread.schema(1));
    // Whoever still looks for it where it was at first finds nothing at any step, and so asks where it is.
    let (mut asleep, mut steps) = (connect(&spread.home), 0);
    asleep.batch_execute("SET search_path = lane_01, public").expect("as it was");
    let moved = PgStore::move_lane(&spread.home, 1, None, &mut |what| {
        let missing = asleep.batch_execute("DELETE FROM customers").expect_err(what).to_string();
        assert!(missing.contains("relation \"customers\" does not exist"), "{missing}");
        steps += 1;
    });
    assert!(moved.is_ok() && steps > 5, "{moved:?}");
    assert_eq!(contents(&spread.home, &spread.schema(1)), before);
    asleep.batch_execute("SELECT count(*) FROM customers").expect_err("nor does it read there");
    spread.run(customer, |tx, _| tx.customers().insert(customer)).expect("whoever asks where it is works there");
    assert_eq!(spread.store.check_lanes(&mut |_| {}), Ok(Vec::new()));
}

#[test]
fn a_copy_that_differs_is_not_switched_to_and_the_lane_works_on_where_it_was() {
    let spread = at_home();
    // Which lanes the contract's own customers are in is left to chance.
    let (_, customers) = spread.furnished();
    spread.run(&customers[1], |tx, _| tx.customers().insert(&customers[1])).expect("somebody is in it");
    let spoil = |what: &str| {
        if what.starts_with("verifying customers") {
            let spoilt = "ALTER TABLE lane_01.customers DISABLE TRIGGER USER; UPDATE lane_01.customers SET name = coalesce(name, '') || '!'";
            execute(&spread.node, spoilt).expect("spoilt");
        }
    };
    let refused =
        PgStore::move_lane(&spread.home, 1, Some("east"), &mut |what| spoil(what)).expect_err("a row differs");
    assert!(refused.to_string().contains("customers has"), "{refused}");
    assert_eq!(spread.store.check_lanes(&mut |_| {}), Ok(Vec::new()), "it is where it was");
    PgStore::move_lane(&spread.home, 1, Some("east"), &mut |_| {}).expect("and moves the next time");
}
