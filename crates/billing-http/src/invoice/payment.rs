//! Payments of invoices.

use actix_web::web;
use billing_domain::id::{CreditId, CreditNoteId, InvoiceId, PaymentId};
use billing_domain::invoice::{Invoice, PaymentStatus};
use billing_domain::payment::{Payment, PaymentKind};
use billing_domain::store::Transaction;
use billing_domain::workflow::{NotePayment, ReversePayment, note_payment, reverse_payment};
use billing_domain::{Error, FieldCode, FieldError};
use time::{Date, Month};

use super::{InvoiceName, is_number};
use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::{PathPair, PathParam};
use crate::wire::{Instant, Number, body, view};

/// The calls about payments.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get(
            "/api/invoices/{invoice_id}/payments/",
            "List payments of an invoice, reversals, what returned and credit notes, oldest first",
            list,
        )
        .lists::<PaymentView>(),
        post("/api/invoices/{invoice_id}/payments/", "Note a payment of an invoice", pay)
            .takes::<PaymentBody>()
            .answers::<NotedPaymentView>(201)
            .may_wait(),
        post("/api/invoices/{invoice_id}/payments/{payment_id}/reverse/", "Take a payment back", reverse)
            .takes::<ReversalBody>()
            .answers::<NotedPaymentView>(200),
        post("/api/payments/", "Note a payment by the number of its invoice", pay_by_number)
            .takes::<NumberedPaymentBody>()
            .answers::<NotedPaymentView>(201)
            .may_wait(),
    ]
}

body! {
    /// Money that came for an invoice.
    PaymentBody {
        /// How much, in the invoice's currency.
        required amount: Number,
        /// When it came; now when missing.
        optional at: Instant,
        /// How it came, in your words: `bank`, `card`.
        optional method: String,
        /// What tells it from others that came in the same way: an invoice takes each only once.
        optional reference: String,
    }
}

body! {
    /// Money that came with the number of an invoice.
    NumberedPaymentBody {
        /// The number of the invoice, or any text with the number of one invoice in it: what a bank calls remittance information.
        required invoice_number: String,
        /// How much, in the invoice's currency.
        required amount: Number,
        /// When it came; now when missing.
        optional at: Instant,
        /// How it came, in your words: `bank`, `card`.
        optional method: String,
        /// What tells it from others that came in the same way: an invoice takes each only once.
        optional reference: String,
    }
}

body! {
    /// Why a payment is taken back.
    ReversalBody {
        /// When the money went; now when missing.
        optional at: Instant,
        /// Why.
        optional reason: String,
    }
}

view! {
    /// Money that came for an invoice, or went again.
    PaymentView {
        /// Its id.
        payment_id: PaymentId,
        /// What for.
        invoice_id: InvoiceId,
        /// Whether money came, went, or returned from another invoice that a credit of this one had paid for; or whether a credit note
        /// took something back, or was voided.
        kind: PaymentKind,
        /// The payment that a reversal takes back; null for a payment.
        reverses: Option<PaymentId>,
        /// How much came, went or returned; above 0.
        amount: Number,
        /// What of a payment was more than was due and became a credit; of a reversal, what of that credit had not paid for other invoices; of what returned, all;
        /// of a credit note, what was not due any more.
        amount_credited: Number,
        /// The credit that an overpayment or a credit note became, or that had paid for what returned; null where there was none.
        credit_id: Option<CreditId>,
        /// The credit note that it is about.
        credit_note_id: Option<CreditNoteId>,
        /// When it came or went.
        at: Instant,
        /// How it came.
        method: Option<String>,
        /// What tells it from others that came in the same way.
        reference: Option<String>,
        /// Why it was taken back.
        reason: Option<String>,
        /// When it was noted.
        noted_at: Instant,
    }
}

view! {
    /// A payment or a reversal, and what the invoice is since.
    NotedPaymentView {
        ..payment: PaymentView,
        /// The number of its invoice.
        invoice_number: String,
        /// Where the payment of the invoice stands.
        payment_status: PaymentStatus,
        /// What is left to pay of the invoice.
        amount_due: Number,
    }
}

impl From<&Payment> for PaymentView {
    fn from(payment: &Payment) -> Self {
        Self {
            payment_id: payment.id,
            invoice_id: payment.invoice,
            kind: payment.kind,
            reverses: payment.reverses,
            amount: (&payment.amount).into(),
            amount_credited: (&payment.credited).into(),
            credit_id: payment.credit,
            credit_note_id: payment.credit_note,
            at: Instant(payment.at),
            method: payment.method.clone(),
            reference: payment.reference.clone(),
            reason: payment.reason.clone(),
            noted_at: Instant(payment.noted_at),
        }
    }
}

impl From<(Invoice, Payment)> for NotedPaymentView {
    fn from((invoice, payment): (Invoice, Payment)) -> Self {
        Self {
            payment: (&payment).into(),
            payment_status: invoice.payment_status,
            amount_due: (&invoice.amount_due()).into(),
            invoice_number: invoice.number,
        }
    }
}

/// `GET /api/invoices/{invoice_id}/payments/`
async fn list(
    app: web::Data<App>,
    caller: Caller,
    PathParam(name): PathParam<InvoiceName>,
    paging: Paging,
) -> Result<ListAnswer<PaymentView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let invoice = name.find(tx)?;
        let payments = tx.invoices().list_payments(invoice.customer, Some(invoice.id))?;
        map_page(paging.cut(payments)?, |payment| Ok(PaymentView::from(&payment)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/invoices/{invoice_id}/payments/`
async fn pay(
    app: web::Data<App>,
    caller: Caller,
    PathParam(name): PathParam<InvoiceName>,
    ApiJson(body): ApiJson<PaymentBody>,
) -> Result<Created<NotedPaymentView>, ApiError> {
    let invoice = app.read(&caller, move |tx, _| name.find(tx)).await?;
    note(&app, &caller, &invoice, body).await
}

/// `POST /api/payments/`
async fn pay_by_number(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(body): ApiJson<NumberedPaymentBody>,
) -> Result<Created<NotedPaymentView>, ApiError> {
    let NumberedPaymentBody { invoice_number, amount, at, method, reference } = body;
    let number = number_in(&invoice_number).map_err(Error::from)?;
    let find = move |tx: &mut dyn Transaction, _| {
        InvoiceName::Number(number.clone()).find(tx).map_err(|error| error.at_field("invoice_number"))
    };
    let invoice = app.read(&caller, find).await?;
    note(&app, &caller, &invoice, PaymentBody { amount, at, method, reference }).await
}

async fn note(
    app: &App,
    caller: &Caller,
    invoice: &Invoice,
    body: PaymentBody,
) -> Result<Created<NotedPaymentView>, ApiError> {
    let command = NotePayment {
        customer: invoice.customer,
        invoice: invoice.id,
        amount: body.amount.0,
        at: body.at.map(|Instant(at)| at),
        method: body.method,
        reference: body.reference,
    };
    let noted = app.on_customer_key(caller, invoice.customer, move |tx, now| -> Result<_, Error> {
        Ok(NotedPaymentView::from(note_payment(tx, &command, now)?))
    });
    Ok(Created(noted.await?))
}

/// `POST /api/invoices/{invoice_id}/payments/{payment_id}/reverse/`
async fn reverse(
    app: web::Data<App>,
    caller: Caller,
    PathPair(name, payment): PathPair<InvoiceName, PaymentId>,
    ApiJson(body): ApiJson<ReversalBody>,
) -> Result<web::Json<NotedPaymentView>, ApiError> {
    let invoice = app.read(&caller, move |tx, _| name.find(tx)).await?;
    let command = ReversePayment {
        customer: invoice.customer,
        invoice: invoice.id,
        payment,
        at: body.at.map(|Instant(at)| at),
        reason: body.reason,
    };
    let noted = app.on_customer_key(&caller, invoice.customer, move |tx, now| -> Result<_, Error> {
        Ok(NotedPaymentView::from(reverse_payment(tx, &command, now)?))
    });
    Ok(web::Json(noted.await?))
}

/// The number of an invoice in a text that names one invoice, however often: two words of digits that are joined, the first of them a
/// day. What else a bank's text has of digits, as a telephone number, is none.
fn number_in(text: &str) -> Result<String, FieldError> {
    let is_digit = |c: char| c.is_ascii_digit();
    let joined = text.match_indices('-').filter_map(|(at, _)| {
        let start = text[..at].trim_end_matches(is_digit).len();
        let end = text.len() - text[at + 1..].trim_start_matches(is_digit).len();
        Some(&text[start..end]).filter(|word| is_number(word) && is_day(&word[..at - start]))
    });
    let mut numbers: Vec<&str> = joined.collect();
    numbers.sort_unstable();
    numbers.dedup();
    let detail = match numbers[..] {
        [number] => return Ok(number.to_owned()),
        [] => "There is no invoice number in it: they look like 260331-000042.",
        _ => "It has the numbers of several invoices: note a payment for each.",
    };
    Err(FieldError::new("invoice_number", FieldCode::Invalid, detail))
}

/// Whether six digits are a day: `YYMMDD`.
fn is_day(digits: &str) -> bool {
    let part = |range: std::ops::Range<usize>| digits.get(range).and_then(|part| part.parse::<u8>().ok());
    let (Some(year), Some(month), Some(day)) = (part(0..2), part(2..4), part(4..6)) else { return false };
    Month::try_from(month).is_ok_and(|month| Date::from_calendar_date(2000 + i32::from(year), month, day).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_in_what_a_bank_sends() {
        #[rustfmt::skip]
        let cases = [
            // text,                                      number,                why
            ("260331-000042",                             Some("260331-000042"), "the number alone"),
            ("Invoice 260331-000042, thank you",          Some("260331-000042"), "in a sentence"),
            ("RF260331-000042/260331-000042",             Some("260331-000042"), "twice the same"),
            ("260331-000042-",                            Some("260331-000042"), "with something cut off"),
            ("260331-0000421234567",                      Some("260331-0000421234567"), "a long sequence"),
            ("260331-000042 and 260331-000043",           None,                  "two invoices"),
            ("260331 000042",                             None,                  "its parts are not joined"),
            ("1260331-000042",                            None,                  "a day has six digits"),
            ("260331-000042-7",                           Some("260331-000042"), "with the count of a payer"),
            ("INV-2026-260331-000042",                    Some("260331-000042"), "behind a year"),
            ("260331-000042 tel. 040000-1234567",         Some("260331-000042"), "with a telephone number"),
            ("Ü260331-000042ß",                           Some("260331-000042"), "between letters of two bytes"),
            ("260230-000042",                             None,                  "no February has thirty days"),
            ("260331-000042-0000042",                     Some("260331-000042"), "digits in digits"),
            ("260331-000042123456789012345",              None,                  "too long"),
            ("",                                          None,                  "nothing"),
        ];
        for (text, number, why) in cases {
            assert_eq!(number_in(text).ok().as_deref(), number, "{text}: {why}");
        }
    }
}
