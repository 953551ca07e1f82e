//! What the system does, one file for each verb: load, decide, save.
//!
//! Each workflow is a function of an open transaction, a command and `now`; it reads no clock and leaves no
//! trace when it fails. Those of one customer run in [`Scope::Customer`](crate::store::Scope::Customer), those
//! of the catalogue in [`Scope::Catalog`](crate::store::Scope::Catalog), reads in any scope.

#[cfg(feature = "service")]
mod accept_invitation;
mod account;
mod advance_test_clock;
#[cfg(feature = "service")]
mod alert_headroom;
mod analyze_costs;
#[cfg(feature = "service")]
mod apply_group_role;
#[cfg(feature = "service")]
mod approve_request;
mod archive_metric;
mod attach_addon;
mod bill_customer;
mod bundle;
mod cancel_addon;
mod cancel_matching;
mod cancel_subscription;
mod change_prepaid_units;
#[cfg(feature = "service")]
mod change_role;
mod check_feature_access;
mod check_metric_access;
mod check_tax_rate;
mod correct_events;
#[cfg(feature = "service")]
mod correct_matching_events;
mod create_addon;
#[cfg(feature = "service")]
mod create_api_key;
mod create_credit;
mod create_credit_note;
mod create_currency;
mod create_customer;
mod create_feature;
mod create_metric;
mod create_one_off_line;
mod create_organization;
mod create_plan;
mod create_plan_version;
mod create_subscription;
mod create_test_clock;
#[cfg(feature = "service")]
mod create_usage_alert;
#[cfg(feature = "service")]
mod create_webhook_endpoint;
mod credited_lines;
mod daily_usage;
mod delete_customer;
#[cfg(feature = "service")]
mod disable_webhook_endpoint;
mod draft_invoice;
mod draft_lines;
#[cfg(feature = "service")]
mod evaluate_usage_alerts;
mod find_currency;
mod find_feature;
#[cfg(feature = "service")]
mod find_later_look;
mod find_line_events;
#[cfg(feature = "service")]
mod find_member;
mod find_subscriptions;
#[cfg(feature = "service")]
mod invite_user;
mod issue_invoices;
mod list_billable_usage;
mod list_subscriptions;
mod look_ups;
mod measure_usage;
mod note_payment;
mod note_tax_quote;
mod one_off_lines;
#[cfg(feature = "service")]
mod park_billing;
mod preview_change;
mod preview_corrections;
#[cfg(feature = "service")]
mod preview_matching_corrections;
mod preview_metric;
mod preview_plan;
mod read_event_receipt;
mod read_statement;
mod recount_usage;
#[cfg(feature = "service")]
mod regenerate_api_key;
mod reissue_invoice;
#[cfg(feature = "service")]
mod remove_member;
mod remove_one_off_line;
mod renew_subscription;
#[cfg(feature = "service")]
mod replay_webhooks;
#[cfg(feature = "service")]
mod request_approval;
#[cfg(feature = "service")]
mod request_books_audit;
mod return_credits;
mod reverse_payment;
#[cfg(feature = "service")]
mod rotate_webhook_secret;
mod search_customers;
mod second_person;
mod switch_plan;
mod tax_lines;
mod tell;
mod tell_account;
mod untold;
mod update_credit;
mod update_customer;
mod update_invoice;
mod update_matching;
mod update_organization;
mod update_plan;
mod update_plan_version;
mod update_subscription;
#[cfg(feature = "service")]
mod update_webhook_endpoint;
mod usages;
mod void_credit;
mod void_credit_note;
mod void_invoice;

#[cfg(feature = "service")]
pub use accept_invitation::accept_invitation;
pub use advance_test_clock::{
    AdvanceTestClock, INTERVALS_MAX, advance_customer, advance_test_clock, fail_test_clock, finish_test_clock,
};
pub use analyze_costs::{ANALYZED_DAYS_MAX, AnalyzeCosts, AnalyzedDay, CostAnalysis, analyze_costs};
#[cfg(feature = "service")]
pub use apply_group_role::{AppliedRole, ApplyGroupRole, apply_group_role};
#[cfg(feature = "service")]
pub use approve_request::{approve_request, conclude_approval, decline_approval, withdraw_approval};
pub use archive_metric::archive_metric;
pub use attach_addon::{AddonChoice, AttachAddon, attach_addon};
pub use bill_customer::{CALL_WORK_MAX, Progress, WORKER_WORK_MAX, bill_customer, bill_customer_partly};
pub use cancel_addon::{AttachedAddon, CancelAddon, cancel_addon};
pub use cancel_matching::{CancelMatching, cancel_matching};
pub use cancel_subscription::{CancelSubscription, cancel_subscription};
pub use change_prepaid_units::{ChangePrepaidUnits, change_prepaid_units};
#[cfg(feature = "service")]
pub use change_role::change_role;
pub use check_feature_access::{CheckFeatureAccess, CheckedFeature, check_feature_access};
#[cfg(feature = "service")]
pub use check_metric_access::AccessQuestion;
pub use check_metric_access::{
    CheckMetricAccess, CheckedAccess, PreparedCheck, SubscriptionAccess, check_metric_access, prepare_metric_access,
};
pub use correct_events::{CorrectEvents, EventChange, WantedCorrection, correct_events};
#[cfg(feature = "service")]
pub use correct_matching_events::{EVENTS_PER_STEP, NextStep, check_order, correct_matching_events, order_corrections};
pub use create_addon::{CreateAddon, create_addon};
#[cfg(feature = "service")]
pub use create_api_key::{CreateApiKey, create_api_key};
pub use create_credit::{CreateCredit, create_credit};
pub use create_credit_note::{CreateCreditNote, CreditLine, Share, create_credit_note};
pub use create_currency::create_currency;
pub use create_customer::{CreateCustomer, create_customer};
pub use create_feature::{CreateFeature, create_feature};
pub use create_metric::{CreateMetric, create_metric};
pub use create_one_off_line::{CreateOneOffLine, OneOffPrice, create_one_off_line};
pub use create_organization::{CreateOrganization, create_organization};
pub use create_plan::{CreatePlan, create_plan};
pub use create_plan_version::{
    ActiveFrom, CreatePlanVersion, MakeActiveType, NewComponent, NewPlanVersion, NewRecurringCharge,
    create_plan_version,
};
pub use create_subscription::{CreateSubscription, VersionChoice, create_subscription};
pub use create_test_clock::{CreateTestClock, create_test_clock};
#[cfg(feature = "service")]
pub use create_usage_alert::{CreateUsageAlert, create_usage_alert};
#[cfg(feature = "service")]
pub use create_webhook_endpoint::{CreateWebhookEndpoint, create_webhook_endpoint};
pub use delete_customer::{DeletedCustomer, delete_customer};
#[cfg(feature = "service")]
pub use disable_webhook_endpoint::disable_webhook_endpoint;
pub use draft_invoice::{DraftInvoice, DraftInvoices, DraftedInvoice, draft_invoice};
#[cfg(feature = "service")]
pub use evaluate_usage_alerts::evaluate_usage_alerts;
pub use find_currency::find_currency;
pub use find_feature::find_feature;
#[cfg(feature = "service")]
pub use find_later_look::find_later_look;
pub use find_line_events::find_line_events;
#[cfg(feature = "service")]
pub use find_member::find_member;
pub use find_subscriptions::FindSubscriptions;
#[cfg(feature = "service")]
pub use invite_user::{InviteUser, invite_user};
pub use list_billable_usage::{BillableUsage, ComponentUsage, ListBillableUsage, MeteredBy, list_billable_usage};
pub use list_subscriptions::{ListedSubscriptions, list_subscriptions};
pub use measure_usage::{MeasureUsage, MeasuredUsage, Moment, UsageSpan, UsageWindow, WINDOWS_MAX, measure_usage};
pub use note_payment::{NotePayment, note_payment};
pub use note_tax_quote::{TaxAnswer, TaxQuestion, note_tax_quote, tax_question};
#[cfg(feature = "service")]
pub use park_billing::park_billing;
pub use preview_change::{ChangePreview, preview_change, preview_new_subscription};
pub use preview_corrections::{CorrectionsPreview, LineCorrection, Outlook, RecountedUsage, preview_corrections};
#[cfg(feature = "service")]
pub use preview_matching_corrections::{
    MatchingPreview, MoneyChange, customers_with_matching_events, preview_matching_corrections,
};
pub use preview_metric::{METRIC_PREVIEW_MAX, PreviewMetric, preview_metric};
pub use preview_plan::{PlanPreview, PreviewPlan, preview_plan};
pub use read_event_receipt::{
    BilledOn, CountedFor, CountsForNothing, EventReceipt, ReadEventReceipt, read_event_receipt,
};
pub use read_statement::{ReadStatement, STATEMENT_ENTRIES_MAX, read_statement};
#[cfg(feature = "service")]
pub use regenerate_api_key::{RegenerateApiKey, regenerate_api_key};
pub use reissue_invoice::reissue_invoice;
#[cfg(feature = "service")]
pub use remove_member::remove_member;
pub use remove_one_off_line::remove_one_off_line;
#[cfg(feature = "service")]
pub use replay_webhooks::{Replay, replay_webhooks};
#[cfg(feature = "service")]
pub use request_approval::{RequestApproval, WAITING_APPROVALS_MAX, request_approval};
#[cfg(feature = "service")]
pub use request_books_audit::request_books_audit;
pub use reverse_payment::{ReversePayment, reverse_payment};
#[cfg(feature = "service")]
pub use rotate_webhook_secret::rotate_webhook_secret;
pub use search_customers::{FOUND_MAX, search_customers};
pub use switch_plan::{SwitchPlan, switch_plan};
pub use update_credit::{UpdateCredit, update_credit};
pub use update_customer::{CustomerPatch, update_customer};
pub use update_invoice::{UpdateInvoice, update_invoice};
pub use update_matching::{MatchingChange, UpdateMatching, update_matching};
pub use update_organization::{NewTaxHook, OrganizationPatch, update_organization};
pub use update_plan::{UpdatePlan, delete_plan, update_plan};
pub use update_plan_version::{UpdatePlanVersion, delete_plan_version, update_plan_version};
pub use update_subscription::{UpdateSubscription, update_subscription};
#[cfg(feature = "service")]
pub use update_webhook_endpoint::{WebhookEndpointPatch, update_webhook_endpoint};
pub use void_credit::void_credit;
pub use void_credit_note::void_credit_note;
pub use void_invoice::void_invoice;

#[cfg(test)]
mod tests;
