//! Lists read what they show, however many customers and documents there are: every row that Postgres reads is counted.

use std::thread;
use std::time::{Duration, Instant};

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::audit::AuditFilter;
use billing_domain::customer::Customer;
use billing_domain::id::OrganizationId;
use billing_domain::invoice::PaymentStatus;
use billing_domain::message::{Message, MessageType, Payload};
use billing_domain::store::{
    CreditNoteFilter, EventFilter, EventIngest, InvoiceFilter, Overviews, Page, PageRequest, Scope, SearchedBy, Store,
    Transaction, Window,
};
use billing_domain::testing::build::{self, Ids};
use billing_store::PgStore;
use billing_store::testing::TestStore;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::sql::{execute, query};

/// Of one organization; another one has as many.
const CUSTOMERS: u32 = 30_000;
/// Rows that may be read for each that is shown: what it stands in, and what hangs on it.
const ROWS_EACH: u64 = 4;

/// An organization with customers whose ids and names begin alike, and who have e-mail addresses; the first of them.
fn inhabited() -> (TestStore, OrganizationId, Customer) {
    let store = TestStore::with_lanes(1);
    let mut organizations = Vec::new();
    for seed in [81, 82] {
        let id = Ids::new(seed).next();
        let customer = build::customer(id, "c0", OffsetDateTime::UNIX_EPOCH);
        let made: &dyn Store = &*store;
        made.run_for(&Scope::Catalog(id), |tx, now| tx.organizations().insert(&build::organization(id, now)))
            .expect("made");
        made.run_for(&Scope::Customer(id, customer.key), |tx, _| tx.customers().insert(&customer)).expect("made");
        organizations.push((id, customer));
    }
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
    let (organization, customer) = organizations.swap_remove(0);
    (store, organization, customer)
}

/// An organization whose customers have an invoice with a credit note and an entry of the audit log each, all of them made in one instant as
/// by one billing run: one invoice of a thousand is voided, and only the first customer's, which came to nothing, is paid.
fn billed() -> (TestStore, OrganizationId, Customer) {
    let (store, organization, customer) = inhabited();
    let mut ids = Ids::new(83);
    let invoice = build::invoice(&mut ids, &customer, customer.created_at, Vec::new());
    let made: &dyn Store = &*store;
    let issue = |tx: &mut dyn Transaction, _| tx.invoices().issue(invoice.clone());
    made.run_for(&Scope::Customer(organization, customer.key), issue).expect("issued");
    execute(store.url(), OF_EVERYBODY).expect("made");
    let rest = "INSERT INTO credit_notes (customer_key, id, organization_id, number, invoice_id, currency_code, issued_at, amount,
                credited, settlement, reason)
            SELECT customer_key, gen_random_uuid(), organization_id, 'CN-' || number, id, 'USD', issued_at, 1, 0, 'outside', 'down'
            FROM invoices;
        INSERT INTO audit_entries (customer_key, at, id, organization_id, actor_kind, actor_id, actor_name, request_id, operation, kind)
            SELECT customer_key, issued_at, gen_random_uuid(), organization_id, 'api_key', 'a', 'a', 'r', 'create_invoice', 'invoice'
            FROM invoices;
        VACUUM ANALYZE";
    rest.split(';').for_each(|statement| execute(store.url(), statement).expect("made"));
    (store, organization, customer)
}

/// Invoices like the first for all others, each of 1 and without lines, which triggers would refuse.
const OF_EVERYBODY: &str = "BEGIN;
    SET LOCAL session_replication_role = replica;
    INSERT INTO invoices
    SELECT (jsonb_populate_record(invoice, jsonb_build_object(
        'customer_key', customer.customer_key, 'organization_id', customer.organization_id, 'id', gen_random_uuid(),
        'number', customer.customer_id, 'amount', 1, 'payment_status', status, 'voided_at', CASE status WHEN 'voided' THEN issued_at END
    ))).*
    FROM invoices invoice
    CROSS JOIN (
        SELECT *, row_number() OVER (PARTITION BY organization_id ORDER BY customer_key) AS place
        FROM customers WHERE customer_id <> 'c0'
    ) customer
    CROSS JOIN LATERAL (SELECT CASE WHEN place % 1000 = 1 THEN 'voided' ELSE 'unpaid' END AS status) as_it_stands;
    COMMIT";

/// Rows that were read: of tables that were gone through, and entries of indexes.
fn rows_read(url: &str) -> u64 {
    let read = "SELECT ((SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes))::text AS value";
    query(url, read)[0].parse().expect("a number")
}

/// Does something in a process of its own, and answers how many rows were read for it: servers tell of that when a connection ends.
fn rows_read_by(url: &str, organization: OrganizationId, work: impl Fn(&mut dyn Transaction)) -> u64 {
    rows_read_of_store(url, &|store| {
        let looked = (store as &dyn Store).run(&Scope::Organization(organization), &mut |tx, _| {
            work(tx);
            Ok(())
        });
        looked.expect("read");
    })
}

/// [`rows_read_by`], of the whole store.
fn rows_read_of_store(url: &str, work: &dyn Fn(&PgStore)) -> u64 {
    let look = |work: &dyn Fn(&PgStore)| {
        let store = PgStore::connect(url, 1).expect("a process");
        let (before, began) = (settled(url), Instant::now());
        work(&store);
        drop(store);
        while rows_read(url) == before && began.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(10));
        }
        settled(url) - before
    };
    // What is read before anything is asked for is not the list's.
    let nothing = look(&|_| {});
    look(work).saturating_sub(nothing)
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

/// What somebody looks at, and how much of it there is.
type Look<'l> = Box<dyn Fn(&mut dyn Transaction) -> usize + 'l>;

fn page(after: Option<String>) -> PageRequest {
    PageRequest { limit: 50, after }
}

/// As a process of its own, which has told what it read when it ends: whoever stays tells it seconds later.
fn in_organization<T>(
    url: &str,
    organization: OrganizationId,
    work: impl Fn(&mut dyn Transaction) -> Result<T, Error>,
) -> T {
    let store = PgStore::connect(url, 1).expect("a process");
    let store: &dyn Store = &store;
    store.run_for(&Scope::Organization(organization), |tx, _| work(tx)).expect("read")
}

/// The cursor behind so many pages.
fn behind<T>(
    url: &str,
    organization: OrganizationId,
    pages: u32,
    read: impl Fn(&mut dyn Transaction, Option<String>) -> Result<Page<T>, Error>,
) -> Option<String> {
    let cursor = in_organization(url, organization, |tx| {
        (0..pages).try_fold(None, |after, _| Ok::<_, Error>(read(tx, after)?.next))
    });
    assert!(cursor.is_some(), "there are more than {pages} pages");
    cursor
}

#[test]
fn lists_and_searches_read_no_more_than_they_show() {
    let (store, organization, _) = inhabited();
    let url = store.url();
    let cursor = behind(url, organization, 2, |tx, after| tx.customers().list(&page(after)));
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

#[test]
fn lists_of_documents_read_no_more_than_they_show() {
    let (store, organization, customer) = billed();
    let url = store.url();
    let with = |statuses: &[PaymentStatus]| InvoiceFilter { customers: None, statuses: Some(statuses.to_vec()) };
    let of_customer = InvoiceFilter::of(customer.key);
    let newest = in_organization(url, organization, |tx| tx.invoices().list(&InvoiceFilter::default(), &page(None)));
    let some = newest.items.iter().take(10).map(|invoice| invoice.customer).collect();
    let of_some = InvoiceFilter { customers: Some(some), statuses: None };
    let invoices = |filter: InvoiceFilter, after: Option<String>| -> Look<'_> {
        Box::new(move |tx| tx.invoices().list(&filter, &page(after.clone())).expect("a page").items.len())
    };
    let notes = |filter: CreditNoteFilter, after: Option<String>| -> Look<'_> {
        Box::new(move |tx| tx.invoices().list_credit_notes(&filter, &page(after.clone())).expect("a page").items.len())
    };
    let entries = |filter: AuditFilter, after: Option<String>| -> Look<'_> {
        Box::new(move |tx| tx.audit_log().list(&filter, &page(after.clone())).expect("a page").items.len())
    };
    let (unpaid, voided, paid) = (PaymentStatus::Unpaid, PaymentStatus::Voided, PaymentStatus::Paid);
    let read =
        |filter: InvoiceFilter| behind(url, organization, 40, |tx, after| tx.invoices().list(&filter, &page(after)));
    let (in_all, in_unpaid) = (read(InvoiceFilter::default()), read(with(&[unpaid])));
    let no_note = CreditNoteFilter::default;
    let in_notes = behind(url, organization, 40, |tx, after| tx.invoices().list_credit_notes(&no_note(), &page(after)));
    let every_entry = AuditFilter::default;
    let in_entries = behind(url, organization, 40, |tx, after| tx.audit_log().list(&every_entry(), &page(after)));
    let note_of = CreditNoteFilter { customer: Some(customer.key), invoice: None };
    let entry_of = AuditFilter { customer: Some(customer.key), ..AuditFilter::default() };
    #[rustfmt::skip]
    let cases = [
        // looked for,                                    shown, why
        (invoices(InvoiceFilter::default(), None),        50,    "the first page"),
        (invoices(InvoiceFilter::default(), in_all),      50,    "a page among those of one instant"),
        (invoices(of_customer, None),                     1,     "a customer's"),
        (invoices(of_some, None),                         10,    "those of some customers, as of those at a test clock"),
        (invoices(with(&[voided]), None),                 30,    "few among many"),
        (invoices(with(&[paid]), None),                   1,     "one alone"),
        (invoices(with(&[unpaid]), in_unpaid),            50,    "nearly all, behind a cursor"),
        (invoices(with(&[unpaid, voided, unpaid]), None), 50,    "several statuses, one of them twice"),
        (notes(no_note(), None),                          50,    "the first page of notes"),
        (notes(no_note(), in_notes),                      50,    "a page among those of one instant"),
        (notes(note_of, None),                            1,     "a customer's"),
        (entries(AuditFilter::default(), None),           50,    "the first page of the audit log"),
        (entries(AuditFilter::default(), in_entries),     50,    "a page among those of one instant"),
        (entries(entry_of, None),                         1,     "a customer's"),
    ];
    for (look, shown, why) in cases {
        let read = rows_read_by(url, organization, |tx| assert_eq!(look(tx), shown, "{why}"));
        assert!(read <= ROWS_EACH * shown as u64 + 20, "{why}: {read} rows are read to show {shown}");
    }
    pages_leave_none_out(url, organization);
}

/// Of the first customer, over three months; the others have one each.
const EVENTS: u32 = 20_000;

/// The events of the first customer and of 2,000 others, two of them of another name, with the latest instant of them.
fn with_events(store: &TestStore, organization: OrganizationId) -> OffsetDateTime {
    let latest = datetime!(2024-03-30 12:00 UTC);
    let at = |n: u32| latest - time::Duration::minutes(i64::from(n) * 6);
    let name = |n: u32| if n == 30 || n == 31 { "rare" } else { "call" };
    let of_one = (0..EVENTS).map(|n| build::event("c0", name(n), &format!("e{n}"), at(n)));
    let of_others = (1..=2_000).map(|n| build::event(&format!("c{n}"), "call", "first", at(n)));
    let events: Vec<_> = of_one.chain(of_others).collect();
    for some in events.chunks(5_000) {
        store.ingest(organization, some, Window::Open).expect("taken in");
    }
    execute(store.url(), "VACUUM ANALYZE").expect("gathered");
    latest
}

#[test]
fn lists_of_events_read_no_more_than_they_show() {
    let (store, organization, customer) = inhabited();
    let latest = with_events(&store, organization);
    let (url, of_one) = (store.url(), EventFilter::of(customer.key));
    let later = |days: i64| Some(latest - time::Duration::days(days));
    let list = |filter: &EventFilter, after: Option<String>| -> Look<'_> {
        let filter = filter.clone();
        Box::new(move |tx| tx.events().list(&filter, &page(after.clone())).expect("a page").items.len())
    };
    let with_id = |id: &'static str| -> Look<'_> {
        Box::new(move |tx| tx.events().list_with_id(id, &page(None)).expect("a page").items.len())
    };
    let between = EventFilter { from: later(41), to: later(40), ..of_one.clone() };
    let named = EventFilter { name: Some("call".to_owned()), ..of_one.clone() };
    let rare = EventFilter { from: later(1), name: Some("rare".to_owned()), ..of_one.clone() };
    let as_seen = EventFilter { seen_to: Some(u64::from(u32::MAX)), ..of_one.clone() };
    let by_id = EventFilter { idempotency_id: Some("e19999".to_owned()), ..of_one.clone() };
    let cursor = behind(url, organization, 200, |tx, after| tx.events().list(&of_one, &page(after)));
    #[rustfmt::skip]
    let cases = [
        // looked for,                  shown, why
        (list(&of_one, None),           50,    "the latest"),
        (list(&of_one, cursor.clone()), 50,    "a page in the middle, in another month"),
        (list(&between, None),          50,    "of a day long ago"),
        (list(&named, cursor),          50,    "by the name that nearly all have"),
        (list(&as_seen, None),          50,    "as an invoice saw them"),
        (list(&by_id, None),            1,     "one by its id"),
        (with_id("e700"),               1,     "whosever an id is"),
        (with_id("first"),              50,    "an id of many customers'"),
    ];
    for (look, shown, why) in cases {
        let read = rows_read_by(url, organization, |tx| assert_eq!(look(tx), shown, "{why}"));
        assert!(read <= ROWS_EACH * shown as u64 + 20, "{why}: {read} rows are read to show {shown}");
    }
    // What no index finds is looked for within the time that is asked about.
    let read = rows_read_by(url, organization, |tx| assert_eq!(list(&rare, None)(tx), 2));
    assert!((200..=600).contains(&read), "two of the 240 events of a day: {read} rows are read");
}

/// All invoices of [`billed`] as if they were issued now, and their sums as the trigger would have them, which these rows came past.
const ISSUED_NOW: &str = "BEGIN;
    SET LOCAL session_replication_role = replica;
    UPDATE invoices SET issued_at = date_trunc('month', statement_timestamp(), 'UTC');
    INSERT INTO invoiced_hours
    SELECT organization_id, issued_at, 'USD', 1, sum(amount) FROM invoices WHERE payment_status <> 'voided' GROUP BY 1, 2;
    COMMIT";

#[test]
fn what_was_invoiced_is_told_without_reading_invoices() {
    let (store, organization, _) = billed();
    [ISSUED_NOW, "VACUUM ANALYZE"].iter().for_each(|made| execute(store.url(), made).expect("made"));
    let read = rows_read_of_store(store.url(), &|store| {
        let invoiced = store.overview(organization).expect("read").invoiced;
        assert_eq!(invoiced.len(), 1);
        let all_but_voided = BigDecimal::from(CUSTOMERS - CUSTOMERS / 1000);
        assert_eq!(invoiced[0].this_month, all_but_voided);
    });
    assert!(read <= 20, "{read} rows are read for the sums of {CUSTOMERS} invoices");
}

/// Everybody has the first customer's subscription.
const SUBSCRIBED: &str = "INSERT INTO subscriptions
    SELECT (jsonb_populate_record(subscription, jsonb_build_object('customer_key', customers.customer_key, 'id', gen_random_uuid()))).*
    FROM subscriptions subscription
    JOIN customers USING (organization_id)
    WHERE customers.customer_id <> 'c0'";

#[test]
fn running_subscriptions_are_told_without_reading_them() {
    let (store, organization, customer) = inhabited();
    let (mut ids, made): (_, &dyn Store) = (Ids::new(84), &*store);
    let subscribe = |tx: &mut dyn Transaction, now| {
        let plan = build::plan(&mut ids, "gold", now);
        let version = build::plan_version(&mut ids, &plan, now);
        let held = build::subscription(&mut ids, customer.key, &version, build::days_from(now, 30));
        tx.subscriptions().insert(&held).map(|()| version.id)
    };
    let version = made.run_for(&Scope::Customer(organization, customer.key), subscribe).expect("subscribed");
    [SUBSCRIBED, "VACUUM ANALYZE"].iter().for_each(|made| execute(store.url(), made).expect("made"));
    let read = rows_read_by(store.url(), organization, |tx| {
        let running = tx.plans().active_subscriptions(OffsetDateTime::now_utc()).expect("counted");
        assert_eq!(running.into_values().collect::<Vec<_>>(), [u64::from(CUSTOMERS) + 1]);
    });
    assert!(read <= 20, "{read} rows are read for the number of {CUSTOMERS} subscriptions");
    // All of them end in the same instant.
    let holders =
        |tx: &mut dyn Transaction, after| tx.plans().list_holders(version, OffsetDateTime::now_utc(), &page(after));
    let cursor = behind(store.url(), organization, 2, holders);
    for (after, why) in [(None, "the first page of holders"), (cursor, "a page behind a cursor")] {
        let read = rows_read_by(store.url(), organization, |tx| {
            assert_eq!(holders(tx, after.clone()).expect("a page").items.len(), 50, "{why}");
        });
        assert!(read <= 50 * ROWS_EACH, "{why}: {read} rows are read to show 50");
    }
}

/// The first customer's one message as often as there are customers.
const TOLD: &str = "INSERT INTO messages
    SELECT (jsonb_populate_record(message, jsonb_build_object('id', gen_random_uuid()))).*
    FROM messages message, generate_series(1, 30000)";

#[test]
fn a_customers_messages_are_listed_from_the_newest_on() {
    let (store, organization, customer) = inhabited();
    let made: &dyn Store = &*store;
    let tell = |tx: &mut dyn Transaction, now| {
        let (id, payload) = (tx.messages().new_id(), Payload::Json("{}".to_owned()));
        tx.messages().insert(Message::new((id, MessageType::CustomerCreated), Some(customer.key), (now, true), payload))
    };
    made.run_for(&Scope::Customer(organization, customer.key), tell).expect("told");
    [TOLD, "VACUUM ANALYZE"].iter().for_each(|made| execute(store.url(), made).expect("made"));
    let told = |tx: &mut dyn Transaction, after| tx.messages().list_of(customer.key, &page(after));
    let cursor = behind(store.url(), organization, 2, told);
    for (after, why) in [(None, "the first page of messages"), (cursor, "a page behind a cursor")] {
        let read = rows_read_by(store.url(), organization, |tx| {
            assert_eq!(told(tx, after.clone()).expect("a page").items.len(), 50, "{why}");
        });
        assert!(read <= 50 * ROWS_EACH, "{why}: {read} rows are read to show 50");
    }
}

/// Pages of invoices with some statuses have those that the pages of all have, in their order.
fn pages_leave_none_out(url: &str, organization: OrganizationId) {
    let all = |statuses: Option<Vec<PaymentStatus>>| {
        let filter = InvoiceFilter { customers: None, statuses };
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let request = PageRequest { limit: 7_000, after };
            let page = in_organization(url, organization, |tx| tx.invoices().list(&filter, &request));
            all.extend(page.items.into_iter().map(|invoice| (invoice.payment_status, invoice.id)));
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    };
    let everything = all(None);
    assert_eq!(everything.len(), CUSTOMERS as usize + 1);
    for statuses in [vec![PaymentStatus::Unpaid], vec![PaymentStatus::Voided, PaymentStatus::Unpaid]] {
        let expected = everything.iter().filter(|(status, _)| statuses.contains(status)).copied().collect::<Vec<_>>();
        assert_eq!(all(Some(statuses.clone())), expected, "{statuses:?}, in the order of all");
    }
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
