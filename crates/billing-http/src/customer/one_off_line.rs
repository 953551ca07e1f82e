//! One-off lines: what a customer is charged once.

use std::collections::BTreeMap;

use actix_web::web;
use billing_domain::customer::CustomerId;
use billing_domain::id::{CustomerKey, InvoiceId, LineId, OneOffLineId};
use billing_domain::invoice::Invoice;
use billing_domain::one_off_line::OneOffLine;
use billing_domain::store::{Page, PageRequest, Transaction};
use billing_domain::workflow::{
    CreateOneOffLine, OneOffPrice, create_one_off_line, find_currency, remove_one_off_line,
};
use billing_domain::{Error, FieldCode, FieldErrors, Noun};
use time::OffsetDateTime;

use crate::answer::{Created, NoContent};
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, delete, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::{PathPair, PathParam};
use crate::query::Query;
use crate::wire::{CurrencyView, Instant, Number, body, read_through, view};

const ALL: &str = "/api/customers/{customer_id}/one_off_lines/";
const ONE: &str = "/api/customers/{customer_id}/one_off_lines/{one_off_line_id}/";

const LIST_PARAMETERS: &[Parameter] = &[Parameter::optional(
    "billed",
    "`true` lists those that are on invoices, newest invoices first; default false: those that wait, oldest first.",
)];

/// The calls about one-off lines.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get(ALL, "List what a customer is charged once: what waits for the next invoice, or what is billed", list)
            .parameters(LIST_PARAMETERS)
            .lists::<OneOffLineView>(),
        post(ALL, "Charge a customer for something once, with the next invoice or at once", create)
            .takes::<OneOffRequest>()
            .answers::<OneOffLineView>(201),
        get(ONE, "Show a one-off line", show).answers::<OneOffLineView>(200),
        delete(ONE, "Take a one-off line away that was not billed yet", remove).may_wait(),
    ]
}

body! {
    /// Something that is charged once.
    OneOffLineBody {
        /// What it is for: the name of its line.
        required name: String,
        /// What it comes to before tax; otherwise quantity and unit_amount say it.
        optional amount: Number,
        /// How many; with unit_amount.
        optional quantity: Number,
        /// What one costs; the product is rounded once.
        optional unit_amount: Number,
        /// What it is billed in; the customer's default currency when missing.
        optional currency_code: String,
        /// Whether sales tax is added, at the rate of the invoice's day; default true.
        optional is_taxed: bool,
        /// The first instant that it is for; with end_date. Without both it is for the moment at which it is made.
        optional start_date: Instant,
        /// The last instant that it is for.
        optional end_date: Instant,
        /// `true`: an invoice of this alone is issued at once. Otherwise it is on the customer's next invoice in its currency.
        optional invoice_now: bool,
    }
}

/// A one-off line that is asked for, whosever it is to be.
#[derive(Clone, Debug)]
pub struct OneOffRequest {
    name: String,
    price: OneOffPrice,
    currency_code: Option<String>,
    is_taxed: bool,
    time: Option<(OffsetDateTime, OffsetDateTime)>,
    invoice_now: bool,
}

read_through! { OneOffRequest = OneOffLineBody; }

impl OneOffLineBody {
    fn read(self) -> Result<OneOffRequest, FieldErrors> {
        let mut errors = FieldErrors::default();
        let price = match (self.amount, self.quantity, self.unit_amount) {
            (Some(Number(amount)), None, None) => Some(OneOffPrice::Amount(amount)),
            (None, Some(Number(quantity)), Some(Number(unit_amount))) => {
                Some(OneOffPrice::ByUnit { quantity, unit_amount })
            }
            (Some(_), _, _) => {
                errors.push("amount", FieldCode::NotAllowedTogether, "Say an amount, or a quantity and a unit_amount.");
                None
            }
            (None, ..) => {
                errors.push("amount", FieldCode::Required, "Say an amount, or a quantity and a unit_amount.");
                None
            }
        };
        let time = match (self.start_date, self.end_date) {
            (Some(Instant(start)), Some(Instant(end))) => Some((start, end)),
            (None, None) => None,
            (Some(_), None) => {
                errors.push("end_date", FieldCode::Required, "Say until when.");
                None
            }
            (None, Some(_)) => {
                errors.push("start_date", FieldCode::Required, "Say from when on.");
                None
            }
        };
        match price.filter(|_| errors.is_empty()) {
            Some(price) => Ok(OneOffRequest {
                name: self.name,
                price,
                currency_code: self.currency_code,
                is_taxed: self.is_taxed.unwrap_or(true),
                time,
                invoice_now: self.invoice_now.unwrap_or(false),
            }),
            None => Err(errors),
        }
    }
}

impl OneOffRequest {
    fn command(self, customer: CustomerKey) -> CreateOneOffLine {
        let Self { name, price, currency_code, is_taxed, time, invoice_now } = self;
        CreateOneOffLine { customer, name, price, currency_code, is_taxed, time, invoice_now }
    }
}

view! {
    /// Something that is charged once.
    OneOffLineView {
        /// Its id; the trace of its line names it, too.
        one_off_line_id: OneOffLineId,
        /// What it is for.
        name: String,
        /// How many, where it is priced by the unit.
        quantity: Option<Number>,
        /// What one costs, where it is priced by the unit.
        unit_amount: Option<Number>,
        /// What it comes to before tax.
        amount: Number,
        /// What it is billed in.
        currency: CurrencyView,
        /// Whether sales tax is added, at the rate of the invoice's day.
        is_taxed: bool,
        /// The first instant that it is for.
        start_date: Instant,
        /// The last instant that it is for.
        end_date: Instant,
        /// When it was made.
        created_at: Instant,
        /// The invoice that bills it; null while it waits for the next one. It stays when that invoice is voided.
        invoice_id: Option<InvoiceId>,
        /// The line of that invoice.
        line_id: Option<LineId>,
    }
}

impl OneOffLineView {
    /// Of a line that waits, or that a line of an invoice bills.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(tx: &mut dyn Transaction, line: &OneOffLine, billed_on: Option<LineId>) -> Result<Self, Error> {
        let currency = CurrencyView::from(&find_currency(tx, &line.currency_code)?);
        Ok(Self::new(line, currency, billed_on))
    }

    /// The customer's line of this id, as it waits or was billed.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of the store.
    pub fn find(tx: &mut dyn Transaction, customer: CustomerKey, id: OneOffLineId) -> Result<Self, Error> {
        let waiting = tx.customers().get(customer)?.one_off_lines;
        if let Some(line) = waiting.iter().find(|line| line.id == id) {
            return Self::load(tx, line, None);
        }
        let billed_on = tx.invoices().find_one_off_line(customer, id)?.ok_or(Error::NotFound(Noun::OneOffLine))?;
        Self::billed(billed_on, &tx.invoices().get(billed_on.invoice())?)
    }

    fn billed(id: LineId, invoice: &Invoice) -> Result<Self, Error> {
        let line = invoice.lines.get(id.place() - 1).and_then(|line| line.one_off_line(&invoice.currency.code));
        let line = line.ok_or(Error::NotFound(Noun::OneOffLine))?;
        Ok(Self::new(&line, (&invoice.currency).into(), Some(id)))
    }

    fn new(line: &OneOffLine, currency: CurrencyView, billed_on: Option<LineId>) -> Self {
        Self {
            one_off_line_id: line.id,
            name: line.name.clone(),
            quantity: line.quantity.as_ref().map(Into::into),
            unit_amount: line.unit_amount.as_ref().map(Into::into),
            amount: (&line.amount).into(),
            currency,
            is_taxed: line.is_taxed,
            start_date: Instant(line.period.start()),
            end_date: Instant(line.period.last_instant()),
            created_at: Instant(line.created_at),
            invoice_id: billed_on.map(LineId::invoice),
            line_id: billed_on,
        }
    }
}

/// `GET /api/customers/{customer_id}/one_off_lines/`
async fn list(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CustomerId>,
    mut query: Query,
    paging: Paging,
) -> Result<ListAnswer<OneOffLineView>, ApiError> {
    let billed = query.optional::<bool>("billed");
    let billed = query.finish(billed)?.unwrap_or(false);
    let page = app.read(&caller, move |tx, _| {
        let key = CustomerKey::derive(tx.organization(), &id);
        let waiting = tx.customers().get(key)?.one_off_lines;
        match billed {
            true => list_billed(tx, key, &paging.0),
            false => map_page(paging.cut(waiting)?, |line| OneOffLineView::load(tx, &line, None)),
        }
    });
    Ok(ListAnswer(page.await?))
}

fn list_billed(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    page: &PageRequest,
) -> Result<Page<OneOffLineView>, Error> {
    let found = tx.invoices().list_one_off_lines(customer, page)?;
    let mut ids: Vec<_> = found.items.iter().map(|line| (customer, line.invoice())).collect();
    ids.dedup();
    let invoices = if ids.is_empty() { Vec::new() } else { tx.invoices().list_by_id(&ids)? };
    let invoices: BTreeMap<InvoiceId, Invoice> = invoices.into_iter().map(|invoice| (invoice.id, invoice)).collect();
    map_page(found, |line| {
        let invoice = invoices.get(&line.invoice()).ok_or(Error::NotFound(Noun::Invoice))?;
        OneOffLineView::billed(line, invoice)
    })
}

/// `POST /api/customers/{customer_id}/one_off_lines/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CustomerId>,
    ApiJson(request): ApiJson<OneOffRequest>,
) -> Result<Created<OneOffLineView>, ApiError> {
    let command = request.command(CustomerKey::derive(caller.organization, &id));
    let view = app.on_customer(&caller, &id, move |tx, now| -> Result<_, Error> {
        let (line, billed_on) = create_one_off_line(tx, &command, now)?;
        OneOffLineView::load(tx, &line, billed_on)
    });
    Ok(Created(view.await?))
}

/// `GET /api/customers/{customer_id}/one_off_lines/{one_off_line_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathPair(id, line): PathPair<CustomerId, OneOffLineId>,
) -> Result<web::Json<OneOffLineView>, ApiError> {
    let key = CustomerKey::derive(caller.organization, &id);
    let view = app.read_customer(&caller, &id, move |tx, _| OneOffLineView::find(tx, key, line));
    Ok(web::Json(view.await?))
}

/// `DELETE /api/customers/{customer_id}/one_off_lines/{one_off_line_id}/`
async fn remove(
    app: web::Data<App>,
    caller: Caller,
    PathPair(id, line): PathPair<CustomerId, OneOffLineId>,
) -> Result<NoContent, ApiError> {
    let key = CustomerKey::derive(caller.organization, &id);
    app.on_customer(&caller, &id, move |tx, now| remove_one_off_line(tx, key, line, now)).await?;
    Ok(NoContent)
}
