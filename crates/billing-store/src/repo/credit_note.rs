//! Credit notes and their lines.

use std::sync::LazyLock;

use bigdecimal::BigDecimal;
use billing_domain::credit_note::{CreditNote, CreditNoteLine, LinePart, NewCreditNote, Settlement};
use billing_domain::id::{CreditNoteId, CustomerKey, InvoiceId, LineId};
use billing_domain::store::{CreditNoteFilter, Page, PageRequest};
use billing_domain::{Error, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{checked, choice, count, stored_count, unreadable};
use crate::pg::cursor::Cursor;
use crate::pg::nested::{Nested, NestedSql, columns_of};
use crate::pg::schema::{credit_note_lines, credit_notes, invoice_counters, invoices};
use crate::pg::statement::fixed;
use crate::repo::customer::page_of;
use crate::reservation::{Kind, reserve_credit_note_number, take_sequence};
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = credit_notes, check_for_backend(Pg))]
struct CreditNoteRow {
    customer_key: Uuid,
    id: Uuid,
    organization_id: Uuid,
    number: String,
    invoice_id: Uuid,
    currency_code: String,
    issued_at: OffsetDateTime,
    amount: BigDecimal,
    credited: BigDecimal,
    settlement: String,
    credit_id: Option<Uuid>,
    reason: String,
    reference: Option<String>,
    voided_at: Option<OffsetDateTime>,
    is_correction: bool,
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = credit_note_lines, check_for_backend(Pg))]
struct CreditNoteLineRow {
    customer_key: Uuid,
    credit_note_id: Uuid,
    position: i64,
    organization_id: Uuid,
    invoice_id: Uuid,
    amount: BigDecimal,
    base: BigDecimal,
    tax: BigDecimal,
}

impl CreditNoteRow {
    fn new(organization_id: Uuid, note: &CreditNote) -> Self {
        Self {
            customer_key: note.customer.uuid(),
            id: note.id.uuid(),
            organization_id,
            number: note.number.clone(),
            invoice_id: note.invoice.uuid(),
            currency_code: note.currency_code.clone(),
            issued_at: note.issued_at,
            amount: note.amount.clone(),
            credited: note.credited.clone(),
            settlement: note.settlement.as_str().to_owned(),
            credit_id: note.credit.map(|id| id.uuid()),
            reason: note.reason.clone(),
            reference: note.reference.clone(),
            voided_at: note.voided_at,
            is_correction: note.is_correction,
        }
    }

    fn into_note(self, lines: Vec<CreditNoteLine>) -> Result<CreditNote, Error> {
        Ok(CreditNote {
            id: self.id.into(),
            number: self.number,
            customer: self.customer_key.into(),
            invoice: self.invoice_id.into(),
            currency_code: self.currency_code,
            issued_at: self.issued_at,
            amount: self.amount,
            credited: self.credited,
            settlement: choice(Settlement::ALL, Settlement::as_str, &self.settlement)?,
            credit: self.credit_id.map(Into::into),
            reason: self.reason,
            reference: self.reference,
            lines,
            is_correction: self.is_correction,
            voided_at: self.voided_at,
        })
    }
}

impl CreditNoteLineRow {
    fn new(organization_id: Uuid, note: &CreditNote, line: &CreditNoteLine) -> Result<Self, Error> {
        Ok(Self {
            customer_key: note.customer.uuid(),
            credit_note_id: note.id.uuid(),
            position: stored_count(line.line.place() - 1)?,
            organization_id,
            invoice_id: note.invoice.uuid(),
            amount: line.part.amount.clone(),
            base: line.part.base.clone(),
            tax: line.part.tax.clone(),
        })
    }
}

impl TryFrom<CreditNoteLineRow> for CreditNoteLine {
    type Error = Error;

    fn try_from(row: CreditNoteLineRow) -> Result<Self, Error> {
        let place: usize = count(row.position)?;
        Ok(Self {
            line: LineId::new(row.invoice_id.into(), place + 1),
            part: LinePart { amount: row.amount, base: row.base, tax: row.tax },
        })
    }
}

/// The lines of a credit note, in the order of the invoice's.
static LINES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "ARRAY(
            SELECT ROW({}) FROM credit_note_lines
            WHERE credit_note_lines.customer_key = credit_notes.customer_key
                AND credit_note_lines.credit_note_id = credit_notes.id
                AND (credit_note_lines.organization_id = credit_notes.organization_id) IS TRUE
            ORDER BY credit_note_lines.position
        )",
        columns_of::<CreditNoteLineRow>()
    )
});

type WithLines = (CreditNoteRow, Nested<CreditNoteLineRow>);

fn with_lines((row, Nested(lines)): WithLines) -> Result<CreditNote, Error> {
    row.into_note(lines.into_iter().map(CreditNoteLine::try_from).collect::<Result<_, _>>()?)
}

/// The place of a credit note in a list.
pub(crate) fn cursor_of(note: &CreditNote) -> Cursor {
    Cursor::new(note.issued_at, note.id.uuid())
}

impl PgTransaction<'_> {
    /// Takes the next number and writes the note under it. The counter's row is locked from here to the end of the transaction.
    pub(crate) fn insert_credit_note(&mut self, note: NewCreditNote) -> Result<CreditNote, Error> {
        let (customer, invoice) = (note.unnumbered().customer.uuid(), note.unnumbered().invoice.uuid());
        let is_there = invoices::table
            .find((customer, invoice))
            .filter(invoices::organization_id.eq(self.tenant()))
            .select(invoices::id);
        let found: Option<Uuid> = self.query(|pg| is_there.first(pg).optional())?;
        found.ok_or(Error::NotFound(Noun::Invoice))?;
        let sequence = self.take_credit_note_number()?;
        let note = note.numbered(count(sequence)?);
        let row = CreditNoteRow::new(self.tenant(), &note);
        self.query(|pg| diesel::insert_into(credit_notes::table).values(&row).execute(pg))?;
        let of_line = |line| CreditNoteLineRow::new(self.tenant(), &note, line);
        let lines = note.lines.iter().map(of_line).collect::<Result<Vec<_>, _>>()?;
        self.query(|pg| diesel::insert_into(credit_note_lines::table).values(&lines).execute(pg))?;
        Ok(note)
    }

    fn take_credit_note_number(&mut self) -> Result<i64, Error> {
        let tenant = self.tenant();
        if let Some(lane) = self.away() {
            return self.reserve(lane, reserve_credit_note_number);
        }
        if self.shared.lanes.have_nodes() {
            let taken = self.query(|pg| take_sequence(pg, tenant, Kind::CreditNoteNumber, 1))?;
            return taken.first().copied().ok_or_else(|| unreadable("no number"));
        }
        let first = (
            invoice_counters::organization_id.eq(tenant),
            invoice_counters::last_sequence.eq(0),
            invoice_counters::last_credit_note.eq(1),
        );
        let take = diesel::insert_into(invoice_counters::table)
            .values(first)
            .on_conflict(invoice_counters::organization_id)
            .do_update()
            .set(invoice_counters::last_credit_note.eq(invoice_counters::last_credit_note + 1))
            .returning(invoice_counters::last_credit_note);
        self.query(|pg| take.get_result(pg))
    }

    /// Notes that a credit note was voided.
    pub(crate) fn mark_credit_note_voided(
        &mut self,
        customer: CustomerKey,
        id: CreditNoteId,
        at: OffsetDateTime,
    ) -> Result<(), Error> {
        let target = credit_notes::table
            .find((customer.uuid(), id.uuid()))
            .filter(credit_notes::organization_id.eq(self.tenant()))
            .filter(credit_notes::voided_at.is_null());
        match self.query(|pg| diesel::update(target).set(credit_notes::voided_at.eq(at)).execute(pg))? {
            0 => Err(Error::NotFound(Noun::CreditNote)),
            _ => Ok(()),
        }
    }

    /// A credit note with its lines.
    pub(crate) fn load_credit_note(&mut self, id: CreditNoteId) -> Result<CreditNote, Error> {
        let query = credit_notes::table
            .filter(credit_notes::organization_id.eq(self.tenant()).and(credit_notes::id.eq(id.uuid())))
            .select((CreditNoteRow::as_select(), fixed::<NestedSql<CreditNoteLineRow>>(&LINES)));
        let found: Option<WithLines> = self.query(|pg| query.first(pg).optional())?;
        with_lines(found.ok_or(Error::NotFound(Noun::CreditNote))?)
    }

    /// The organization's credit notes behind a place, one more than a page of so many has.
    pub(crate) fn load_credit_notes(
        &mut self,
        filter: &CreditNoteFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Vec<CreditNote>, Error> {
        let is_ours = credit_notes::organization_id.eq(self.tenant());
        let mut query = match filter.customer.map(CustomerKey::uuid) {
            Some(customer) => credit_notes::table
                .filter(checked(is_ours))
                .filter(credit_notes::customer_key.eq(customer))
                .into_boxed(),
            None => credit_notes::table.filter(is_ours).into_boxed(),
        };
        if let Some(invoice) = filter.invoice.map(InvoiceId::uuid) {
            query = query.filter(credit_notes::invoice_id.eq(invoice));
        }
        if let Some(after) = after {
            query = query.filter(after.behind("credit_notes.issued_at, credit_notes.id"));
        }
        let query = query
            .order((credit_notes::issued_at.desc(), credit_notes::id.desc()))
            .limit(i64::from(limit) + 1)
            .select((CreditNoteRow::as_select(), fixed::<NestedSql<CreditNoteLineRow>>(&LINES)));
        let rows: Vec<WithLines> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(with_lines).collect()
    }

    /// A page of the organization's credit notes, newest first.
    pub(crate) fn page_of_credit_notes(
        &mut self,
        filter: &CreditNoteFilter,
        page: &PageRequest,
    ) -> Result<Page<CreditNote>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let found = self.load_credit_notes(filter, after, page.limit)?.into_iter();
        Ok(page_of(found.map(|note| (cursor_of(&note).to_text(), note)).collect(), page.limit))
    }
}
