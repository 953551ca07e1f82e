//! The credit notes that an invoice lists.

use std::sync::LazyLock;

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::invoice::{CreditNoteBrief, Settlement};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::choice;
use crate::pg::nested::columns_of;
use crate::pg::schema::credit_notes;

/// A credit note as its invoice lists it.
#[derive(Queryable, Selectable)]
#[diesel(table_name = credit_notes, check_for_backend(Pg))]
pub(crate) struct BriefRow {
    id: Uuid,
    number: String,
    amount: BigDecimal,
    settlement: String,
    issued_at: OffsetDateTime,
    voided_at: Option<OffsetDateTime>,
}

impl TryFrom<BriefRow> for CreditNoteBrief {
    type Error = Error;

    fn try_from(row: BriefRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            number: row.number,
            amount: row.amount,
            settlement: choice(Settlement::ALL, Settlement::as_str, &row.settlement)?,
            issued_at: row.issued_at,
            voided_at: row.voided_at,
        })
    }
}

/// The credit notes of an invoice, oldest first.
pub(crate) static OF_INVOICE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "ARRAY(
            SELECT ROW({}) FROM credit_notes
            WHERE credit_notes.customer_key = invoices.customer_key AND credit_notes.invoice_id = invoices.id
                AND (credit_notes.organization_id = invoices.organization_id) IS TRUE
            ORDER BY credit_notes.issued_at, credit_notes.id
        )",
        columns_of::<BriefRow>()
    )
});
