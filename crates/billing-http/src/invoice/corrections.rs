//! What an invoice owes the truth, before anything is done about it.

use actix_web::web;
use billing_domain::id::{InvoiceId, LineId};
use billing_domain::invoice::{Invoice, LineItem, Trace};
use billing_domain::workflow::{
    CorrectionsPreview, LineCorrection, Outlook, RecountedUsage, preview_corrections as preview_of,
};
use billing_domain::{BigDecimal, Error};

use super::InvoiceName;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::path::PathParam;
use crate::wire::{CurrencyView, Instant, Number, view, words_of};

/// The calls about corrections of invoices.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        post("/api/invoices/{invoice_id}/corrections/preview/", "Show what an invoice owes the truth", preview)
            .repeatable()
            .answers::<CorrectionsView>(200),
    ]
}

words_of! { Outlook }

view! {
    /// What an invoice billed of usage, what that comes to by today's events, and what becomes of the difference.
    CorrectionsView {
        /// The invoice.
        invoice_id: InvoiceId,
        /// Its number.
        invoice_number: String,
        /// What all amounts are in.
        currency: CurrencyView,
        /// What the differences come to on the next invoice, with tax; below 0: it comes back.
        next_invoice: Number,
        /// What `POST /api/credit_notes/` with `corrections` gives back at once instead, with tax.
        credit_note: Number,
        /// Line by line.
        line_items: Vec<CorrectedLineView>,
    }
}

view! {
    /// What one line owes the truth.
    CorrectedLineView {
        /// The line.
        line_id: LineId,
        /// What it is for.
        name: String,
        /// The first instant that it is for.
        start_date: Instant,
        /// The last instant that it is for.
        end_date: Instant,
        /// What it billed, with adjustments and tax.
        amount: Number,
        /// What credit notes took of it.
        credited: Number,
        /// What credit notes can still take of it.
        left: Number,
        /// What the credit note on request takes of it, with tax.
        credit_note: Number,
        /// Its usage, counted again; null where events do not decide what it charges.
        usage: Option<RecountedUsageView>,
    }
}

view! {
    /// Usage that was billed, counted again. It is all of the charge's, over all invoices that billed it so far.
    RecountedUsageView {
        /// What becomes of the difference.
        outlook: Outlook,
        /// Units billed so far.
        quantity_billed: Number,
        /// Units by today's events; null where the new plan counts them, or a custom metric has no result.
        quantity: Option<Number>,
        /// What was billed of the price so far, before adjustments and tax, less what was given back.
        billed: Option<Number>,
        /// What of that voided invoices and credit notes waived: it does not come back.
        waived: Option<Number>,
        /// The price of today's events, rounded, before adjustments and tax.
        price: Option<Number>,
        /// What is owed before adjustments and tax; below 0: what comes back, at most what was not waived.
        difference: Option<Number>,
        /// The same with adjustments and tax.
        difference_with_tax: Option<Number>,
    }
}

impl CorrectionsView {
    fn new(preview: &CorrectionsPreview) -> Self {
        let invoice: &Invoice = &preview.invoice;
        let lines = preview.lines.iter().zip(&invoice.lines);
        Self {
            invoice_id: invoice.id,
            invoice_number: invoice.number.clone(),
            currency: (&invoice.currency).into(),
            next_invoice: (&preview.next_invoice).into(),
            credit_note: (&preview.credit_note).into(),
            line_items: lines.map(|(correction, line)| CorrectedLineView::new(correction, line)).collect(),
        }
    }
}

impl CorrectedLineView {
    fn new(correction: &LineCorrection, line: &LineItem) -> Self {
        Self {
            line_id: correction.line,
            name: line.name.clone(),
            start_date: Instant(line.period.start()),
            end_date: Instant(line.period.last_instant()),
            amount: (&line.amount).into(),
            credited: (&correction.credited).into(),
            left: (&correction.left).into(),
            credit_note: (&correction.credit_note.amount).into(),
            usage: correction.usage.as_ref().map(RecountedUsageView::new),
        }
    }
}

impl RecountedUsageView {
    fn new(usage: &RecountedUsage) -> Self {
        let trace = usage.counted.as_ref().map(|counted| &counted.trace);
        let (quantity, rounding) = match trace {
            Some(Trace::UsageCharge { quantity, rounding, .. }) => (Some(quantity), Some(rounding)),
            _ => (None, None),
        };
        let with_tax = usage.to_come.as_ref().map_or_else(BigDecimal::default, |line| line.amount.clone());
        Self {
            outlook: usage.outlook,
            quantity_billed: (&usage.quantity_billed).into(),
            quantity: quantity.map(Into::into),
            billed: rounding.map(|rounding| (&rounding.given_before).into()),
            waived: rounding.map(|rounding| (&rounding.forgiven).into()),
            price: rounding.map(|rounding| (&rounding.price()).into()),
            difference: rounding.map(|rounding| (&rounding.amount).into()),
            difference_with_tax: rounding.map(|_| (&with_tax).into()),
        }
    }
}

/// `POST /api/invoices/{invoice_id}/corrections/preview/`
async fn preview(
    app: web::Data<App>,
    caller: Caller,
    PathParam(name): PathParam<InvoiceName>,
) -> Result<web::Json<CorrectionsView>, ApiError> {
    let preview = app.read(&caller, move |tx, _| -> Result<_, Error> {
        let invoice = name.find(tx)?;
        preview_of(tx, invoice.id)
    });
    Ok(web::Json(CorrectionsView::new(&preview.await?)))
}
