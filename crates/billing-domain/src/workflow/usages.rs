//! Usage of metrics of every kind: those with a query of their own are asked apart from the others, and may fail.

use crate::custom_sql::{CustomFailure, CustomUsageRequest};
use crate::error::{Error, Refusal, StoreError};
use crate::metric::Measure;
use crate::store::Transaction;
use crate::usage::{SeenUsage, Usage, UsageRequest};

/// The usage behind each request and how far it saw, or why a custom metric has none, in the order of the requests. Custom
/// metrics are asked first: what lands between the two statements is late usage.
pub(super) fn try_usages(
    tx: &mut dyn Transaction,
    requests: &[UsageRequest],
) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Error> {
    let custom: Vec<CustomUsageRequest> = requests.iter().filter_map(custom_request).collect();
    let mut custom = tx.events().seen_custom_usages(&custom)?.into_iter();
    let others: Vec<UsageRequest> =
        requests.iter().filter(|request| custom_request(request).is_none()).cloned().collect();
    let mut others = tx.events().seen_usages(&others)?.into_iter().map(Ok);
    let of_kind = |request: &UsageRequest| match custom_request(request) {
        Some(_) => custom.next(),
        None => others.next(),
    };
    let usages: Option<Vec<_>> = requests.iter().map(of_kind).collect();
    usages.ok_or_else(|| StoreError::Internal("the store left a question about usage unanswered".to_owned()).into())
}

/// As [`try_usages`], where a custom metric that fails refuses everything.
///
/// # Errors
/// [`Refusal::CustomMetricFailed`]; [`StoreError::Internal`] when it was not the query that failed.
pub(super) fn usages(tx: &mut dyn Transaction, requests: &[UsageRequest]) -> Result<Vec<Usage>, Error> {
    let usages = try_usages(tx, requests)?.into_iter();
    usages.map(|seen| seen.map(|seen| seen.usage).map_err(refusal)).collect()
}

/// What a caller is told who asks for nothing but the usage.
fn refusal(failure: CustomFailure) -> Error {
    match failure {
        CustomFailure::Fault => StoreError::Internal(failure.to_string()).into(),
        failure => Refusal::CustomMetricFailed(failure).into(),
    }
}

fn custom_request(request: &UsageRequest) -> Option<CustomUsageRequest> {
    let Measure::Custom(sql) = &request.metric.measure else { return None };
    Some(CustomUsageRequest {
        customer: request.customer,
        sql: sql.clone(),
        filters: request.filters.clone(),
        period: request.period,
    })
}
