//! Having an organization told when a figure of a customer's reaches a threshold.

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;

use super::find_currency::find_currency;
use crate::customer::CustomerId;
use crate::error::{Error, FieldCode, FieldError, FieldErrors};
use crate::id::{CustomerKey, MetricId, PlanVersionId};
use crate::store::Transaction;
use crate::usage_alert::{AlertKind, AlertScope, AlertUnit, USAGE_ALERTS_MAX, UsageAlert};

/// A new alert.
#[derive(Clone, Debug)]
pub struct CreateUsageAlert {
    /// Which figure.
    pub kind: AlertKind,
    /// Of which metric.
    pub metric: Option<MetricId>,
    /// Where it is reached.
    pub threshold: BigDecimal,
    /// What the threshold is counted in.
    pub unit: AlertUnit,
    /// In which currency an amount is; `None`: in the organization's default.
    pub currency_code: Option<String>,
    /// About this customer alone.
    pub customer: Option<CustomerId>,
    /// About whoever holds this version alone.
    pub plan_version: Option<PlanVersionId>,
}

impl CreateUsageAlert {
    /// What is wrong with it, whatever there is in the store.
    ///
    /// # Errors
    /// Every bad field.
    pub fn check(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        let kind = self.kind.as_str();
        if self.kind.has_metric() && self.metric.is_none() {
            errors.push("metric_id", FieldCode::Required, format!("An alert on {kind} is about a metric."));
        }
        if !self.kind.has_metric() && self.metric.is_some() {
            errors.push("metric_id", FieldCode::InvalidChoice, format!("An alert on {kind} is about no metric."));
        }
        if self.kind != AlertKind::MetricUsage && self.unit != AlertUnit::Absolute {
            let detail =
                format!("The threshold of {kind} is absolute: percents are of a metric's limit or free usage.");
            errors.push("unit", FieldCode::InvalidChoice, detail);
        }
        if self.kind.has_metric() && self.currency_code.is_some() {
            let detail = format!("An alert on {kind} is in units of its metric.");
            errors.push("currency_code", FieldCode::InvalidChoice, detail);
        }
        let (zero, is_remainder) = (BigDecimal::zero(), self.kind.is_remainder());
        if self.threshold < zero || (self.threshold == zero && !is_remainder) {
            let least = if is_remainder { "at least 0" } else { "greater than 0" };
            errors.push("threshold", FieldCode::MinValue, format!("The threshold of {kind} is {least}."));
        }
        if self.customer.is_some() && self.plan_version.is_some() {
            let detail = "Give customer_id or plan_version_id, or none of them for every customer.";
            errors.push("plan_version_id", FieldCode::NotAllowedTogether, detail);
        }
        errors.finish(())
    }
}

/// Creates an alert. Where the figure has reached the threshold already, it fires once.
///
/// # Errors
/// Bad fields; a metric, customer, plan version or currency that does not exist; more than [`USAGE_ALERTS_MAX`] alerts.
pub fn create_usage_alert(
    tx: &mut dyn Transaction,
    command: &CreateUsageAlert,
    now: OffsetDateTime,
) -> Result<UsageAlert, Error> {
    command.check()?;
    if let Some(metric) = command.metric {
        tx.metrics().get(metric).map_err(|error| error.at_field("metric_id"))?;
    }
    let scope = match (&command.customer, command.plan_version) {
        (Some(customer), _) => {
            let key = CustomerKey::derive(tx.organization(), customer);
            tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
            AlertScope::Customer(customer.clone())
        }
        (None, Some(version)) => {
            let found = tx.plans().get_version(version).map_err(|error| error.at_field("plan_version_id"))?;
            AlertScope::PlanVersion(found.id)
        }
        (None, None) => AlertScope::Everybody,
    };
    let currency_code = match (&command.currency_code, command.kind.has_metric()) {
        (_, true) => None,
        (Some(code), false) => Some(find_currency(tx, code).map_err(|error| error.at_field("currency_code"))?.code),
        (None, false) => Some(tx.organizations().get()?.default_currency_code),
    };
    if tx.usage_alerts().list()?.len() >= USAGE_ALERTS_MAX {
        let detail = format!("An organization has at most {USAGE_ALERTS_MAX} usage alerts.");
        return Err(FieldError::new("kind", FieldCode::ListTooLong, detail).into());
    }
    let alert = UsageAlert {
        id: tx.new_uuid().into(),
        kind: command.kind,
        metric: command.metric,
        threshold: command.threshold.clone(),
        unit: command.unit,
        currency_code,
        scope,
        created_at: now,
    };
    tx.usage_alerts().insert(&alert)?;
    Ok(alert)
}
