//! Usage alerts as answers and messages show them.

use billing_domain::id::{MetricId, PlanVersionId, SubscriptionId, UsageAlertId};
use billing_domain::usage_alert::{AlertKind, AlertScope, AlertUnit, TriggeredAlert, UsageAlert};

use crate::wire::{CustomerBriefView, Instant, Number, view, words_of};

words_of! { AlertKind, AlertUnit }

view! {
    /// A figure and a threshold of which the organization is told once for each customer and interval.
    UsageAlertView {
        /// Its id.
        usage_alert_id: UsageAlertId,
        /// Which figure.
        kind: AlertKind,
        /// Of which metric; null for spend and credits.
        metric_id: Option<MetricId>,
        /// Where it is reached: from below for usage and spend, from above for what is left.
        threshold: Number,
        /// What the threshold is counted in.
        unit: AlertUnit,
        /// In which currency the figure is; null for usage and prepaid units.
        currency_code: Option<String>,
        /// About this customer alone.
        customer_id: Option<String>,
        /// About whoever holds this plan version alone.
        plan_version_id: Option<PlanVersionId>,
        /// When it was made.
        created_on: Instant,
    }
}

impl From<&UsageAlert> for UsageAlertView {
    fn from(alert: &UsageAlert) -> Self {
        let (customer_id, plan_version_id) = match &alert.scope {
            AlertScope::Everybody => (None, None),
            AlertScope::Customer(id) => (Some(id.as_str().to_owned()), None),
            AlertScope::PlanVersion(version) => (None, Some(*version)),
        };
        Self {
            usage_alert_id: alert.id,
            kind: alert.kind,
            metric_id: alert.metric,
            threshold: (&alert.threshold).into(),
            unit: alert.unit,
            currency_code: alert.currency_code.clone(),
            customer_id,
            plan_version_id,
            created_on: Instant(alert.created_at),
        }
    }
}

view! {
    /// A usage alert whose threshold was reached.
    TriggeredAlertView {
        /// The alert.
        usage_alert: UsageAlertView,
        /// Whose figure it is.
        customer: CustomerBriefView,
        /// Of which subscription's; null for spend and credits, which are all that the customer has.
        subscription_id: Option<SubscriptionId>,
        /// Since when the figure counts: the start of the reset interval, of the period, or the latest grant of credit.
        interval_start: Instant,
        /// When it begins anew; null for credits.
        interval_end: Option<Instant>,
        /// The figure, as the calls that show it answer it.
        value: Number,
        /// What the threshold is in percent of; null where it is absolute.
        percent_of: Option<Number>,
    }
}

impl From<&TriggeredAlert> for TriggeredAlertView {
    fn from(triggered: &TriggeredAlert) -> Self {
        Self {
            usage_alert: (&triggered.alert).into(),
            customer: (&triggered.customer).into(),
            subscription_id: triggered.subscription,
            interval_start: Instant(triggered.interval_start),
            interval_end: triggered.interval_end.map(Instant),
            value: (&triggered.value).into(),
            percent_of: triggered.whole.as_ref().map(Into::into),
        }
    }
}
