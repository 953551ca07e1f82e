//! Issuing: invoices, their numbers and their lines are written by one statement, the last of its transaction.
//!
//! The counter's row is locked from the number on until the commit is on the disk, and everybody else who issues in the
//! organization waits for it. So what a transaction issues is put off to its very end.

use std::collections::HashMap;

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

use crate::pg::column::{stored_count, to_json};
use crate::pg::sql_file::sql_file;
use crate::reservation::{Unnumbered, reserve_invoice_numbers, take_invoice_numbers};
use crate::transaction::PgTransaction;

/// Declares the two statements that issue. They differ in where the numbers come from, and in nothing that is written.
macro_rules! issue_statements {
    (
        invoices { $($of_invoice:ident: $invoice_rust:ty as $invoice_sql:ty,)* }
        lines { $($of_line:ident: $line_rust:ty as $line_sql:ty,)* }
    ) => {
        sql_file! {
            /// Takes the next numbers of the organization's sequence and writes the invoices under them, in their order. A line is
            /// inserted behind its invoice, because it needs what the insertion of that returns.
            Issue -> (SqlUuid, Text) = "issue.sql" {
                customers: Vec<Uuid> as Array<SqlUuid>,
                ids: Vec<Uuid> as Array<SqlUuid>,
                prefixes: Vec<String> as Array<Text>,
                $($of_invoice: $invoice_rust as $invoice_sql,)*
                organization: Uuid as SqlUuid,
                digits: i32 as Integer,
                $($of_line: $line_rust as $line_sql,)*
            }
        }

        sql_file! {
            /// [`Issue`] under numbers that were taken before.
            IssueNumbered -> (SqlUuid, Text) = "issue_numbered.sql" {
                customers: Vec<Uuid> as Array<SqlUuid>,
                ids: Vec<Uuid> as Array<SqlUuid>,
                numbers: Vec<String> as Array<Text>,
                $($of_invoice: $invoice_rust as $invoice_sql,)*
                organization: Uuid as SqlUuid,
                $($of_line: $line_rust as $line_sql,)*
            }
        }

        impl IssueNumbered {
            fn of(issue: Issue, numbers: Vec<String>) -> Self {
                let Issue { customers, ids, organization, $($of_invoice,)* $($of_line,)* .. } = issue;
                Self { customers, ids, numbers, organization, $($of_invoice,)* $($of_line,)* }
            }
        }
    };
}

issue_statements! {
    invoices {
        billed_to: Vec<Value> as Array<Jsonb>,
        sellers: Vec<Value> as Array<Jsonb>,
        currency_codes: Vec<String> as Array<Text>,
        currency_names: Vec<String> as Array<Text>,
        currency_symbols: Vec<String> as Array<Text>,
        currency_decimals: Vec<i16> as Array<SmallInt>,
        issued: Vec<OffsetDateTime> as Array<Timestamptz>,
        due: Vec<Option<OffsetDateTime>> as Array<Nullable<Timestamptz>>,
        payment_statuses: Vec<String> as Array<Text>,
        line_counts: Vec<i64> as Array<BigInt>,
        amounts: Vec<BigDecimal> as Array<Numeric>,
        replaced: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>,
    }
    lines {
        line_invoices: Vec<Uuid> as Array<SqlUuid>,
        positions: Vec<i64> as Array<BigInt>,
        names: Vec<String> as Array<Text>,
        starts: Vec<OffsetDateTime> as Array<Timestamptz>,
        ends: Vec<OffsetDateTime> as Array<Timestamptz>,
        quantities: Vec<Option<BigDecimal>> as Array<Nullable<Numeric>>,
        billing_types: Vec<String> as Array<Text>,
        subscriptions: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>,
        records: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>,
        plans: Vec<Option<Value>> as Array<Nullable<Jsonb>>,
        filters: Vec<String> as Array<Text>,
        bases: Vec<BigDecimal> as Array<Numeric>,
        adjustments: Vec<Value> as Array<Jsonb>,
        line_amounts: Vec<BigDecimal> as Array<Numeric>,
        traces: Vec<Value> as Array<Jsonb>,
    }
}

impl Issue {
    fn new(organization: Uuid, invoices: &[NewInvoice]) -> Result<Self, Error> {
        let placed = |invoice: &NewInvoice| (0_i64..).take(invoice.lines.len()).collect::<Vec<_>>();
        let lines: Vec<&LineItem> = invoices.iter().flat_map(|invoice| &invoice.lines).collect();
        Ok(Self {
            organization,
            digits: SEQUENCE_DIGITS as i32,
            customers: each(invoices, |invoice| invoice.customer.uuid()),
            ids: each(invoices, |invoice| invoice.id.uuid()),
            prefixes: each(invoices, |invoice| number_prefix(invoice.issued_at)),
            billed_to: each_json(invoices, |invoice| &invoice.billed_to)?,
            sellers: each_json(invoices, |invoice| &invoice.seller)?,
            currency_codes: each(invoices, |invoice| invoice.currency.code.clone()),
            currency_names: each(invoices, |invoice| invoice.currency.name.clone()),
            currency_symbols: each(invoices, |invoice| invoice.currency.symbol.clone()),
            currency_decimals: each(invoices, |invoice| i16::from(invoice.currency.decimals)),
            issued: each(invoices, |invoice| invoice.issued_at),
            due: each(invoices, |invoice| invoice.due_at),
            payment_statuses: each(invoices, |invoice| invoice.payment_status().as_str().to_owned()),
            line_counts: invoices.iter().map(|invoice| stored_count(invoice.lines.len())).collect::<Result<_, _>>()?,
            amounts: each(invoices, NewInvoice::amount),
            line_invoices: invoices
                .iter()
                .flat_map(|invoice| invoice.lines.iter().map(|_| invoice.id.uuid()))
                .collect(),
            positions: invoices.iter().flat_map(placed).collect(),
            names: each(&lines, |line| line.name.clone()),
            starts: each(&lines, |line| line.period.start()),
            ends: each(&lines, |line| line.period.end()),
            quantities: each(&lines, |line| line.quantity.clone()),
            billing_types: each(&lines, |line| line.billing_type.as_str().to_owned()),
            subscriptions: each(&lines, |line| line.subscription.map(|id| id.uuid())),
            records: each(&lines, |line| line.record.map(|id| id.uuid())),
            plans: lines.iter().map(|line| line.plan.as_ref().map(to_json).transpose()).collect::<Result<_, _>>()?,
            filters: each(&lines, |line| line.filters.canonical()),
            bases: each(&lines, |line| line.base.clone()),
            adjustments: each_json(&lines, |line| &line.adjustments)?,
            line_amounts: each(&lines, |line| line.amount.clone()),
            traces: each_json(&lines, |line| &line.trace)?,
            replaced: each(invoices, |invoice| invoice.replaces.map(|id| id.uuid())),
        })
    }
}

fn each<O, T>(all: &[O], of: impl Fn(&O) -> T) -> Vec<T> {
    all.iter().map(of).collect()
}

fn each_json<O, T: Serialize>(all: &[O], of: impl Fn(&O) -> &T) -> Result<Vec<Value>, Error> {
    all.iter().map(|invoice| to_json(of(invoice))).collect()
}

impl PgTransaction<'_> {
    /// Writes the invoices that were put off, in the order in which they were issued. After a failure nothing can be
    /// written any more, and nothing will be kept.
    pub(crate) fn issue_all(&mut self) -> Result<(), Error> {
        if self.has_failed() {
            return Ok(());
        }
        let invoices = std::mem::take(&mut self.unissued);
        if invoices.is_empty() {
            return Ok(());
        }
        let issue = Issue::new(self.tenant(), &invoices)?;
        let issued: Vec<(Uuid, String)> = match self.shared.lanes.have_nodes() {
            false => self.query(|pg| issue.load(pg))?,
            true => self.issue_numbered(issue)?,
        };
        let mut numbers: HashMap<Uuid, String> = issued.into_iter().collect();
        for invoice in invoices {
            let money = (invoice.currency.code.clone(), invoice.amount());
            let number = numbers.remove(&invoice.id.uuid()).unwrap_or_default();
            self.deeds.issued((invoice.customer, invoice.id), number, money);
        }
        Ok(())
    }

    /// Takes numbers first, those before all others that have come back, and writes the invoices under them.
    fn issue_numbered(&mut self, issue: Issue) -> Result<Vec<(Uuid, String)>, Error> {
        let invoices: Vec<Unnumbered> = issue
            .customers
            .iter()
            .zip(&issue.ids)
            .zip(&issue.prefixes)
            .map(|((customer, id), prefix)| (*customer, *id, prefix.clone()))
            .collect();
        let tenant = self.tenant();
        let numbers = match self.away() {
            Some(lane) => self.reserve(lane, |home, holder| reserve_invoice_numbers(home, holder, &invoices))?,
            None => self.query(|pg| take_invoice_numbers(pg, tenant, &invoices))?,
        };
        let issue = IssueNumbered::of(issue, numbers);
        self.query(|pg| issue.load(pg))
    }
}
