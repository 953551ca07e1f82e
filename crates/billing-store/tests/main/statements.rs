//! What the store sends: statements that work wherever a lane is, also where Postgres is a node of several.

use billing_domain::testing::contract::{Harness, all};
use billing_store::testing::{TestStore, listen_to_statements, statements_heard};

use crate::schema::CUSTOMER_OWNED;

/// Statements that plain Postgres is faster with than with what would do everywhere: a piece of each, and what it gains.
#[rustfmt::skip]
const ALLOWED: &[(Fault, &str, &str)] = &[
    (Fault::RowVersion,   "UPDATE hot_buckets bucket SET",            "a hot bucket is written without being read"),
    (Fault::WritingPart,  "WITH wanted AS ( SELECT * FROM unnest",    "a round trip in every billing transaction"),
    (Fault::WritingPart,  "WITH aside AS (INSERT INTO",               "a round trip in every call that changes a customer"),
    (Fault::WritingPart,  "last_sequence",                            "the counter is locked for one statement"),
    (Fault::TableInside,  "metered_events(",                          "inlined by the planner, and written once"),
    (Fault::TableInside,  "rolled_up_usage(",                         "inlined by the planner, and written once"),
    (Fault::TableInside,  "has_events_ahead(",                        "whoever asks has not all months in its plan"),
];

/// Why a statement would not work everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The version of a row means something to one server alone.
    RowVersion,
    /// A part of a query that writes.
    WritingPart,
    /// What is another value each time, and so on each node: the clock, a random number.
    VolatileInUpdate,
    /// A function that reads a table: what it reads is not seen by whoever distributes the statement.
    TableInside,
    /// A schema, where it should be where the connection looks.
    NamesASchema,
}

/// The words of a statement, in capitals, without what is quoted.
fn words(statement: &str) -> Vec<String> {
    let plain = statement.to_uppercase().replace('"', "");
    let unquoted = plain.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
    unquoted
        .split(|c: char| !c.is_alphanumeric() && !"_.".contains(c))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn faults(statement: &str) -> Vec<Fault> {
    let words = words(statement);
    let names = |table: &&&str| {
        let table = table.to_uppercase();
        words.iter().any(|word| {
            *word == table || word.ends_with(&format!(".{table}")) || word.starts_with(&format!("{table}."))
        })
    };
    if CUSTOMER_OWNED.iter().find(names).is_none()
        && !["METERED_EVENTS", "ROLLED_UP_USAGE", "HAS_EVENTS_AHEAD"]
            .iter()
            .any(|name| words.iter().any(|word| word == name))
    {
        return Vec::new();
    }
    let has = |wanted: &[&str]| {
        words.iter().any(|word| wanted.iter().any(|name| word == name || word.ends_with(&format!(".{name}"))))
    };
    let writes = |word: &String| ["INSERT", "UPDATE", "DELETE"].contains(&word.as_str());
    // `FOR UPDATE` and `DO UPDATE` begin no part of their own.
    let begins = words.iter().enumerate().filter(|(place, word)| {
        writes(word) && place.checked_sub(1).is_none_or(|before| !["FOR", "DO"].contains(&words[before].as_str()))
    });
    let writing_parts = begins.clone().count();
    let is_query = words.first().is_some_and(|first| first == "WITH");
    let is_update = words.first().is_some_and(|first| first == "UPDATE");
    let mut faults = Vec::new();
    let mut note = |is_so: bool, fault| {
        if is_so {
            faults.push(fault)
        }
    };
    note(has(&["XMIN", "CTID"]), Fault::RowVersion);
    note(is_query && writing_parts > 0 || writing_parts > 1, Fault::WritingPart);
    note(is_update && has(&["CLOCK_TIMESTAMP", "RANDOM"]), Fault::VolatileInUpdate);
    note(has(&["METERED_EVENTS", "ROLLED_UP_USAGE", "HAS_EVENTS_AHEAD"]), Fault::TableInside);
    let names_a_schema =
        |word: &String| ["LANE_", "PUBLIC.", "SPLITTING."].iter().any(|schema| word.starts_with(schema));
    note(words.iter().any(names_a_schema), Fault::NamesASchema);
    faults
}

/// Whether a statement has the events only by a function that is put in its place: see `NAMED_EVENTS`.
fn names_events_by_function_only(statement: &str) -> bool {
    statement.contains("metered_events(") && !statement.contains("'events'::regclass")
}

#[test]
fn a_fault_is_found() {
    use Fault::{NamesASchema, RowVersion, TableInside, VolatileInUpdate, WritingPart};
    #[rustfmt::skip]
    let cases: [(&str, &[Fault], &str); 13] = [
        // statement, faults, why
        ("SELECT * FROM \"customers\" WHERE customer_key = $1",                 &[],              "one table"),
        ("SELECT xmin FROM organizations",                                      &[],              "of the catalogue"),
        ("SELECT xmin FROM invoices",                                           &[RowVersion],    "a transaction's number"),
        ("UPDATE billing_due SET due_at = clock_timestamp()",                   &[VolatileInUpdate], "another time on each node"),
        ("UPDATE billing_due SET due_at = now() WHERE random() < 1",            &[VolatileInUpdate], "another number for each row"),
        ("UPDATE billing_due SET due_at = statement_timestamp()",               &[],              "one for the statement"),
        ("SELECT clock_timestamp() FROM customers",                             &[],              "only read"),
        ("WITH gone AS (DELETE FROM billing_due RETURNING 1) SELECT 1 FROM gone", &[WritingPart], "a part that writes"),
        ("INSERT INTO credits VALUES ($1) ON CONFLICT DO UPDATE SET a = 1",     &[],              "one thing written"),
        ("SELECT 1 FROM billing_due FOR UPDATE SKIP LOCKED",                    &[],              "a lock"),
        ("SELECT 1 FROM rolled_up_usage($1) u",                                 &[TableInside],   "reads usage_rollup unseen"),
        ("SELECT 1 FROM lane_00.customers",                                     &[NamesASchema],  "one lane for all"),
        ("SELECT 'DELETE FROM customers' FROM customers",                       &[],              "text"),
    ];
    for (statement, expected, why) in cases {
        assert_eq!(faults(statement), expected, "{statement}: {why}");
    }
}

/// All of the contract is run, and what it makes the store send is looked at.
#[test]
fn what_is_sent_to_a_lane_works_wherever_it_is() {
    listen_to_statements();
    let store = TestStore::with_lanes(1);
    let harness = Harness::of(&*store);
    all().into_iter().for_each(|(_, case)| case(&harness));
    let statements = statements_heard(store.url());
    assert!(statements.len() > 150, "they are heard: {}", statements.len());
    let unnamed: Vec<_> = statements.iter().filter(|statement| names_events_by_function_only(statement)).collect();
    assert!(unnamed.is_empty(), "their plans would outlive a month that is made beside them: {unnamed:#?}");
    let found =
        statements.iter().flat_map(|statement| faults(statement).into_iter().map(move |fault| (fault, statement)));
    let found: Vec<(Fault, &String)> = found.collect();
    let is_allowed = |(fault, statement): &&(Fault, &String)| {
        ALLOWED.iter().any(|(allowed, piece, _)| allowed == fault && statement.contains(piece))
    };
    let refused: Vec<_> = found.iter().filter(|found| !is_allowed(found)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    for (fault, piece, benefit) in ALLOWED {
        let is_sent = found.iter().any(|(found, statement)| found == fault && statement.contains(piece));
        assert!(is_sent, "nothing is allowed for nothing: {piece} ({benefit})");
    }
}
