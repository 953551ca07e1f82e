//! What the database itself refuses, whatever the program does.

use billing_domain::credit_note::{CreditNote, CreditNoteLine, LinePart, NewCreditNote, Settlement};
use billing_domain::id::{LineId, OrganizationId};
use billing_domain::store::{Scope, Store};
use billing_domain::testing::build::{self, Ids};
use billing_store::testing::TestStore;

use crate::sql::{execute, query};

/// A store with an organization, a customer, an invoice of two lines with a payment, a credit and a billing record.
fn furnished() -> TestStore {
    let store = TestStore::in_one_lane();
    let mut ids = Ids::new(1);
    let organization: OrganizationId = ids.next();
    let as_store: &dyn Store = &*store;
    as_store
        .run_for(&Scope::Catalog(organization), |tx, now| {
            tx.organizations().insert(&build::organization(organization, now))?;
            let plan = build::plan(&mut ids, "gold", now);
            let version = build::plan_version(&mut ids, &plan, now);
            tx.plans().insert(&plan)?;
            tx.plans().insert_version(&version)?;
            let customer = build::customer(organization, "acme", now);
            tx.customers().insert(&customer)?;
            let held = build::subscription(&mut ids, customer.key, &version, build::days_from(now, 30));
            tx.subscriptions().insert(&held)?;
            let charge = billing_domain::charge::ChargeRef::Recurring(version.recurring_charges[0].id);
            let record = build::billing_record(&mut ids, &held, charge);
            tx.billing_records().insert(customer.key, &[record])?;
            let lines = vec![build::line("a", "1.25", now), build::line("b", "2.50", now)];
            let invoice = build::invoice(&mut ids, &customer, now, lines);
            let payment = build::payment(&mut ids, invoice.id, "1", now);
            tx.invoices().issue(invoice)?;
            tx.invoices().add_payment(customer.key, &payment)?;
            let part = LinePart { amount: 1.into(), base: 1.into(), tax: 0.into() };
            let note = CreditNote {
                id: ids.next(),
                number: String::new(),
                customer: customer.key,
                invoice: payment.invoice,
                currency_code: "USD".to_owned(),
                issued_at: now,
                amount: 1.into(),
                credited: 0.into(),
                settlement: Settlement::Balance,
                credit: None,
                reason: "down".to_owned(),
                reference: None,
                lines: vec![CreditNoteLine { line: LineId::new(payment.invoice, 1), part }],
                is_correction: false,
                voided_at: None,
            };
            tx.invoices().add_credit_note(NewCreditNote::new(note))?;
            tx.credits().insert(customer.key, &build::credit(&mut ids, "5", now))
        })
        .expect("furnished");
    store
}

#[test]
fn refuses_what_must_never_be() {
    let store = furnished();
    #[rustfmt::skip]
    let cases = [
        // statement,                                                   part of the refusal
        ("UPDATE invoices SET amount = amount + 1",                      "issued invoices do not change"),
        ("UPDATE invoices SET payment_status = 'paid', due_at = now()",  "issued invoices do not change"),
        ("DELETE FROM invoices",                                         "issued invoices do not change"),
        ("UPDATE invoice_lines SET amount = 0",                          "issued invoices do not change"),
        ("DELETE FROM invoice_lines",                                    "issued invoices do not change"),
        ("INSERT INTO invoice_lines SELECT customer_key, invoice_id, 2, organization_id, name, start_at, end_at, quantity,
            billing_type, subscription_id, record_id, plan, filters, 0, adjustments, 0, trace
            FROM invoice_lines WHERE position = 0",                      "has no line 2"),
        ("INSERT INTO invoices SELECT customer_key, gen_random_uuid(), organization_id, number, billed_to, seller,
            currency_code, currency_name, currency_symbol, currency_decimals, issued_at, due_at, payment_status, 0, 1
            FROM invoices",                                              "its lines add up to 0"),
        ("UPDATE credit_entries SET amount = 1",                         "ledger entries do not change"),
        ("DELETE FROM credit_entries",                                   "ledger entries do not change"),
        ("INSERT INTO credit_entries SELECT customer_key, credit_id, 1, organization_id, gen_random_uuid(), 'void', 5.01,
            NULL, at FROM credit_entries",                               "credits_remaining_check"),
        ("INSERT INTO credit_entries SELECT customer_key, credit_id, 1, organization_id, gen_random_uuid(), 'grant', 1,
            NULL, at FROM credit_entries",                               "credit_entries_grant_check"),
        ("UPDATE invoices SET payment_status = 'paid'",                  "invoices_amount_paid_check"),
        ("UPDATE invoices SET amount_paid = 4",                          "invoices_amount_paid_check"),
        ("UPDATE invoices SET voided_at = now()",                         "invoices_voided_at_check"),
        ("INSERT INTO payments (customer_key, id, organization_id, invoice_id, kind, amount, credited, at, noted_at)
            SELECT customer_key, gen_random_uuid(), organization_id, invoice_id, kind, 3, 0, at, at FROM payments",
                                                                         "invoices_amount_paid_check"),
        ("INSERT INTO payments (customer_key, id, organization_id, invoice_id, kind, amount, credited, at, noted_at)
            SELECT customer_key, gen_random_uuid(), organization_id, invoice_id, 'reversal', 1, 0, at, at FROM payments",
                                                                         "payments_reverses_check"),
        ("INSERT INTO payments (customer_key, id, organization_id, invoice_id, kind, amount, credited, at, noted_at, method, reference)
            SELECT customer_key, gen_random_uuid(), organization_id, invoice_id, kind, 1, 0, at, at, method, reference FROM payments",
                                                                         "payments_reference_excl"),
        ("UPDATE credit_notes SET amount = 2",                           "credit notes do not change"),
        ("UPDATE credit_notes SET voided_at = now(), reason = 'x'",      "credit notes do not change"),
        ("DELETE FROM credit_notes",                                     "credit notes do not change"),
        ("UPDATE credit_note_lines SET base = 0",                        "credit notes do not change"),
        ("DELETE FROM credit_note_lines",                                "credit notes do not change"),
        ("INSERT INTO credit_note_lines SELECT customer_key, credit_note_id, 1, organization_id, invoice_id, 2.51, 2.51, 0
            FROM credit_note_lines",                                     "credit notes take more than line 1"),
        ("UPDATE payments SET amount = 1",                               "payments do not change"),
        ("DELETE FROM payments",                                         "payments do not change"),
        ("UPDATE billing_records SET billed_given = 1",                  "was changed meanwhile"),
        ("UPDATE subscriptions SET end_at = start_at - interval '1 us'", "subscriptions_period_check"),
        ("UPDATE subscriptions SET quantity = 0",                        "subscriptions_quantity_check"),
        ("UPDATE billing_records SET component_id = id, revision = 2",   "billing_records_charge_check"),
        ("INSERT INTO events (organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name,
            time_created, properties, arrival) SELECT organization_id, customer_key, 'acme', customer_key, '1', 'call',
            '1850-01-01', '{}', 1 FROM customers",                          "no partition"),
    ];
    for (statement, refusal) in cases {
        let error = execute(store.url(), statement).expect_err(statement);
        assert!(error.contains(refusal), "{statement}: {error}");
    }
    let rest =
        "INSERT INTO payments (customer_key, id, organization_id, invoice_id, kind, amount, credited, at, noted_at)
        SELECT customer_key, gen_random_uuid(), organization_id, invoice_id, kind, 2.75, 0, at, at FROM payments";
    execute(store.url(), rest).expect("the rest may be paid");
    let paid = query(store.url(), "SELECT concat_ws(' ', payment_status, amount_paid) AS value FROM invoices");
    assert_eq!(paid, ["paid 3.75"], "an invoice follows its payments");
}

#[test]
fn adds_up() {
    let store = furnished();
    execute(
        store.url(),
        "INSERT INTO credit_entries SELECT customer_key, credit_id, 1, organization_id, gen_random_uuid(), 'void', 2, NULL, at
        FROM credit_entries",
    )
    .expect("voided");
    let balance = query(
        store.url(),
        "SELECT concat_ws(' ', amount, drawn, restored, voided, expired, remaining) AS value FROM credits",
    );
    assert_eq!(balance, ["5 0 0 2 0 3"], "a balance follows its entries");
}
