//! Credit notes.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::page::page_of;
use super::transaction::MemoryTransaction;
use crate::credit_note::{CreditNote, NewCreditNote};
use crate::error::{Error, Noun, Refusal};
use crate::id::{CreditNoteId, CustomerKey};
use crate::store::{CreditNoteFilter, Page, PageRequest};

impl MemoryTransaction {
    pub(super) fn insert_credit_note(&mut self, note: NewCreditNote) -> Result<CreditNote, Error> {
        let tenant = self.tenant()?;
        let wanted = note.unnumbered();
        let invoice = tenant.invoices.get(&wanted.invoice).filter(|invoice| invoice.customer == wanted.customer);
        let invoice = invoice.ok_or(Error::NotFound(Noun::Invoice))?;
        for credited in &wanted.lines {
            let place = credited.line.place();
            let line = invoice.lines.get(place.wrapping_sub(1)).ok_or(Error::NotFound(Noun::Invoice))?;
            let others = tenant.credit_notes.iter().filter(|other| other.stands()).flat_map(|other| &other.lines);
            let before: BigDecimal =
                others.filter(|other| other.line == credited.line).map(|other| &other.part.amount).sum();
            if before + &credited.part.amount > line.amount {
                return Err(Refusal::CreditExceedsLine.into());
            }
        }
        let note = note.numbered(tenant.credit_notes.len() as u64 + 1);
        tenant.credit_notes.push(note.clone());
        if let Some(invoice) = tenant.invoices.get_mut(&note.invoice) {
            invoice.credit_notes.push(note.brief());
        }
        Ok(note)
    }

    pub(super) fn mark_credit_note_voided(
        &mut self,
        customer: CustomerKey,
        id: CreditNoteId,
        at: OffsetDateTime,
    ) -> Result<(), Error> {
        let tenant = self.tenant()?;
        let mut notes = tenant.credit_notes.iter_mut();
        let note = notes.find(|note| note.id == id && note.customer == customer && note.stands());
        let note = note.ok_or(Error::NotFound(Noun::CreditNote))?;
        note.voided_at = Some(at);
        let (invoice, brief) = (note.invoice, note.brief());
        if let Some(invoice) = tenant.invoices.get_mut(&invoice) {
            invoice.credit_notes.iter_mut().filter(|other| other.id == id).for_each(|other| *other = brief.clone());
        }
        Ok(())
    }

    pub(super) fn find_credit_note(&mut self, id: CreditNoteId) -> Result<CreditNote, Error> {
        let found = self.tenant()?.credit_notes.iter().find(|note| note.id == id);
        found.cloned().ok_or(Error::NotFound(Noun::CreditNote))
    }

    pub(super) fn page_of_credit_notes(
        &mut self,
        filter: &CreditNoteFilter,
        page: &PageRequest,
    ) -> Result<Page<CreditNote>, Error> {
        let is_wanted = |note: &&CreditNote| {
            filter.customer.is_none_or(|customer| note.customer == customer)
                && filter.invoice.is_none_or(|invoice| note.invoice == invoice)
        };
        let mut notes: Vec<_> = self.tenant()?.credit_notes.iter().filter(is_wanted).cloned().collect();
        notes.sort_by_key(|note| std::cmp::Reverse((note.issued_at, note.number.clone())));
        page_of(notes, page)
    }
}
