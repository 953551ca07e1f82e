//! Issuing: an invoice, its number and its lines are written by one statement, the last of its transaction.
//!
//! The counter's row is locked from the number on until the commit is on the disk, and everybody else who issues in the
//! organization waits for it. So what a transaction issues is put off to its very end.

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::invoice::{LineItem, NewInvoice, SEQUENCE_DIGITS, number_prefix};
use diesel::RunQueryDsl;
use diesel::sql_types::{
    Array, BigInt, Integer, Jsonb, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::column::{stored_count, to_json};
use crate::statement::statement;
use crate::transaction::PgTransaction;

statement! {
    /// Takes the next number of the organization's sequence and writes the invoice under it. A line is inserted behind its
    /// invoice, because it needs what the insertion of that returns.
    Issue -> BigInt {
        "WITH counter AS (
            INSERT INTO invoice_counters AS own (organization_id, last_sequence)
            VALUES (" organization: Uuid as SqlUuid; ", 1)
            ON CONFLICT (organization_id) DO UPDATE SET last_sequence = own.last_sequence + 1
            RETURNING organization_id, last_sequence::text AS sequence
        ), issued AS (
            INSERT INTO invoices (customer_key, id, organization_id, number, billed_to, seller, currency_code,
                currency_name, currency_symbol, currency_decimals, issued_at, due_at, payment_status, line_count, amount)
            SELECT " customer: Uuid as SqlUuid; ", " id: Uuid as SqlUuid; ", organization_id,
                " prefix: String as Text; " || lpad(sequence, greatest(" digits: i32 as Integer; ", length(sequence)), '0'),
                " billed_to: Value as Jsonb; ", " seller: Value as Jsonb; ", " currency_code: String as Text; ",
                " currency_name: String as Text; ", " currency_symbol: String as Text; ",
                " currency_decimals: i16 as SmallInt; ", " issued_at: OffsetDateTime as Timestamptz; ",
                " due_at: Option<OffsetDateTime> as Nullable<Timestamptz>; ", " payment_status: String as Text; ",
                " line_count: i64 as BigInt; ", " amount: BigDecimal as Numeric; "
            FROM counter
            RETURNING customer_key, id, organization_id, number
        ), numbered AS (
            INSERT INTO invoice_numbers (organization_id, number, customer_key, invoice_id)
            SELECT organization_id, number, customer_key, id FROM issued
        )
        INSERT INTO invoice_lines (customer_key, invoice_id, organization_id, name, start_at, end_at, quantity,
            billing_type, subscription_id, record_id, plan, filters, base, adjustments, amount, trace, position)
        SELECT issued.customer_key, issued.id, issued.organization_id, line.name, line.start_at, line.end_at,
            line.quantity, line.billing_type, line.subscription_id, line.record_id, line.plan, line.filters, line.base,
            line.adjustments, line.amount, line.trace, line.ordinal - 1
        FROM issued CROSS JOIN unnest(" names: Vec<String> as Array<Text>; ", " starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " ends: Vec<OffsetDateTime> as Array<Timestamptz>; ", " quantities: Vec<Option<BigDecimal>> as Array<Nullable<Numeric>>; ",
            " billing_types: Vec<String> as Array<Text>; ", " subscriptions: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>; ",
            " records: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>; ", " plans: Vec<Option<Value>> as Array<Nullable<Jsonb>>; ",
            " filters: Vec<String> as Array<Text>; ", " bases: Vec<BigDecimal> as Array<Numeric>; ",
            " adjustments: Vec<Value> as Array<Jsonb>; ", " amounts: Vec<BigDecimal> as Array<Numeric>; ",
            " traces: Vec<Value> as Array<Jsonb>; ") WITH ORDINALITY
            AS line (name, start_at, end_at, quantity, billing_type, subscription_id, record_id, plan, filters, base,
                adjustments, amount, trace, ordinal)
        RETURNING position"
    }
}

impl Issue {
    fn new(organization: Uuid, invoice: &NewInvoice) -> Result<Self, Error> {
        let lines = &invoice.lines;
        Ok(Self {
            organization,
            customer: invoice.customer.uuid(),
            id: invoice.id.uuid(),
            prefix: number_prefix(invoice.issued_at),
            digits: SEQUENCE_DIGITS as i32,
            billed_to: to_json(&invoice.billed_to)?,
            seller: to_json(&invoice.seller)?,
            currency_code: invoice.currency.code.clone(),
            currency_name: invoice.currency.name.clone(),
            currency_symbol: invoice.currency.symbol.clone(),
            currency_decimals: i16::from(invoice.currency.decimals),
            issued_at: invoice.issued_at,
            due_at: invoice.due_at,
            payment_status: invoice.payment_status().as_str().to_owned(),
            line_count: stored_count(lines.len())?,
            amount: invoice.amount(),
            names: each(lines, |line| line.name.clone()),
            starts: each(lines, |line| line.period.start()),
            ends: each(lines, |line| line.period.end()),
            quantities: each(lines, |line| line.quantity.clone()),
            billing_types: each(lines, |line| line.billing_type.as_str().to_owned()),
            subscriptions: each(lines, |line| line.subscription.map(|id| id.uuid())),
            records: each(lines, |line| line.record.map(|id| id.uuid())),
            plans: lines.iter().map(|line| line.plan.as_ref().map(to_json).transpose()).collect::<Result<_, _>>()?,
            filters: each(lines, |line| line.filters.canonical()),
            bases: each(lines, |line| line.base.clone()),
            adjustments: each_json(lines, |line| &line.adjustments)?,
            amounts: each(lines, |line| line.amount.clone()),
            traces: each_json(lines, |line| &line.trace)?,
        })
    }
}

fn each<T>(lines: &[LineItem], of: impl Fn(&LineItem) -> T) -> Vec<T> {
    lines.iter().map(of).collect()
}

fn each_json<T: Serialize>(lines: &[LineItem], of: impl Fn(&LineItem) -> &T) -> Result<Vec<Value>, Error> {
    lines.iter().map(|line| to_json(of(line))).collect()
}

impl PgTransaction<'_> {
    /// Writes the invoices that were put off, in the order in which they were issued. After a failure nothing can be
    /// written any more, and nothing will be kept.
    pub(crate) fn issue_all(&mut self) -> Result<(), Error> {
        if self.has_failed() {
            return Ok(());
        }
        for invoice in std::mem::take(&mut self.unissued) {
            let issue = Issue::new(self.tenant(), &invoice)?;
            self.query(|pg| issue.load::<i64>(pg))?;
        }
        Ok(())
    }
}
