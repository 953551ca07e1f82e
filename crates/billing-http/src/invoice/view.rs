//! Invoices as answers show them.

use billing_domain::decimal;
use billing_domain::id::{InvoiceId, LineId};
use billing_domain::invoice::{
    Adjustment, AdjustmentKind, BilledTo, BillingType, Invoice, InvoiceSummary, LineItem, PaymentStatus, Seller,
};

use crate::credit_note::CreditNoteBriefView;
use crate::wire::{AddressView, CurrencyView, Day, Empty, FilterView, Instant, Number, PlanVersionBriefView, view};

view! {
    /// An issued invoice.
    InvoiceView {
        ..brief: InvoiceBriefView,
        /// What is charged.
        line_items: Vec<InvoiceLineView>,
        /// The credit notes that took something back of it, oldest first; messages show none.
        credit_notes: Vec<CreditNoteBriefView>,
        /// The voided invoice in whose place it was issued, which it bills again.
        replaces: Option<InvoiceId>,
        /// The invoice that was issued in its place when it was voided.
        replaced_by: Option<InvoiceId>,
        /// Whose it is, as they were on the day of issue.
        customer: InvoiceCustomerView,
    }
}

view! {
    /// An invoice without its lines and its customer.
    InvoiceBriefView {
        /// Its id.
        invoice_id: InvoiceId,
        /// `YYMMDD-NNNNNN`: the UTC day of issue and a sequence without gaps.
        invoice_number: String,
        /// Deprecated: the same as amount.
        cost_due: Number,
        /// The sum of the lines, with adjustments and tax.
        amount: Number,
        /// What is left to pay of it; 0 when it is paid or voided.
        amount_due: Number,
        /// What it is in.
        currency: CurrencyView,
        /// When it was issued.
        issue_date: Instant,
        /// Where its payment stands.
        payment_status: PaymentStatus,
        /// Always null.
        external_payment_obj_id: Option<String>,
        /// Always null.
        external_payment_obj_type: Option<String>,
        /// Always null.
        external_payment_obj_status: Option<String>,
        /// When it falls due.
        due_date: Option<Instant>,
        /// The first day that its lines are for.
        start_date: Day,
        /// The last day that its lines are for.
        end_date: Day,
        /// Who issued it, as they were on the day of issue.
        seller: SellerView,
        /// Always null.
        invoice_pdf: Option<String>,
    }
}

impl From<&Invoice> for InvoiceView {
    fn from(invoice: &Invoice) -> Self {
        let line_items =
            invoice.named_lines().map(|(line_id, line)| InvoiceLineView { line_id, line: line.into() }).collect();
        let credit_notes = invoice.credit_notes.iter().map(Into::into).collect();
        Self {
            brief: invoice.into(),
            line_items,
            credit_notes,
            replaces: invoice.replaces,
            replaced_by: invoice.replaced_by,
            customer: (&invoice.billed_to).into(),
        }
    }
}

view! {
    /// An invoice that was voided, and what that means for what it charged.
    VoidedInvoiceView {
        ..invoice: InvoiceView,
        /// The invoice that was issued in its place; null without `rebill`, and in messages.
        reissue: Option<InvoiceView>,
        /// What is forgiven; nothing of an invoice that was issued anew: it is not charged again, and since nobody pays it, it does not come back either.
        forgiven: Vec<ForgottenLineView>,
        /// What the invoice took back of earlier ones; nothing of an invoice that was issued anew: it is owed again, and comes with the next invoice.
        owed_again: Vec<ForgottenLineView>,
    }
}

view! {
    /// A line of a voided invoice.
    ForgottenLineView {
        /// Its id.
        line_id: LineId,
        /// What it was for.
        name: String,
        /// The recurring charge that it was for, by its name in the plan version.
        charge_name: Option<String>,
        /// The first instant that it was for.
        start_date: Instant,
        /// The last instant that it was for.
        end_date: Instant,
        /// With adjustments and tax; of what is owed again, more than nothing.
        amount: Number,
    }
}

impl VoidedInvoiceView {
    /// Of a voided invoice and the one that was issued in its place, if any.
    pub fn new(invoice: &Invoice, reissue: Option<&Invoice>) -> Self {
        let is_forgotten = invoice.replaced_by.is_none();
        let view = |(line_id, line): (LineId, &LineItem)| ForgottenLineView {
            line_id,
            name: line.name.clone(),
            charge_name: line.charge_name().map(str::to_owned),
            start_date: Instant(line.period.start()),
            end_date: Instant(line.period.last_instant()),
            amount: (&line.amount.abs()).into(),
        };
        Self {
            invoice: invoice.into(),
            reissue: reissue.map(Into::into),
            forgiven: invoice.forgiven_when_voided().filter(|_| is_forgotten).map(view).collect(),
            owed_again: invoice.owed_again_when_voided().filter(|_| is_forgotten).map(view).collect(),
        }
    }
}

impl From<&Invoice> for InvoiceBriefView {
    fn from(invoice: &Invoice) -> Self {
        Self::from(&invoice.summary())
    }
}

impl From<&InvoiceSummary> for InvoiceBriefView {
    fn from(invoice: &InvoiceSummary) -> Self {
        Self {
            invoice_id: invoice.id,
            invoice_number: invoice.number.clone(),
            cost_due: (&invoice.amount).into(),
            amount: (&invoice.amount).into(),
            amount_due: (&invoice.amount_due).into(),
            currency: (&invoice.currency).into(),
            issue_date: Instant(invoice.issued_at),
            payment_status: invoice.payment_status,
            external_payment_obj_id: None,
            external_payment_obj_type: None,
            external_payment_obj_status: None,
            due_date: invoice.due_at.map(Instant),
            start_date: Day(invoice.start_date),
            end_date: Day(invoice.end_date),
            seller: (&invoice.seller).into(),
            invoice_pdf: None,
        }
    }
}

view! {
    /// The customer on an invoice.
    InvoiceCustomerView {
        /// Display name.
        customer_name: Option<String>,
        /// E-mail address.
        email: Option<String>,
        /// The caller's own id.
        customer_id: String,
        /// Billing address.
        address: Option<AddressView>,
    }
}

impl From<&BilledTo> for InvoiceCustomerView {
    fn from(billed_to: &BilledTo) -> Self {
        let BilledTo { customer_id, name, email, address } = billed_to.clone();
        Self { customer_name: name, email, customer_id, address: address.as_ref().map(Into::into) }
    }
}

view! {
    /// The organization on an invoice.
    SellerView {
        /// Its name.
        name: String,
        /// Its address.
        address: Option<AddressView>,
        /// Always null.
        phone: Option<String>,
        /// Always null.
        email: Option<String>,
    }
}

impl From<&Seller> for SellerView {
    fn from(seller: &Seller) -> Self {
        let address = seller.address.as_ref().map(Into::into);
        Self { name: seller.name.clone(), address, phone: None, email: None }
    }
}

view! {
    /// A line of an issued invoice.
    InvoiceLineView {
        ..line: LineItemView,
        /// Its id: it names the line for good.
        line_id: LineId,
    }
}

view! {
    /// One line of an invoice or of a preview.
    LineItemView {
        /// What it is for.
        name: String,
        /// The recurring charge that it is for, by its name in the plan version: it tells the fees of one plan apart.
        charge_name: Option<String>,
        /// The first instant that it is for.
        start_date: Instant,
        /// The last instant that it is for.
        end_date: Instant,
        /// Units of the metric, or copies of a fee when more than one.
        quantity: Option<Number>,
        /// When it is billed relative to its time.
        billing_type: BillingType,
        /// Always empty.
        metadata: Empty,
        /// The plan version it is priced by.
        plan: Option<PlanVersionBriefView>,
        /// The subscription's filters.
        subscription_filters: Vec<FilterView>,
        /// Price before adjustments and tax.
        base: Number,
        /// What was added to it.
        adjustments: Vec<AdjustmentView>,
        /// Base and adjustments.
        amount: Number,
        /// Deprecated: the same as base.
        subtotal: Number,
    }
}

impl From<&LineItem> for LineItemView {
    fn from(line: &LineItem) -> Self {
        Self {
            name: line.name.clone(),
            charge_name: line.charge_name().map(str::to_owned),
            start_date: Instant(line.period.start()),
            end_date: Instant(line.period.last_instant()),
            quantity: line.quantity.as_ref().map(Into::into),
            billing_type: line.billing_type,
            metadata: Empty {},
            plan: line.plan.as_ref().map(Into::into),
            subscription_filters: FilterView::list(&line.filters),
            base: (&line.base).into(),
            adjustments: line.adjustments.iter().map(Into::into).collect(),
            amount: (&line.amount).into(),
            subtotal: (&line.base).into(),
        }
    }
}

view! {
    /// An amount added to the base of a line.
    AdjustmentView {
        /// How much, as text: existing clients read it so.
        amount: String,
        /// The account it is booked on.
        account: &'static str,
        /// What for.
        adjustment_type: AdjustmentKind,
    }
}

impl From<&Adjustment> for AdjustmentView {
    fn from(adjustment: &Adjustment) -> Self {
        let account = match adjustment.kind() {
            AdjustmentKind::SalesTax => "41100",
            AdjustmentKind::PlanAdjustment => "21000",
        };
        Self { amount: decimal::plain(&adjustment.amount), account, adjustment_type: adjustment.kind() }
    }
}
