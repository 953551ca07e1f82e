//! Payments of invoices.

use bigdecimal::BigDecimal;
use billing_domain::id::{CustomerKey, InvoiceId};
use billing_domain::payment::{Payment, PaymentKind};
use billing_domain::{Error, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{checked, choice};
use crate::pg::schema::{invoices, payments};
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = payments, check_for_backend(Pg))]
struct PaymentRow {
    customer_key: Uuid,
    id: Uuid,
    organization_id: Uuid,
    invoice_id: Uuid,
    kind: String,
    reverses: Option<Uuid>,
    amount: BigDecimal,
    credited: BigDecimal,
    credit_id: Option<Uuid>,
    at: OffsetDateTime,
    method: Option<String>,
    reference: Option<String>,
    reason: Option<String>,
    noted_at: OffsetDateTime,
    credit_note_id: Option<Uuid>,
}

impl PaymentRow {
    fn new(organization_id: Uuid, customer: CustomerKey, payment: &Payment) -> Self {
        Self {
            customer_key: customer.uuid(),
            id: payment.id.uuid(),
            organization_id,
            invoice_id: payment.invoice.uuid(),
            kind: payment.kind.as_str().to_owned(),
            reverses: payment.reverses.map(|id| id.uuid()),
            amount: payment.amount.clone(),
            credited: payment.credited.clone(),
            credit_id: payment.credit.map(|id| id.uuid()),
            at: payment.at,
            method: payment.method.clone(),
            reference: payment.reference.clone(),
            reason: payment.reason.clone(),
            noted_at: payment.noted_at,
            credit_note_id: payment.credit_note.map(|id| id.uuid()),
        }
    }
}

impl TryFrom<PaymentRow> for Payment {
    type Error = Error;

    fn try_from(row: PaymentRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            invoice: row.invoice_id.into(),
            kind: choice(PaymentKind::ALL, PaymentKind::as_str, &row.kind)?,
            reverses: row.reverses.map(Into::into),
            amount: row.amount,
            credited: row.credited,
            credit: row.credit_id.map(Into::into),
            at: row.at,
            method: row.method,
            reference: row.reference,
            reason: row.reason,
            noted_at: row.noted_at,
            credit_note: row.credit_note_id.map(Into::into),
        })
    }
}

impl PgTransaction<'_> {
    /// Appends to the ledger of an invoice; a trigger moves what is paid of it.
    pub(crate) fn insert_payment(&mut self, customer: CustomerKey, payment: &Payment) -> Result<(), Error> {
        let invoice = invoices::table
            .find((customer.uuid(), payment.invoice.uuid()))
            .filter(invoices::organization_id.eq(self.tenant()))
            .select(invoices::id);
        let invoice: Option<Uuid> = self.query(|pg| invoice.first(pg).optional())?;
        invoice.ok_or(Error::NotFound(Noun::Invoice))?;
        let row = PaymentRow::new(self.tenant(), customer, payment);
        self.query(|pg| diesel::insert_into(payments::table).values(&row).execute(pg))?;
        Ok(())
    }

    /// Payments and reversals of one of the customer's invoices, or of all, in the order in which they were noted.
    pub(crate) fn load_payments(
        &mut self,
        customer: CustomerKey,
        invoice: Option<InvoiceId>,
    ) -> Result<Vec<Payment>, Error> {
        let is_ours = checked(payments::organization_id.eq(self.tenant()));
        let mut query = payments::table.filter(is_ours).filter(payments::customer_key.eq(customer.uuid())).into_boxed();
        if let Some(invoice) = invoice {
            query = query.filter(payments::invoice_id.eq(invoice.uuid()));
        }
        let query = query.order(payments::position).select(PaymentRow::as_select());
        let rows: Vec<PaymentRow> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(Payment::try_from).collect()
    }
}
