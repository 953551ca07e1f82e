//! Invoices and their lines.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bigdecimal::BigDecimal;
use billing_domain::credit_note::{CreditNote, CreditNoteBrief, NewCreditNote};
use billing_domain::currency::Currency;
use billing_domain::id::{CreditNoteId, CustomerKey, InvoiceId, LineId, OneOffLineId};
use billing_domain::invoice::{BillingType, Invoice, InvoiceSummary, LineItem, NewInvoice, PaymentStatus};
use billing_domain::payment::Payment;
use billing_domain::store::{CreditNoteFilter, InvoiceFilter, InvoiceRepo, Page, PageRequest};
use billing_domain::{Error, Noun};
use diesel::dsl::{sql, sum};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Record, Text, Timestamptz, Uuid as SqlUuid};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{checked, choice, count, from_json, period};
use crate::pg::cursor::Cursor;
use crate::pg::nested::{Nested, NestedSql, columns_of};
use crate::pg::schema::{invoice_lines, invoice_numbers, invoices};
use crate::pg::statement::{fixed, statement};
use crate::repo::customer::page_of;
use crate::repo::subscription::filters;
use crate::transaction::{PastDue, PgTransaction};

mod credit_notes;
mod issue;
mod newest;
mod one_off_lines;

use credit_notes::{BriefRow, OF_INVOICE};
use newest::{among_newest, among_newest_of};

#[derive(Queryable, Selectable)]
#[diesel(table_name = invoices, check_for_backend(Pg))]
struct InvoiceRow {
    customer_key: Uuid,
    id: Uuid,
    number: String,
    billed_to: Value,
    seller: Value,
    currency_code: String,
    currency_name: String,
    currency_symbol: String,
    currency_decimals: i16,
    issued_at: OffsetDateTime,
    due_at: Option<OffsetDateTime>,
    payment_status: String,
    amount: BigDecimal,
    amount_paid: BigDecimal,
    voided_at: Option<OffsetDateTime>,
    amount_past_due: Option<BigDecimal>,
    replaces: Option<Uuid>,
    replaced_by: Option<Uuid>,
}

impl InvoiceRow {
    fn into_invoice(self, lines: Vec<LineItem>, credit_notes: Vec<CreditNoteBrief>) -> Result<Invoice, Error> {
        Ok(Invoice {
            id: self.id.into(),
            number: self.number,
            customer: self.customer_key.into(),
            billed_to: from_json(self.billed_to)?,
            seller: from_json(self.seller)?,
            currency: Currency {
                code: self.currency_code,
                name: self.currency_name,
                symbol: self.currency_symbol,
                decimals: count(self.currency_decimals)?,
            },
            issued_at: self.issued_at,
            due_at: self.due_at,
            payment_status: choice(PaymentStatus::ALL, PaymentStatus::as_str, &self.payment_status)?,
            lines,
            amount: self.amount,
            amount_paid: self.amount_paid,
            voided_at: self.voided_at,
            amount_past_due: self.amount_past_due,
            credit_notes,
            replaces: self.replaces.map(Into::into),
            replaced_by: self.replaced_by.map(Into::into),
        })
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = invoice_lines, check_for_backend(Pg))]
struct InvoiceLineRow {
    name: String,
    start_at: OffsetDateTime,
    end_at: OffsetDateTime,
    quantity: Option<BigDecimal>,
    billing_type: String,
    subscription_id: Option<Uuid>,
    record_id: Option<Uuid>,
    plan: Option<Value>,
    filters: String,
    base: BigDecimal,
    adjustments: Value,
    amount: BigDecimal,
    trace: Value,
}

impl TryFrom<InvoiceLineRow> for LineItem {
    type Error = Error;

    fn try_from(row: InvoiceLineRow) -> Result<Self, Error> {
        Ok(Self {
            name: row.name,
            period: period(row.start_at, row.end_at)?,
            quantity: row.quantity,
            billing_type: choice(BillingType::ALL, BillingType::as_str, &row.billing_type)?,
            subscription: row.subscription_id.map(Into::into),
            record: row.record_id.map(Into::into),
            plan: row.plan.map(from_json).transpose()?,
            filters: filters(&row.filters)?,
            base: row.base,
            adjustments: from_json(row.adjustments)?,
            amount: row.amount,
            trace: from_json(row.trace)?,
        })
    }
}

/// An invoice's place in the list of invoices: the later issued comes first.
pub(crate) fn cursor_of(invoice: &Invoice) -> Cursor {
    Cursor::new(invoice.issued_at, invoice.id.uuid())
}

/// The lines of an invoice, in the order of their positions.
static LINES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "ARRAY(
            SELECT ROW({}) FROM invoice_lines
            WHERE invoice_lines.customer_key = invoices.customer_key AND invoice_lines.invoice_id = invoices.id
                AND (invoice_lines.organization_id = invoices.organization_id) IS TRUE
            ORDER BY invoice_lines.position
        )",
        columns_of::<InvoiceLineRow>()
    )
});

/// The first and the last instant that the charges of an invoice are for.
const CHARGED: &str = "(
    SELECT ROW(min(line.start_at), max(greatest(line.end_at - INTERVAL '1 microsecond', line.start_at)))
    FROM invoice_lines line
    WHERE line.customer_key = invoices.customer_key AND line.invoice_id = invoices.id
        AND (line.organization_id = invoices.organization_id) IS TRUE AND line.subscription_id IS NOT NULL
)";

/// What [`CHARGED`] is in SQL.
type ChargedSql = Record<(Nullable<Timestamptz>, Nullable<Timestamptz>)>;
type Charged = (Option<OffsetDateTime>, Option<OffsetDateTime>);

statement! {
    /// The customer's invoices with a line for usage of a time that one of some instants is in.
    ListWithUsageAt -> SqlUuid {
        "SELECT DISTINCT line.invoice_id
        FROM invoice_lines line
        WHERE line.customer_key = " customer: Uuid as SqlUuid; " AND line.organization_id = " organization: Uuid as SqlUuid; "
            AND line.trace ->> 'kind' IN ('usage_charge', 'usage_handed_on')
            AND EXISTS (
                SELECT FROM unnest(" times: Vec<OffsetDateTime> as Array<Timestamptz>; ") AS wanted (at)
                WHERE line.start_at <= wanted.at AND wanted.at < line.end_at
            )"
    }
}

/// An invoice with its [`LINES`] and its credit notes.
type WithLines = (InvoiceRow, Nested<InvoiceLineRow>, Nested<BriefRow>);

fn with_lines((row, Nested(lines), Nested(notes)): WithLines) -> Result<Invoice, Error> {
    let lines = lines.into_iter().map(LineItem::try_from).collect::<Result<_, _>>()?;
    row.into_invoice(lines, notes.into_iter().map(CreditNoteBrief::try_from).collect::<Result<_, _>>()?)
}

fn summarized((row, (first, last)): (InvoiceRow, Charged)) -> Result<InvoiceSummary, Error> {
    let invoice = row.into_invoice(Vec::new(), Vec::new())?;
    let date = |instant: Option<OffsetDateTime>| instant.unwrap_or(invoice.issued_at).date();
    Ok(InvoiceSummary { start_date: date(first), end_date: date(last), ..invoice.summary() })
}

impl PgTransaction<'_> {
    /// The organization's invoices behind a place, newest first, one more than a page of so many has.
    pub(crate) fn list_invoices(
        &mut self,
        filter: &InvoiceFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Vec<Invoice>, Error> {
        let is_ours = invoices::organization_id.eq(self.tenant());
        let mut query = match (filter.customers.as_deref(), &filter.statuses) {
            (Some([customer]), _) => {
                invoices::table.filter(checked(is_ours)).filter(invoices::customer_key.eq(customer.uuid())).into_boxed()
            }
            (Some(customers), statuses) => {
                let is_among = among_newest_of(self.tenant(), (customers, statuses.as_deref()), after, limit);
                invoices::table.filter(checked(is_ours)).filter(is_among).into_boxed()
            }
            (None, None) => invoices::table.filter(is_ours).into_boxed(),
            (None, Some(statuses)) => {
                let is_among = among_newest(self.tenant(), statuses, after, limit);
                invoices::table.filter(checked(is_ours)).filter(is_among).into_boxed()
            }
        };
        if let Some(statuses) = &filter.statuses {
            query = query.filter(invoices::payment_status.eq_any(statuses.iter().map(|status| status.as_str())));
        }
        if let Some(after) = after {
            query = query.filter(after.behind("invoices.issued_at, invoices.id"));
        }
        let query =
            query.order((invoices::issued_at.desc(), invoices::id.desc())).limit(i64::from(limit) + 1).select((
                InvoiceRow::as_select(),
                fixed::<NestedSql<InvoiceLineRow>>(&LINES),
                fixed::<NestedSql<BriefRow>>(&OF_INVOICE),
            ));
        let rows: Vec<WithLines> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(with_lines).collect()
    }
}

/// When an unpaid invoice falls due: on its date, or when the reversal of a payment or the void of a credit note made it unpaid again
/// after that.
pub(crate) const FALLS_DUE_AT: &str = "greatest(invoices.due_at, (
    SELECT max(entry.noted_at) FROM (
        SELECT payment.noted_at, settled.by, sum(settled.by) OVER (ORDER BY payment.position) AS behind
        FROM payments payment
        CROSS JOIN LATERAL (
            SELECT CASE WHEN payment.kind IN ('payment', 'credit_note') THEN payment.amount - payment.credited
                WHEN payment.kind IN ('reversal', 'credit_note_voided') THEN payment.credited - payment.amount
                ELSE payment.credited END AS by
        ) settled
        WHERE payment.customer_key = invoices.customer_key AND payment.invoice_id = invoices.id
    ) entry
    WHERE entry.by < 0 AND entry.behind - entry.by = invoices.amount))";

statement! {
    /// Notes of unpaid invoices that they fell due.
    NotePastDue -> SqlUuid {
        "UPDATE invoices SET past_due_at = due.at, amount_past_due = amount - amount_paid
        FROM unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " ids: Vec<Uuid> as Array<SqlUuid>; ",
            " ats: Vec<OffsetDateTime> as Array<Timestamptz>; ") AS due (customer_key, id, at)
        WHERE invoices.customer_key = due.customer_key AND invoices.id = due.id
            AND invoices.organization_id = " organization: Uuid as SqlUuid; "
        RETURNING invoices.id"
    }
}

impl PgTransaction<'_> {
    /// The unpaid invoices of these customers that have a due date and were not noted as past due.
    pub(crate) fn load_falling_due(
        &mut self,
        customers: &[Uuid],
    ) -> Result<Vec<(CustomerKey, InvoiceId, OffsetDateTime)>, Error> {
        let query = invoices::table
            .filter(checked(invoices::organization_id.eq(self.tenant())).and(invoices::customer_key.eq_any(customers)))
            .filter(invoices::payment_status.eq("unpaid").and(invoices::past_due_at.is_null()))
            .filter(invoices::due_at.is_not_null())
            .select((invoices::customer_key, invoices::id, sql::<Timestamptz>(FALLS_DUE_AT)));
        let rows: Vec<(Uuid, Uuid, OffsetDateTime)> = self.query(|pg| query.load(pg))?;
        Ok(rows.into_iter().map(|(customer, id, due_at)| (customer.into(), id.into(), due_at)).collect())
    }

    /// Notes what fell due and was put off, after the invoices themselves.
    pub(crate) fn write_past_due(&mut self) -> Result<(), Error> {
        if self.past_due.is_empty() || self.has_failed() {
            return Ok(());
        }
        let all = std::mem::take(&mut self.past_due);
        let note = NotePastDue {
            customers: all.iter().map(|due| due.customer.uuid()).collect(),
            ids: all.iter().map(|due| due.invoice.uuid()).collect(),
            ats: all.iter().map(|due| due.at).collect(),
            organization: self.tenant(),
        };
        match self.query(|pg| note.load::<Uuid>(pg))?.len() == all.len() {
            true => Ok(()),
            false => Err(Error::NotFound(Noun::Invoice)),
        }
    }
}

impl InvoiceRepo for PgTransaction<'_> {
    fn issue(&mut self, invoice: NewInvoice) -> Result<(), Error> {
        self.unissued.push(invoice);
        Ok(())
    }

    fn get(&mut self, id: InvoiceId) -> Result<Invoice, Error> {
        self.write_deferred()?;
        let query = invoices::table
            .filter(invoices::organization_id.eq(self.tenant()).and(invoices::id.eq(id.uuid())))
            .select((
                InvoiceRow::as_select(),
                fixed::<NestedSql<InvoiceLineRow>>(&LINES),
                fixed::<NestedSql<BriefRow>>(&OF_INVOICE),
            ));
        let found: Option<WithLines> = self.query(|pg| query.first(pg).optional())?;
        with_lines(found.ok_or(Error::NotFound(Noun::Invoice))?)
    }

    fn update(&mut self, invoice: &Invoice) -> Result<(), Error> {
        self.write_deferred()?;
        let target = invoices::table
            .find((invoice.customer.uuid(), invoice.id.uuid()))
            .filter(invoices::organization_id.eq(self.tenant()));
        let status = invoices::payment_status.eq(invoice.payment_status.as_str());
        let replaced_by = invoices::replaced_by.eq(invoice.replaced_by.map(InvoiceId::uuid));
        let change = (status, invoices::voided_at.eq(invoice.voided_at), replaced_by);
        match self.query(|pg| diesel::update(target).set(change).execute(pg))? {
            0 => Err(Error::NotFound(Noun::Invoice)),
            _ => Ok(()),
        }
    }

    fn list_falling_due(&mut self, customer: CustomerKey) -> Result<Vec<(InvoiceId, OffsetDateTime)>, Error> {
        self.write_deferred()?;
        let found = self.load_falling_due(&[customer.uuid()])?;
        Ok(found.into_iter().map(|(_, id, due_at)| (id, due_at)).collect())
    }

    fn note_past_due(&mut self, customer: CustomerKey, id: InvoiceId, at: OffsetDateTime) -> Result<(), Error> {
        self.past_due.push(PastDue { customer, invoice: id, at });
        Ok(())
    }

    fn list_by_id(&mut self, ids: &[(CustomerKey, InvoiceId)]) -> Result<Vec<Invoice>, Error> {
        self.write_deferred()?;
        let (customers, ids): (Vec<Uuid>, Vec<Uuid>) =
            ids.iter().map(|(customer, id)| (customer.uuid(), id.uuid())).unzip();
        let is_wanted = sql::<Bool>("(invoices.customer_key, invoices.id) IN (SELECT * FROM unnest(")
            .bind::<Array<SqlUuid>, _>(customers)
            .sql(", ")
            .bind::<Array<SqlUuid>, _>(ids)
            .sql("))");
        let query =
            invoices::table.filter(checked(invoices::organization_id.eq(self.tenant()))).filter(is_wanted).select((
                InvoiceRow::as_select(),
                fixed::<NestedSql<InvoiceLineRow>>(&LINES),
                fixed::<NestedSql<BriefRow>>(&OF_INVOICE),
            ));
        let rows: Vec<WithLines> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(with_lines).collect()
    }

    fn add_payment(&mut self, customer: CustomerKey, payment: &Payment) -> Result<(), Error> {
        self.write_deferred()?;
        self.insert_payment(customer, payment)
    }

    fn list_payments(&mut self, customer: CustomerKey, invoice: Option<InvoiceId>) -> Result<Vec<Payment>, Error> {
        self.write_deferred()?;
        self.load_payments(customer, invoice)
    }

    fn add_credit_note(&mut self, note: NewCreditNote) -> Result<CreditNote, Error> {
        self.write_deferred()?;
        self.insert_credit_note(note)
    }

    fn void_credit_note(&mut self, customer: CustomerKey, id: CreditNoteId, at: OffsetDateTime) -> Result<(), Error> {
        self.write_deferred()?;
        self.mark_credit_note_voided(customer, id, at)
    }

    fn get_credit_note(&mut self, id: CreditNoteId) -> Result<CreditNote, Error> {
        self.write_deferred()?;
        self.load_credit_note(id)
    }

    fn list_credit_notes(&mut self, filter: &CreditNoteFilter, page: &PageRequest) -> Result<Page<CreditNote>, Error> {
        self.write_deferred()?;
        self.page_of_credit_notes(filter, page)
    }

    fn list_with_usage_at(&mut self, customer: CustomerKey, times: &[OffsetDateTime]) -> Result<Vec<InvoiceId>, Error> {
        let query = ListWithUsageAt { customer: customer.uuid(), organization: self.tenant(), times: times.to_vec() };
        let ids: Vec<Uuid> = self.query(|pg| query.load(pg))?;
        Ok(ids.into_iter().map(InvoiceId::from).collect())
    }

    fn find_one_off_line(&mut self, customer: CustomerKey, id: OneOffLineId) -> Result<Option<LineId>, Error> {
        self.write_deferred()?;
        self.line_of_one_off(customer, id)
    }

    fn list_one_off_lines(&mut self, customer: CustomerKey, page: &PageRequest) -> Result<Page<LineId>, Error> {
        self.write_deferred()?;
        self.page_of_one_off_lines(customer, page)
    }

    fn find_by_number(&mut self, number: &str) -> Result<Option<InvoiceId>, Error> {
        self.write_deferred()?;
        let query = invoice_numbers::table.find((self.tenant(), number)).select(invoice_numbers::invoice_id);
        let id: Option<Uuid> = match self.away() {
            Some(_) => self.ask_home(|pg| query.first(pg).optional())?,
            None => self.query(|pg| query.first(pg).optional())?,
        };
        Ok(id.map(InvoiceId::from))
    }

    fn list_of(
        &mut self,
        customers: &[CustomerKey],
        statuses: &[PaymentStatus],
        each: u32,
    ) -> Result<Vec<InvoiceSummary>, Error> {
        self.write_deferred()?;
        let newest = sql::<Bool>("id IN (SELECT newest.id FROM unnest(")
            .bind::<Array<SqlUuid>, Vec<Uuid>>(customers.iter().map(|key| key.uuid()).collect())
            .sql(") AS asked (customer_key) CROSS JOIN LATERAL (SELECT id FROM invoices invoice WHERE (invoice.organization_id = ")
            .bind::<SqlUuid, Uuid>(self.tenant())
            .sql(") IS TRUE AND invoice.customer_key = asked.customer_key AND invoice.payment_status = ANY (")
            .bind::<Array<Text>, Vec<&str>>(statuses.iter().map(|status| status.as_str()).collect())
            .sql(") ORDER BY invoice.issued_at DESC, invoice.id DESC LIMIT ")
            .bind::<BigInt, i64>(i64::from(each))
            .sql(") newest)");
        let query = invoices::table
            .filter(invoices::organization_id.eq(self.tenant()))
            .filter(newest)
            .order((invoices::issued_at.desc(), invoices::id.desc()))
            .select((InvoiceRow::as_select(), fixed::<ChargedSql>(CHARGED)));
        let rows: Vec<(InvoiceRow, Charged)> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(summarized).collect()
    }

    fn due_of(
        &mut self,
        customers: &[CustomerKey],
    ) -> Result<BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>>, Error> {
        self.write_deferred()?;
        let query = invoices::table
            .filter(checked(invoices::organization_id.eq(self.tenant())))
            .filter(invoices::customer_key.eq_any(customers.iter().map(|key| key.uuid())))
            .filter(invoices::payment_status.eq(PaymentStatus::Unpaid.as_str()))
            .group_by((invoices::customer_key, invoices::currency_code))
            .select((invoices::customer_key, invoices::currency_code, sum(invoices::amount - invoices::amount_paid)));
        let rows: Vec<(Uuid, String, Option<BigDecimal>)> = self.query(|pg| query.load(pg))?;
        let mut due: BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>> = BTreeMap::new();
        for (customer, code, amount) in rows {
            due.entry(customer.into()).or_default().extend(amount.map(|amount| (code, amount)));
        }
        Ok(due)
    }

    fn list(&mut self, filter: &InvoiceFilter, page: &PageRequest) -> Result<Page<Invoice>, Error> {
        self.write_deferred()?;
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let found = self.list_invoices(filter, after, page.limit)?.into_iter();
        Ok(page_of(found.map(|invoice| (cursor_of(&invoice).to_text(), invoice)).collect(), page.limit))
    }
}
