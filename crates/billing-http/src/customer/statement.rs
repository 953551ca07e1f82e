//! A customer's statement: what came into the books, in order.

use std::collections::BTreeMap;

use actix_web::web;
use billing_domain::Error;
use billing_domain::customer::CustomerId;
use billing_domain::id::{CreditId, CreditNoteId, CustomerKey, InvoiceId, PaymentId};
use billing_domain::statement::{Statement, StatementBalance, StatementEntry, StatementKind};
use billing_domain::store::Transaction;
use billing_domain::workflow::{ReadStatement, find_currency, read_statement};
use time::OffsetDateTime;

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::Parameter;
use crate::error::ApiError;
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{CurrencyView, CustomerBriefView, Instant, Number, StartDate, UntilDate, view};

/// What the call takes.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::optional("from", "The first instant, a date is its midnight UTC; all there is when missing."),
    Parameter::optional("to", "The first instant behind it, a date ends with its day; all there is when missing."),
];

/// Of what time, out of a query string.
pub struct Span {
    from: Option<OffsetDateTime>,
    to: Option<OffsetDateTime>,
}

impl FromQuery for Span {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let (from, to) = (query.optional::<StartDate>("from"), query.optional::<UntilDate>("to"));
        let read = from
            .zip(to)
            .map(|(from, to)| Self { from: from.map(|StartDate(from)| from), to: to.map(|UntilDate(to)| to) });
        query.finish(read)
    }
}

view! {
    /// What came into a customer's books, in order.
    StatementView {
        /// Whose.
        customer: CustomerBriefView,
        /// What was due and left before and behind it, in each currency.
        balances: Vec<StatementBalanceView>,
        /// What came, oldest first.
        entries: Vec<StatementEntryView>,
    }
}

view! {
    /// What a customer owes and has in one currency, before the first entry and behind the last.
    StatementBalanceView {
        /// Which.
        currency: CurrencyView,
        /// What was due of invoices before.
        opening_due: Number,
        /// What was left of credits before.
        opening_credit: Number,
        /// What is due of invoices behind it.
        closing_due: Number,
        /// What is left of credits behind it.
        closing_credit: Number,
        /// Due less credit: what the customer owes; below 0 what they have.
        closing_balance: Number,
    }
}

view! {
    /// One thing that came into the books.
    StatementEntryView {
        /// When it came into the books, in the customer's own time.
        at: Instant,
        /// What.
        kind: StatementKind,
        /// The currency it is in.
        currency_code: String,
        /// The invoice; null for what happens to a credit by itself.
        invoice_id: Option<InvoiceId>,
        /// The invoice's number.
        invoice_number: Option<String>,
        /// The credit; of a payment the one that its overpayment became.
        credit_id: Option<CreditId>,
        /// The payment, the reversal, what returned, or what a credit note settled.
        payment_id: Option<PaymentId>,
        /// The credit note.
        credit_note_id: Option<CreditNoteId>,
        /// What it adds to what is due of invoices.
        due_change: Number,
        /// What it adds to what is left of credits.
        credit_change: Number,
        /// What is due of invoices in its currency behind it.
        due: Number,
        /// What is left of credits in its currency behind it.
        credit: Number,
        /// Due less credit.
        balance: Number,
    }
}

impl From<&StatementEntry> for StatementEntryView {
    fn from(entry: &StatementEntry) -> Self {
        Self {
            at: Instant(entry.at),
            kind: entry.kind,
            currency_code: entry.currency_code.clone(),
            invoice_id: entry.invoice.as_ref().map(|(id, _)| *id),
            invoice_number: entry.invoice.as_ref().map(|(_, number)| number.clone()),
            credit_id: entry.credit,
            payment_id: entry.payment,
            credit_note_id: entry.credit_note,
            due_change: (&entry.change.due).into(),
            credit_change: (&entry.change.credit).into(),
            due: (&entry.balance.due).into(),
            credit: (&entry.balance.credit).into(),
            balance: (&entry.balance.net()).into(),
        }
    }
}

impl StatementView {
    fn load(tx: &mut dyn Transaction, customer: CustomerKey, statement: &Statement) -> Result<Self, Error> {
        let Statement { opening, entries, closing } = statement;
        let none = StatementBalance::default();
        let of = |balances: &BTreeMap<String, StatementBalance>, code: &str| balances.get(code).cloned();
        let mut balances = Vec::new();
        for (code, closing) in closing {
            let opening = of(opening, code).unwrap_or_else(|| none.clone());
            balances.push(StatementBalanceView {
                currency: (&find_currency(tx, code)?).into(),
                opening_due: (&opening.due).into(),
                opening_credit: (&opening.credit).into(),
                closing_due: (&closing.due).into(),
                closing_credit: (&closing.credit).into(),
                closing_balance: (&closing.net()).into(),
            });
        }
        Ok(Self {
            customer: (&tx.customers().get(customer)?).into(),
            balances,
            entries: entries.iter().map(Into::into).collect(),
        })
    }
}

/// `GET /api/customers/{customer_id}/statement/`
pub async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(customer): PathParam<CustomerId>,
    ApiQuery(span): ApiQuery<Span>,
) -> Result<web::Json<StatementView>, ApiError> {
    let read = {
        let customer = customer.clone();
        move |tx: &mut dyn Transaction, _| {
            let key = CustomerKey::derive(tx.organization(), &customer);
            let statement = read_statement(tx, &ReadStatement { customer: key, from: span.from, to: span.to })?;
            StatementView::load(tx, key, &statement)
        }
    };
    Ok(web::Json(app.read_customer(&caller, &customer, read).await?))
}
