//! Previews of invoices.

use actix_web::web;
use bigdecimal::BigDecimal;
use billing_domain::customer::CustomerId;
use billing_domain::id::InvoiceId;
use billing_domain::invoice::LineItem;
use billing_domain::workflow::{DraftInvoice, DraftedInvoice, draft_invoice};

use crate::app::App;
use crate::caller::Bearer;
use crate::error::ApiError;
use crate::invoice::LineItemView;
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{CurrencyView, Day, FilterView, Instant, Number, view};

/// How far a preview looks.
pub struct Reach {
    include_next_period: bool,
}

impl FromQuery for Reach {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let include = query.optional::<bool>("include_next_period");
        let include_next_period = query.finish(include)?.unwrap_or(true);
        Ok(Self { include_next_period })
    }
}

view! {
    /// What a customer would be billed now.
    DraftInvoicesView {
        /// One for each currency.
        invoices: Vec<DraftInvoiceView>,
    }
}

view! {
    /// An invoice that is not issued.
    DraftInvoiceView {
        /// An id of its own that names nothing.
        invoice_id: InvoiceId,
        /// Deprecated: the same as amount.
        cost_due: Number,
        /// The sum of the lines.
        amount: Number,
        /// What it is in.
        currency: CurrencyView,
        /// When it would be issued.
        issue_date: Instant,
        /// When it would fall due.
        due_date: Option<Instant>,
        /// The first day that its lines are for.
        start_date: Day,
        /// The last day that its lines are for.
        end_date: Day,
        /// Always null.
        external_payment_obj_status: Option<String>,
        /// Always null.
        external_payment_obj_url: Option<String>,
        /// Always null.
        crm_provider: Option<String>,
        /// Always null.
        crm_provider_id: Option<String>,
        /// Always null.
        crm_provider_url: Option<String>,
        /// Its lines, by subscription.
        line_items: Vec<LineItemGroupView>,
    }
}

view! {
    /// The lines of one subscription.
    LineItemGroupView {
        /// The plan.
        plan_name: Option<String>,
        /// The subscription's filters.
        subscription_filters: Vec<FilterView>,
        /// The sum of the lines' amounts.
        base: Number,
        /// The first instant that its lines are for.
        start_date: Instant,
        /// The last instant that its lines are for.
        end_date: Instant,
        /// The lines.
        sub_items: Vec<LineItemView>,
    }
}

impl From<&DraftedInvoice> for DraftInvoiceView {
    fn from(draft: &DraftedInvoice) -> Self {
        let mut groups: Vec<Vec<&LineItem>> = Vec::new();
        for line in &draft.lines {
            match groups.iter_mut().find(|group| group.iter().any(|other| other.subscription == line.subscription)) {
                Some(group) => group.push(line),
                None => groups.push(vec![line]),
            }
        }
        let starts = draft.lines.iter().map(|line| line.period.start());
        let ends = draft.lines.iter().map(|line| line.period.last_instant());
        Self {
            invoice_id: draft.id,
            cost_due: (&draft.amount).into(),
            amount: (&draft.amount).into(),
            currency: CurrencyView::from(&draft.currency),
            issue_date: Instant(draft.issued_at),
            due_date: draft.due_at.map(Instant),
            start_date: Day(starts.min().unwrap_or(draft.issued_at).date()),
            end_date: Day(ends.max().unwrap_or(draft.issued_at).date()),
            external_payment_obj_status: None,
            external_payment_obj_url: None,
            crm_provider: None,
            crm_provider_id: None,
            crm_provider_url: None,
            line_items: groups.iter().filter_map(|group| LineItemGroupView::new(group)).collect(),
        }
    }
}

impl LineItemGroupView {
    fn new(lines: &[&LineItem]) -> Option<Self> {
        let first = lines.first()?;
        Some(Self {
            plan_name: first.plan.as_ref().map(|plan| plan.plan_name.clone()),
            subscription_filters: FilterView::list(&first.filters),
            base: Number(lines.iter().map(|line| &line.amount).sum::<BigDecimal>()),
            start_date: Instant(lines.iter().map(|line| line.period.start()).min()?),
            end_date: Instant(lines.iter().map(|line| line.period.last_instant()).max()?),
            sub_items: lines.iter().map(|line| LineItemView::from(*line)).collect(),
        })
    }
}

/// `GET /api/customers/{customer_id}/draft_invoice/`
pub async fn show(
    app: web::Data<App>,
    bearer: Bearer,
    PathParam(customer): PathParam<CustomerId>,
    ApiQuery(reach): ApiQuery<Reach>,
) -> Result<web::Json<DraftInvoicesView>, ApiError> {
    let command = DraftInvoice { customer: customer.clone(), include_next_period: reach.include_next_period };
    let drafts = app.read_customer(&bearer, &customer, move |tx, now| draft_invoice(tx, &command, now)).await?;
    Ok(web::Json(DraftInvoicesView { invoices: drafts.invoices.iter().map(Into::into).collect() }))
}
