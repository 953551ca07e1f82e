//! Creates a metric.

use time::OffsetDateTime;

use super::tell::tell_of_organization;
use crate::custom_sql::CustomUsageRequest;
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Refusal};
use crate::id::{CustomerKey, MetricId};
use crate::message::{MessageType, Subject};
use crate::metric::{Measure, Metric, MetricFilters};
use crate::period::Period;
use crate::store::Transaction;
use crate::subscription::SubscriptionFilters;
use crate::text;

/// A new metric.
#[derive(Clone, Debug)]
pub struct CreateMetric {
    /// Its name; `None`: made from what it measures.
    pub name: Option<String>,
    /// The events it counts.
    pub event_name: String,
    /// How.
    pub measure: Measure,
    /// Which of them.
    pub filters: MetricFilters,
    /// Whether it tracks the organization's own costs.
    pub is_cost_metric: bool,
}

impl CreateMetric {
    /// Checks what can be checked without looking anything up.
    ///
    /// # Errors
    /// Every bad name and filter.
    pub fn check(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if let Some(name) = &self.name {
            errors.keep("metric_name", text::check(name, text::NAME_CHARACTERS_MAX));
        }
        let is_custom = matches!(self.measure, Measure::Custom(_));
        // The query of a custom metric says itself which events count.
        if !is_custom || !self.event_name.is_empty() {
            errors.keep("event_name", text::check_id(&self.event_name));
        }
        if let Measure::Custom(sql) = &self.measure {
            let checked = sql
                .check()
                .map_err(|error| FieldError::new("custom_sql", FieldCode::CustomSqlNotAllowed, error.to_string()));
            errors.keep("", checked);
            let filters = [
                ("categorical_filters", self.filters.categorical_filters.is_empty()),
                ("numeric_filters", self.filters.numeric_filters.is_empty()),
            ];
            for (attr, _) in filters.into_iter().filter(|(_, is_empty)| !is_empty) {
                let detail = format!("A custom metric has no {attr}; its query has WHERE.");
                errors.push(attr, FieldCode::InvalidChoice, detail);
            }
        }
        if let Some(property) = self.measure.aggregation().property_name() {
            errors.keep("property_name", text::check_id(property));
        }
        errors.keep_all("", self.filters.check());
        errors.finish(())
    }

    /// The metric as it would be.
    pub(super) fn build(&self, id: MetricId, now: OffsetDateTime) -> Metric {
        Metric {
            id,
            name: self.name.clone().unwrap_or_else(|| name_of(self)),
            event_name: self.event_name.clone(),
            measure: self.measure.clone(),
            filters: self.filters.clone(),
            is_cost_metric: self.is_cost_metric,
            created_at: now,
            archived_at: None,
        }
    }
}

/// Creates a metric. Events that came before it count too.
///
/// # Errors
/// Bad names or filters; [`Refusal::DuplicateResource`] when a metric has the name already.
pub fn create_metric(tx: &mut dyn Transaction, command: &CreateMetric, now: OffsetDateTime) -> Result<Metric, Error> {
    command.check()?;
    let metric = command.build(tx.new_uuid().into(), now);
    if tx.metrics().list()?.iter().any(|other| other.archived_at.is_none() && other.name == metric.name) {
        return Err(Refusal::DuplicateResource("A metric with this name already exists").into());
    }
    try_on_store(tx, &metric, now)?;
    tx.metrics().insert(&metric)?;
    tell_of_organization(tx, (MessageType::MetricCreated, now), &Subject::Metric(metric.clone()))?;
    Ok(metric)
}

/// Runs the query of a custom metric for nobody, to see whether the store can.
fn try_on_store(tx: &mut dyn Transaction, metric: &Metric, now: OffsetDateTime) -> Result<(), Error> {
    let Measure::Custom(sql) = &metric.measure else { return Ok(()) };
    let period = Period::new(now - time::Duration::DAY, now).unwrap_or(Period::at(now));
    let request = CustomUsageRequest {
        customer: CustomerKey::from(uuid::Uuid::nil()),
        sql: sql.clone(),
        filters: SubscriptionFilters::none(),
        period,
    };
    for result in tx.events().custom_usages(&[request])? {
        result.map_err(|failure| {
            FieldError::new("custom_sql", FieldCode::CustomSqlNotAllowed, format!("On no events {failure}."))
        })?;
    }
    Ok(())
}

fn name_of(command: &CreateMetric) -> String {
    let (aggregation, event_name) = (command.measure.aggregation(), &command.event_name);
    let kind = match &command.measure {
        Measure::Counter(_) => aggregation.as_str().to_owned(),
        Measure::Gauge(_) => "level".to_owned(),
        Measure::Rate(_) => format!("rate of {}", aggregation.as_str()),
        Measure::Custom(_) if event_name.is_empty() => return "custom query".to_owned(),
        Measure::Custom(_) => "custom query".to_owned(),
    };
    match aggregation.property_name() {
        None => format!("{kind} of {event_name}"),
        Some(property_name) => format!("{kind} of {property_name} of {event_name}"),
    }
}
