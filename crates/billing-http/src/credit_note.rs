//! Credit notes: documents that take back a part of what an invoice charged.

use std::collections::BTreeMap;

use actix_web::web;
use billing_domain::credit_note::{CreditNote, CreditNoteBrief, CreditNoteLine, Settlement};
use billing_domain::customer::CustomerId;
use billing_domain::id::{CreditId, CreditNoteId, CustomerKey, InvoiceId, LineId};
use billing_domain::invoice::{Invoice, LineItem};
use billing_domain::store::{CreditNoteFilter, Transaction};
use billing_domain::workflow::{CreateCreditNote, CreditLine, Share, create_credit_note, void_credit_note};
use billing_domain::{Error, FieldCode, FieldErrors, Noun};

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{CurrencyView, Instant, Number, body, read_through, view};

const LIST_PARAMETERS: &[Parameter] = &[
    Parameter::optional("customer_id", "Keeps one customer's."),
    Parameter::optional("invoice_id", "Keeps those of one invoice."),
];

/// The calls about credit notes.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/credit_notes/", "List credit notes, newest first", list)
            .parameters(LIST_PARAMETERS)
            .lists::<CreditNoteView>(),
        post("/api/credit_notes/", "Take back a part of what an invoice charged", create)
            .takes::<NoteRequest>()
            .answers::<CreditNoteView>(201)
            .may_wait(),
        get("/api/credit_notes/{credit_note_id}/", "Show a credit note", show).answers::<CreditNoteView>(200),
        post("/api/credit_notes/{credit_note_id}/void/", "Void a credit note", void)
            .answers::<CreditNoteView>(200)
            .may_wait(),
    ]
}

body! {
    /// What a credit note takes back, and why.
    CreditNoteBody {
        /// Of which invoice.
        required invoice_id: InvoiceId,
        /// Of which of its lines; all that charge for something when missing.
        optional lines: Vec<CreditedLineBody>,
        /// How much of the whole invoice, with tax, spread over the lines by what is left of them.
        optional amount: Number,
        /// How much of the whole invoice in percent of what its lines charge. Without amount, percent and lines: all that is left.
        optional percent: Number,
        /// `true`: just what corrected events make too much of what the invoice charged for usage, at most what is left of each line. It is then
        /// not given back by the next invoice. Without lines, amount and percent.
        optional corrections: bool,
        /// Why: the customer reads it.
        required reason: String,
        /// `balance` reduces what is due and makes a credit of what is not due any more; `outside` notes a refund by other means.
        required settlement: Settlement,
        /// What names a refund outside: a bank's or a card processor's id.
        optional reference: String,
    }
}

body! {
    /// What is taken back of one line.
    CreditedLineBody {
        /// Which: the `line_id` of the invoice.
        required line_id: LineId,
        /// How much, with tax.
        optional amount: Number,
        /// How much in percent of what the line charges. Without either: all that is left.
        optional percent: Number,
    }
}

/// A credit note that is asked for, whosever the invoice is.
#[derive(Clone, Debug)]
pub struct NoteRequest {
    invoice: InvoiceId,
    lines: Vec<CreditLine>,
    share: Option<Share>,
    corrections: bool,
    reason: String,
    settlement: Settlement,
    reference: Option<String>,
}

read_through! { NoteRequest = CreditNoteBody; }

impl CreditNoteBody {
    fn read(self) -> Result<NoteRequest, FieldErrors> {
        let mut errors = FieldErrors::default();
        if self.lines.as_ref().is_some_and(Vec::is_empty) {
            errors.push("lines", FieldCode::Empty, "Name a line; leave the field out for the whole invoice.");
        }
        let share = share("", self.amount, self.percent, &mut errors);
        let mut lines = Vec::new();
        for (i, line) in self.lines.into_iter().flatten().enumerate() {
            let share = self::share(&format!("lines.{i}."), line.amount, line.percent, &mut errors);
            lines.push(CreditLine { line: line.line_id, share });
        }
        errors.finish(NoteRequest {
            invoice: self.invoice_id,
            lines,
            share,
            corrections: self.corrections.unwrap_or(false),
            reason: self.reason,
            settlement: self.settlement,
            reference: self.reference,
        })
    }
}

fn share(under: &str, amount: Option<Number>, percent: Option<Number>, errors: &mut FieldErrors) -> Option<Share> {
    match (amount, percent) {
        (Some(_), Some(_)) => {
            let detail = "Say an amount or a percentage.";
            errors.push(format!("{under}percent"), FieldCode::NotAllowedTogether, detail);
            None
        }
        (Some(Number(amount)), None) => Some(Share::Amount(amount)),
        (None, Some(Number(percent))) => Some(Share::Percent(percent)),
        (None, None) => None,
    }
}

impl NoteRequest {
    fn command(self, customer: CustomerKey) -> CreateCreditNote {
        let Self { invoice, lines, share, corrections, reason, settlement, reference } = self;
        CreateCreditNote { customer, invoice, lines, share, corrections, reason, settlement, reference }
    }
}

view! {
    /// A credit note.
    CreditNoteView {
        ..brief: CreditNoteBriefView,
        /// Whose it is.
        customer_id: String,
        /// The invoice that it takes back from.
        invoice_id: InvoiceId,
        /// The invoice's number.
        invoice_number: String,
        /// What it is in.
        currency: CurrencyView,
        /// What of the amount is tax.
        tax: Number,
        /// What of the amount was not due any more: it became the credit, or was refunded outside.
        amount_credited: Number,
        /// The credit that it became; null where it only reduced what was due, or was refunded outside.
        credit_id: Option<CreditId>,
        /// Whether it gives back what corrected events made too much; otherwise it waives a part of what was charged.
        corrections: bool,
        /// Why it was issued.
        reason: String,
        /// What names a refund outside.
        reference: Option<String>,
        /// What it takes back, line by line.
        line_items: Vec<CreditNoteLineView>,
    }
}

view! {
    /// A credit note as its invoice lists it.
    CreditNoteBriefView {
        /// Its id.
        credit_note_id: CreditNoteId,
        /// `CN-YYMMDD-NNNNNN`: the UTC day of issue and a sequence of credit notes without gaps.
        credit_note_number: String,
        /// When it was issued.
        issue_date: Instant,
        /// What it takes back, with tax.
        amount: Number,
        /// Where the money goes.
        settlement: Settlement,
        /// When it was voided; null while it stands.
        voided_at: Option<Instant>,
    }
}

view! {
    /// What a credit note takes back of one line.
    CreditNoteLineView {
        /// The line of the invoice.
        line_id: LineId,
        /// What the line is for.
        name: String,
        /// How much, with tax.
        amount: Number,
        /// What of it is base: price before adjustments and tax.
        base: Number,
        /// What of it is tax, at the line's rate.
        tax: Number,
    }
}

impl From<&CreditNoteBrief> for CreditNoteBriefView {
    fn from(note: &CreditNoteBrief) -> Self {
        Self {
            credit_note_id: note.id,
            credit_note_number: note.number.clone(),
            issue_date: Instant(note.issued_at),
            amount: (&note.amount).into(),
            settlement: note.settlement,
            voided_at: note.voided_at.map(Instant),
        }
    }
}

impl CreditNoteView {
    /// Of a note on this invoice.
    pub fn new(note: &CreditNote, invoice: &Invoice) -> Self {
        let tax = note.lines.iter().map(|line| &line.part.tax).sum::<billing_domain::BigDecimal>();
        let names: BTreeMap<LineId, &LineItem> = invoice.named_lines().collect();
        let view = |credited: &CreditNoteLine| CreditNoteLineView {
            line_id: credited.line,
            name: names.get(&credited.line).map(|line| line.name.clone()).unwrap_or_default(),
            amount: (&credited.part.amount).into(),
            base: (&credited.part.base).into(),
            tax: (&credited.part.tax).into(),
        };
        Self {
            brief: (&note.brief()).into(),
            customer_id: invoice.billed_to.customer_id.clone(),
            invoice_id: note.invoice,
            invoice_number: invoice.number.clone(),
            currency: (&invoice.currency).into(),
            tax: (&tax).into(),
            amount_credited: (&note.credited).into(),
            credit_id: note.credit,
            corrections: note.is_correction,
            reason: note.reason.clone(),
            reference: note.reference.clone(),
            line_items: note.lines.iter().map(view).collect(),
        }
    }

    /// Of a note, with its invoice.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(tx: &mut dyn Transaction, note: &CreditNote) -> Result<Self, Error> {
        Ok(Self::new(note, &tx.invoices().get(note.invoice)?))
    }
}

/// Which credit notes a list keeps.
#[derive(Clone, Debug)]
struct ListFilter {
    customer: Option<CustomerId>,
    invoice: Option<InvoiceId>,
}

impl FromQuery for ListFilter {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let (customer, invoice) = (query.optional("customer_id"), query.optional("invoice_id"));
        let read = customer.zip(invoice).map(|(customer, invoice)| Self { customer, invoice });
        query.finish(read)
    }
}

/// `GET /api/credit_notes/`
async fn list(
    app: web::Data<App>,
    caller: Caller,
    ApiQuery(filter): ApiQuery<ListFilter>,
    Paging(page): Paging,
) -> Result<ListAnswer<CreditNoteView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let mut wanted = CreditNoteFilter::default();
        if let Some(customer) = &filter.customer {
            let key = CustomerKey::derive(tx.organization(), customer);
            tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
            wanted.customer = Some(key);
        }
        if let Some(invoice) = filter.invoice {
            tx.invoices().get(invoice).map_err(|error| error.at_field("invoice_id"))?;
            wanted.invoice = Some(invoice);
        }
        let found = tx.invoices().list_credit_notes(&wanted, &page)?;
        let ids: Vec<_> = found.items.iter().map(|note| (note.customer, note.invoice)).collect();
        let invoices = if ids.is_empty() { Vec::new() } else { tx.invoices().list_by_id(&ids)? };
        let invoices: BTreeMap<InvoiceId, Invoice> = invoices.into_iter().map(|each| (each.id, each)).collect();
        map_page(found, |note| {
            let invoice = invoices.get(&note.invoice).ok_or(Error::NotFound(Noun::Invoice))?;
            Ok(CreditNoteView::new(&note, invoice))
        })
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/credit_notes/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(request): ApiJson<NoteRequest>,
) -> Result<Created<CreditNoteView>, ApiError> {
    let id = request.invoice;
    let find = move |tx: &mut dyn Transaction, _| tx.invoices().get(id).map_err(|error| error.at_field("invoice_id"));
    let customer = app.read(&caller, find).await?.customer;
    let command = request.command(customer);
    let view = app.on_customer_key(&caller, customer, move |tx, now| -> Result<_, Error> {
        let (invoice, note) = create_credit_note(tx, &command, now)?;
        Ok(CreditNoteView::new(&note, &invoice))
    });
    Ok(Created(view.await?))
}

/// `GET /api/credit_notes/{credit_note_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CreditNoteId>,
) -> Result<web::Json<CreditNoteView>, ApiError> {
    let view = app.read(&caller, move |tx, _| {
        let note = tx.invoices().get_credit_note(id)?;
        CreditNoteView::load(tx, &note)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/credit_notes/{credit_note_id}/void/`
async fn void(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CreditNoteId>,
) -> Result<web::Json<CreditNoteView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.invoices().get_credit_note(id)).await?.customer;
    let view = app.on_customer_key(&caller, customer, move |tx, now| -> Result<_, Error> {
        let note = void_credit_note(tx, customer, id, now)?;
        CreditNoteView::load(tx, &note)
    });
    Ok(web::Json(view.await?))
}
