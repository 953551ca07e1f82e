//! The lines of invoices that bill one-off lines.

use billing_domain::id::{CustomerKey, LineId, OneOffLineId};
use billing_domain::store::{Page, PageRequest};
use billing_domain::{Error, FieldError};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::cursor::Cursor;
use crate::pg::statement::statement;
use crate::repo::customer::page_of;
use crate::transaction::PgTransaction;

statement! {
    /// The lines of a customer's invoices that bill one-off lines, or this one, behind a place: newest invoices first, and none of an invoice
    /// that another one was issued for.
    ListOneOffLines -> (Timestamptz, SqlUuid, BigInt) {
        "SELECT invoice.issued_at, line.invoice_id, line.position
        FROM invoice_lines line
        JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
        CROSS JOIN (SELECT " wanted: Option<String> as Nullable<Text>; " AS id, " issued_at: Option<OffsetDateTime> as Nullable<Timestamptz>; " AS issued_at, "
            invoice: Option<Uuid> as Nullable<SqlUuid>; " AS invoice_id, " position: Option<i64> as Nullable<BigInt>; " AS position) after
        WHERE line.customer_key = " customer: Uuid as SqlUuid; " AND line.organization_id = " organization: Uuid as SqlUuid; "
            AND line.trace ->> 'kind' = 'one_off' AND invoice.replaced_by IS NULL
            AND (after.id IS NULL OR line.trace ->> 'one_off_line_id' = after.id)
            AND (after.issued_at IS NULL OR (invoice.issued_at, line.invoice_id) < (after.issued_at, after.invoice_id)
                OR (invoice.issued_at, line.invoice_id) = (after.issued_at, after.invoice_id) AND line.position > after.position)
        ORDER BY invoice.issued_at DESC, line.invoice_id DESC, line.position
        LIMIT " limit: i64 as BigInt; ""
    }
}

/// A place in the list: that of the invoice, and the line's on it.
struct Place {
    invoice: Cursor,
    position: i64,
}

impl Place {
    fn parse(text: &str) -> Result<Self, Error> {
        let place = text.rsplit_once('_').and_then(|(invoice, position)| {
            Some(Self { invoice: Cursor::parse(invoice).ok()?, position: position.parse().ok()? })
        });
        place.ok_or_else(|| FieldError::bad_cursor().into())
    }

    fn line(&self) -> LineId {
        let (_, invoice) = self.invoice.parts();
        LineId::new(invoice.into(), usize::try_from(self.position).unwrap_or_default() + 1)
    }
}

impl PgTransaction<'_> {
    fn load_one_off_lines(
        &mut self,
        customer: CustomerKey,
        wanted: Option<OneOffLineId>,
        after: Option<Place>,
        limit: i64,
    ) -> Result<Vec<Place>, Error> {
        let (after, position) = after.map(|place| (place.invoice.parts(), place.position)).unzip();
        let (issued_at, invoice) = after.unzip();
        let query = ListOneOffLines {
            wanted: wanted.map(|id| id.to_string()),
            issued_at,
            invoice,
            position,
            customer: customer.uuid(),
            organization: self.tenant(),
            limit,
        };
        let rows: Vec<(OffsetDateTime, Uuid, i64)> = self.query(|pg| query.load(pg))?;
        let place = |(issued_at, invoice, position)| Place { invoice: Cursor::new(issued_at, invoice), position };
        Ok(rows.into_iter().map(place).collect())
    }

    pub(super) fn line_of_one_off(&mut self, customer: CustomerKey, id: OneOffLineId) -> Result<Option<LineId>, Error> {
        let found = self.load_one_off_lines(customer, Some(id), None, 1)?;
        Ok(found.first().map(Place::line))
    }

    pub(super) fn page_of_one_off_lines(
        &mut self,
        customer: CustomerKey,
        page: &PageRequest,
    ) -> Result<Page<LineId>, Error> {
        let after = page.after.as_deref().map(Place::parse).transpose()?;
        let found = self.load_one_off_lines(customer, None, after, i64::from(page.limit) + 1)?;
        let placed =
            found.iter().map(|place| (format!("{}_{}", place.invoice.to_text(), place.position), place.line()));
        Ok(page_of(placed.collect(), page.limit))
    }
}
