//! Invoices and their lines.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::currency::Currency;
use billing_domain::id::{CustomerKey, InvoiceId};
use billing_domain::invoice::{BillingType, Invoice, InvoiceSummary, LineItem, PaymentStatus};
use billing_domain::store::{InvoiceFilter, InvoiceRepo, Page, PageRequest};
use billing_domain::{Error, FieldCode, FieldError, Noun};
use diesel::dsl::{AsExprOf, min, sql};
use diesel::expression::{SqlLiteral, UncheckedBind};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Timestamptz, Uuid as SqlUuid};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::column::{choice, count, from_json, period, stored_count, to_json};
use crate::schema::{invoice_lines, invoice_numbers, invoices};
use crate::statement::{Prepared, ROWS_PER_INSERT, statement};
use crate::subscription::filters;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = invoices, check_for_backend(Pg))]
struct InvoiceRow {
    customer_key: Uuid,
    id: Uuid,
    organization_id: Uuid,
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
    line_count: i64,
    amount: BigDecimal,
}

impl InvoiceRow {
    fn new(organization_id: Uuid, invoice: &Invoice) -> Result<Self, Error> {
        Ok(Self {
            customer_key: invoice.customer.uuid(),
            id: invoice.id.uuid(),
            organization_id,
            number: invoice.number.clone(),
            billed_to: to_json(&invoice.billed_to)?,
            seller: to_json(&invoice.seller)?,
            currency_code: invoice.currency.code.clone(),
            currency_name: invoice.currency.name.clone(),
            currency_symbol: invoice.currency.symbol.clone(),
            currency_decimals: i16::from(invoice.currency.decimals),
            issued_at: invoice.issued_at,
            due_at: invoice.due_at,
            payment_status: invoice.payment_status.as_str().to_owned(),
            line_count: stored_count(invoice.lines.len())?,
            amount: invoice.amount.clone(),
        })
    }

    fn into_invoice(self, lines: Vec<LineItem>) -> Result<Invoice, Error> {
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
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = invoice_lines, check_for_backend(Pg))]
struct InvoiceLineRow {
    customer_key: Uuid,
    invoice_id: Uuid,
    position: i64,
    organization_id: Uuid,
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

impl InvoiceLineRow {
    fn new(invoice: &InvoiceRow, position: i64, line: &LineItem) -> Result<Self, Error> {
        Ok(Self {
            customer_key: invoice.customer_key,
            invoice_id: invoice.id,
            position,
            organization_id: invoice.organization_id,
            name: line.name.clone(),
            start_at: line.period.start(),
            end_at: line.period.end(),
            quantity: line.quantity.clone(),
            billing_type: line.billing_type.as_str().to_owned(),
            subscription_id: line.subscription.map(|id| id.uuid()),
            record_id: line.record.map(|id| id.uuid()),
            plan: line.plan.as_ref().map(to_json).transpose()?,
            filters: line.filters.canonical(),
            base: line.base.clone(),
            adjustments: to_json(&line.adjustments)?,
            amount: line.amount.clone(),
            trace: to_json(&line.trace)?,
        })
    }
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

statement! {
    /// Takes the next number of the organization's sequence; the next taker waits for this transaction to end.
    NextSequence -> BigInt {
        "INSERT INTO invoice_counters (organization_id, last_sequence) VALUES (" organization: Uuid as SqlUuid; ", 1)
        ON CONFLICT (organization_id) DO UPDATE SET last_sequence = invoice_counters.last_sequence + 1
        RETURNING last_sequence"
    }
}

/// A place in the list of invoices: microseconds since 1970 of the issue, and the id.
struct Cursor {
    issued_at: OffsetDateTime,
    id: Uuid,
}

impl Cursor {
    fn parse(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('_').and_then(|(micros, id)| {
            let nanos = micros.parse::<i64>().ok().map(|micros| i128::from(micros) * 1_000)?;
            let issued_at = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
            Some(Self { issued_at, id: Uuid::try_parse(id).ok()? })
        });
        parts.ok_or_else(|| FieldError::new("cursor", FieldCode::Invalid, "This is not a cursor.").into())
    }

    fn of(row: &InvoiceRow) -> String {
        format!("{}_{}", row.issued_at.unix_timestamp_nanos() / 1_000, row.id.simple())
    }
}

/// The lines of these invoices. As pairs: two separate lists would be looked up as every key with every id.
fn lines_of(rows: &[InvoiceRow]) -> LinesOf {
    sql::<Bool>("(customer_key, invoice_id) IN (SELECT * FROM unnest(")
        .bind::<Array<SqlUuid>, Vec<Uuid>>(rows.iter().map(|row| row.customer_key).collect())
        .sql(", ")
        .bind::<Array<SqlUuid>, Vec<Uuid>>(rows.iter().map(|row| row.id).collect())
        .sql("))")
}

type Ids = AsExprOf<Vec<Uuid>, Array<SqlUuid>>;
type LinesOf = SqlLiteral<Bool, UncheckedBind<SqlLiteral<Bool, UncheckedBind<SqlLiteral<Bool>, Ids>>, Ids>>;

/// The first and the last instant that the charges of an invoice are for.
type Charged = (Uuid, Option<OffsetDateTime>, Option<OffsetDateTime>);

impl PgTransaction<'_> {
    fn summarized(&mut self, rows: Vec<InvoiceRow>) -> Result<Vec<InvoiceSummary>, Error> {
        let last = sql::<Nullable<Timestamptz>>("max(greatest(end_at - INTERVAL '1 microsecond', start_at))");
        let query = invoice_lines::table
            .filter(invoice_lines::organization_id.eq(self.tenant()))
            .filter(lines_of(&rows))
            .filter(invoice_lines::subscription_id.is_not_null())
            .group_by(invoice_lines::invoice_id)
            .select((invoice_lines::invoice_id, min(invoice_lines::start_at), last));
        let charged: Vec<Charged> = self.query(|pg| query.load(pg))?;
        let charged: BTreeMap<Uuid, _> = charged.into_iter().map(|(id, first, last)| (id, (first, last))).collect();
        rows.into_iter()
            .map(|row| {
                let (first, last) = charged.get(&row.id).copied().unwrap_or_default();
                let invoice = row.into_invoice(Vec::new())?;
                let date = |instant: Option<OffsetDateTime>| instant.unwrap_or(invoice.issued_at).date();
                Ok(InvoiceSummary { start_date: date(first), end_date: date(last), ..invoice.summary() })
            })
            .collect()
    }

    fn with_lines(&mut self, rows: Vec<InvoiceRow>) -> Result<Vec<Invoice>, Error> {
        let query = invoice_lines::table
            .filter(invoice_lines::organization_id.eq(self.tenant()))
            .filter(lines_of(&rows))
            .order((invoice_lines::invoice_id, invoice_lines::position))
            .select(InvoiceLineRow::as_select());
        let mut lines: BTreeMap<Uuid, Vec<LineItem>> = BTreeMap::new();
        for line in self.query(|pg| query.load(pg))? {
            lines.entry(line.invoice_id).or_default().push(line.try_into()?);
        }
        rows.into_iter()
            .map(|row| {
                let own = lines.remove(&row.id).unwrap_or_default();
                row.into_invoice(own)
            })
            .collect()
    }
}

impl InvoiceRepo for PgTransaction<'_> {
    fn next_sequence(&mut self) -> Result<u64, Error> {
        let statement = NextSequence { organization: self.tenant() };
        count(self.query(|pg| statement.get_result::<i64>(pg))?)
    }

    fn insert(&mut self, invoice: &Invoice) -> Result<(), Error> {
        let row = InvoiceRow::new(self.tenant(), invoice)?;
        let lines = (0_i64..).zip(&invoice.lines).map(|(position, line)| InvoiceLineRow::new(&row, position, line));
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        let number = (
            invoice_numbers::organization_id.eq(row.organization_id),
            invoice_numbers::number.eq(&row.number),
            invoice_numbers::customer_key.eq(row.customer_key),
            invoice_numbers::invoice_id.eq(row.id),
        );
        self.query(|pg| {
            Prepared(diesel::insert_into(invoices::table).values(&row).returning(invoices::id)).load::<Uuid>(pg)?;
            for chunk in lines.chunks(ROWS_PER_INSERT) {
                let insert = diesel::insert_into(invoice_lines::table).values(chunk);
                Prepared(insert.returning(invoice_lines::position)).load::<i64>(pg)?;
            }
            diesel::insert_into(invoice_numbers::table).values(number).execute(pg)
        })?;
        Ok(())
    }

    fn get(&mut self, id: InvoiceId) -> Result<Invoice, Error> {
        let query = invoices::table
            .filter(invoices::organization_id.eq(self.tenant()).and(invoices::id.eq(id.uuid())))
            .select(InvoiceRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?.ok_or(Error::NotFound(Noun::Invoice))?;
        self.with_lines(vec![row])?.pop().ok_or(Error::NotFound(Noun::Invoice))
    }

    fn update(&mut self, invoice: &Invoice) -> Result<(), Error> {
        let own = invoices::table
            .find((invoice.customer.uuid(), invoice.id.uuid()))
            .filter(invoices::organization_id.eq(self.tenant()));
        let status = invoices::payment_status.eq(invoice.payment_status.as_str());
        match self.query(|pg| diesel::update(own).set(status).execute(pg))? {
            0 => Err(Error::NotFound(Noun::Invoice)),
            _ => Ok(()),
        }
    }

    fn find_by_number(&mut self, number: &str) -> Result<Option<InvoiceId>, Error> {
        let query = invoice_numbers::table.find((self.tenant(), number)).select(invoice_numbers::invoice_id);
        let id: Option<Uuid> = self.query(|pg| query.first(pg).optional())?;
        Ok(id.map(InvoiceId::from))
    }

    fn list_of(&mut self, customers: &[CustomerKey], statuses: &[PaymentStatus]) -> Result<Vec<InvoiceSummary>, Error> {
        let query = invoices::table
            .filter(invoices::organization_id.eq(self.tenant()))
            .filter(invoices::customer_key.eq_any(customers.iter().map(|key| key.uuid())))
            .filter(invoices::payment_status.eq_any(statuses.iter().map(|status| status.as_str())))
            .order((invoices::issued_at.desc(), invoices::id.desc()))
            .select(InvoiceRow::as_select());
        let rows = self.query(|pg| query.load(pg))?;
        self.summarized(rows)
    }

    fn list(&mut self, filter: &InvoiceFilter, page: &PageRequest) -> Result<Page<Invoice>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let mut query = invoices::table.filter(invoices::organization_id.eq(self.tenant())).into_boxed();
        if let Some(customer) = filter.customer {
            query = query.filter(invoices::customer_key.eq(CustomerKey::uuid(customer)));
        }
        if let Some(statuses) = &filter.statuses {
            query = query.filter(invoices::payment_status.eq_any(statuses.iter().map(|status| status.as_str())));
        }
        if let Some(after) = after {
            let same_instant = invoices::issued_at.eq(after.issued_at).and(invoices::id.lt(after.id));
            query = query.filter(invoices::issued_at.lt(after.issued_at).or(same_instant));
        }
        let query = query
            .order((invoices::issued_at.desc(), invoices::id.desc()))
            .limit(i64::from(page.limit) + 1)
            .select(InvoiceRow::as_select());
        let mut rows = self.query(|pg| query.load(pg))?;
        let limit = page.limit as usize;
        let is_last = rows.len() <= limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| !is_last).map(Cursor::of);
        Ok(Page { items: self.with_lines(rows)?, next })
    }
}
