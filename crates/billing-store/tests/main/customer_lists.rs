//! Lists of customers read what they show, however many customers there are: every row that Postgres reads is counted.

use std::thread;
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_domain::store::{PageRequest, Scope, SearchedBy, Store, Transaction};
use billing_domain::testing::build::{self, Ids};
use billing_store::PgStore;
use billing_store::testing::TestStore;

use crate::sql::{execute, query};

/// Of one organization; another one has as many.
const CUSTOMERS: u32 = 30_000;

/// An organization with customers whose ids and names begin alike, and who have e-mail addresses.
fn inhabited() -> (TestStore, OrganizationId) {
    let store = TestStore::with_lanes(1);
    let organizations = [81, 82].map(|seed| {
        let id = Ids::new(seed).next();
        let customer = build::customer(id, "c0", time::OffsetDateTime::UNIX_EPOCH);
        let made: &dyn Store = &*store;
        made.run_for(&Scope::Catalog(id), |tx, now| tx.organizations().insert(&build::organization(id, now)))
            .expect("made");
        made.run_for(&Scope::Customer(id, customer.key), |tx, _| tx.customers().insert(&customer)).expect("made");
        id
    });
    let others = format!(
        "INSERT INTO customers SELECT (jsonb_populate_record(customer, jsonb_build_object(
                'customer_key', gen_random_uuid(), 'customer_id', 'c' || n, 'name', 'Company ' || n,
                'list_key', ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid
            ))).*
            FROM customers customer, generate_series(1, {CUSTOMERS}) n;
        INSERT INTO customer_emails (organization_id, email, customer_key)
            SELECT organization_id, customer_id || '@acme.example', customer_key FROM customers WHERE customer_id <> 'c0';
        VACUUM ANALYZE"
    );
    others.split(';').for_each(|statement| execute(store.url(), statement).expect("made"));
    let [organization, _] = organizations;
    (store, organization)
}

/// Rows that were read: of tables that were gone through, and entries of indexes.
fn rows_read(url: &str) -> u64 {
    let read = "SELECT ((SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes))::text AS value";
    query(url, read)[0].parse().expect("a number")
}

/// Does something in a process of its own, and answers how many rows were read for it: servers tell of that when a connection ends.
fn rows_read_by(url: &str, organization: OrganizationId, work: impl Fn(&mut dyn Transaction)) -> u64 {
    let look = |work: &dyn Fn(&mut dyn Transaction)| {
        let store = PgStore::connect(url, 1).expect("a process");
        let (before, began) = (settled(url), Instant::now());
        let looked = (&store as &dyn Store).run(&Scope::Organization(organization), &mut |tx, _| {
            work(tx);
            Ok(())
        });
        looked.expect("read");
        drop(store);
        while rows_read(url) == before && began.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(10));
        }
        settled(url) - before
    };
    // What is read before anything is asked for is not the list's.
    let nothing = look(&|_| {});
    look(&work).saturating_sub(nothing)
}

/// [`rows_read`], once it stands still.
fn settled(url: &str) -> u64 {
    let mut last = rows_read(url);
    loop {
        thread::sleep(Duration::from_millis(150));
        let now = rows_read(url);
        if now == last {
            return now;
        }
        last = now;
    }
}

#[test]
fn lists_and_searches_read_no_more_than_they_show() {
    let (store, organization) = inhabited();
    let url = store.url();
    let page = |after: Option<String>| PageRequest { limit: 50, after };
    let mut cursor = None;
    let first: &dyn Store = &*store;
    for _ in 0..2 {
        let look = |tx: &mut dyn Transaction, _| tx.customers().list(&page(cursor.clone()));
        cursor = first.run_for(&Scope::Organization(organization), look).expect("read").next;
    }
    assert!(cursor.is_some(), "there are more than two pages");
    type Look<'l> = Box<dyn Fn(&mut dyn Transaction) -> usize + 'l>;
    let list = |after: Option<String>| -> Look<'_> {
        Box::new(move |tx| tx.customers().list(&page(after.clone())).expect("a page").items.len())
    };
    let search = |by: SearchedBy, beginning: &'static str| -> Look<'_> {
        Box::new(move |tx| tx.customers().search(by, beginning, 50).expect("found").len())
    };
    let email = |email: &'static str| -> Look<'_> {
        Box::new(move |tx| usize::from(tx.customers().find_by_email(email).expect("found").is_some()))
    };
    #[rustfmt::skip]
    let cases = [
        // looked for,                                 shown, why
        (list(None),                                   50,    "the first page"),
        (list(cursor.clone()),                         50,    "a page behind a cursor"),
        (search(SearchedBy::Id, "c"),                  50,    "all ids begin so"),
        (search(SearchedBy::Id, "c2999"),              11,    "few do"),
        (search(SearchedBy::Id, "nobody"),             0,     "none does"),
        (search(SearchedBy::Name, "company"),          50,    "all names begin so"),
        (search(SearchedBy::Name, "company 29999"),    1,     "one does"),
        (email("c29999@acme.example"),                 1,     "an address"),
        (email("nobody@acme.example"),                 0,     "nobody's"),
    ];
    for (look, shown, why) in cases {
        let read = rows_read_by(url, organization, |tx| assert_eq!(look(tx), shown, "{why}"));
        assert!(read <= 2 * shown as u64 + 20, "{why}: {read} rows are read to show {shown}");
    }
    // What is counted is there to be seen.
    let count = rows_read_by(url, organization, |tx| assert_eq!(all(tx), CUSTOMERS as usize + 1));
    assert!(count > u64::from(CUSTOMERS), "all of them: {count}");
}

/// How many customers there are, page by page.
fn all(tx: &mut dyn Transaction) -> usize {
    let (mut after, mut count) = (None, 0);
    loop {
        let page = tx.customers().list(&PageRequest { limit: 10_000, after }).expect("a page");
        count += page.items.len();
        after = page.next;
        if after.is_none() {
            return count;
        }
    }
}
