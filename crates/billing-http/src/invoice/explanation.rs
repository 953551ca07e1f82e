//! How each line of an invoice came about.

use billing_domain::id::{InvoiceId, LineId, SubscriptionId};
use billing_domain::invoice::{Adjustment, AdjustmentKind, Invoice, LineItem};
use serde_json::Value;

use crate::error::ApiError;
use crate::wire::{CurrencyView, Instant, Number, view};

view! {
    /// An invoice, line by line, with enough to compute it again by hand.
    ExplanationView {
        /// The invoice.
        invoice_id: InvoiceId,
        /// Its number.
        invoice_number: String,
        /// What it is in.
        currency: CurrencyView,
        /// The sum of the lines.
        amount: Number,
        /// Its lines.
        line_items: Vec<ExplainedLineView>,
    }
}

view! {
    /// One line and how it came about.
    ExplainedLineView {
        /// Its id.
        line_id: LineId,
        /// What it is for.
        name: String,
        /// The recurring charge that it is for, by its name in the plan version.
        charge_name: Option<String>,
        /// The subscription it belongs to.
        subscription_id: Option<SubscriptionId>,
        /// The first instant that it is for.
        start_date: Instant,
        /// The last instant that it is for.
        end_date: Instant,
        /// Price before adjustments and tax.
        base: Number,
        /// What was added to it, and how that was rounded.
        adjustments: Vec<ExplainedAdjustmentView>,
        /// Base and adjustments.
        amount: Number,
        /// The metric, window, events, tiers, fractions and rounding behind the base; its `kind` says which.
        trace: Value,
    }
}

view! {
    /// An amount added to the base of a line, and how it came about.
    ExplainedAdjustmentView {
        /// What for.
        adjustment_type: AdjustmentKind,
        /// How much.
        amount: Number,
        /// The rate, the amounts and the rounding behind it; its `kind` says which.
        trace: Value,
    }
}

impl ExplanationView {
    /// Of an invoice.
    ///
    /// # Errors
    /// None that a client can cause.
    pub fn new(invoice: &Invoice) -> Result<Self, ApiError> {
        Ok(Self {
            invoice_id: invoice.id,
            invoice_number: invoice.number.clone(),
            currency: (&invoice.currency).into(),
            amount: (&invoice.amount).into(),
            line_items: invoice.named_lines().map(ExplainedLineView::new).collect::<Result<_, _>>()?,
        })
    }
}

impl ExplainedLineView {
    fn new((line_id, line): (LineId, &LineItem)) -> Result<Self, ApiError> {
        Ok(Self {
            line_id,
            name: line.name.clone(),
            charge_name: line.charge_name().map(str::to_owned),
            subscription_id: line.subscription,
            start_date: Instant(line.period.start()),
            end_date: Instant(line.period.last_instant()),
            base: (&line.base).into(),
            adjustments: line.adjustments.iter().map(ExplainedAdjustmentView::new).collect::<Result<_, _>>()?,
            amount: (&line.amount).into(),
            trace: serde_json::to_value(&line.trace).map_err(ApiError::internal)?,
        })
    }
}

impl ExplainedAdjustmentView {
    /// Of an amount added to the base of a line.
    ///
    /// # Errors
    /// None that a client can cause.
    pub fn new(adjustment: &Adjustment) -> Result<Self, ApiError> {
        Ok(Self {
            adjustment_type: adjustment.kind(),
            amount: (&adjustment.amount).into(),
            trace: serde_json::to_value(&adjustment.basis).map_err(ApiError::internal)?,
        })
    }
}
