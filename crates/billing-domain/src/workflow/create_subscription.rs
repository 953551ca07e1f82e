//! Creates a subscription and issues the invoice for what is due at its start.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Signed};
use time::OffsetDateTime;

use super::account::Account;
use super::advance_test_clock::INTERVALS_MAX;
use super::bill_customer::{CALL_WORK_MAX, UnknownRate, finish_due, process_some};
use super::issue_invoices::issue_invoices;
use crate::catalog::Offer;
use crate::charge::{BillingRecord, count_records};
use crate::customer::CustomerId;
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Noun, Refusal};
use crate::faults::look_up;
use crate::id::{CustomerKey, MetricId, PlanId, PlanVersionId};
use crate::message::{MessageType, NewSubscription};
use crate::period::{Cadence, Calendar, Period, PlanDuration, Tile, instant};
use crate::plan::{PlanVersion, choose_version};
use crate::store::Transaction;
use crate::subscription::{Settled, Subscription, SubscriptionFilters};

/// A new subscription.
#[derive(Clone, Debug)]
pub struct CreateSubscription {
    /// Whose.
    pub customer: CustomerId,
    /// To what.
    pub version: VersionChoice,
    /// Its first instant; may lie in the past.
    pub start: OffsetDateTime,
    /// The first instant after it; `None`: as long as the plan lasts.
    pub end: Option<OffsetDateTime>,
    /// Whether it renews at its end.
    pub auto_renew: bool,
    /// What it shall say of itself; renewals say false.
    pub is_new: bool,
    /// Only events with all of these properties count.
    pub filters: SubscriptionFilters,
    /// The caller's own.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// Units of prepaid components.
    pub prepaid_units: Vec<(MetricId, BigDecimal)>,
}

/// How the plan version is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionChoice {
    /// By its plan: the one version that suits the customer.
    Plan(PlanId),
    /// By its own id.
    Version(PlanVersionId),
}

/// The fields that a choice was read from, for faults to name.
#[derive(Clone, Copy)]
pub(super) struct ChoiceFields {
    /// That of [`VersionChoice::Plan`].
    pub(super) plan: &'static str,
    /// That of [`VersionChoice::Version`].
    pub(super) version: &'static str,
}

impl ChoiceFields {
    /// Those of a new subscription.
    const CREATE: Self = Self { plan: "plan_id", version: "version_id" };
    /// Those of a switch.
    pub(super) const SWITCH: Self = Self { plan: "switch_plan_id", version: "switch_plan_version_id" };
}

/// Creates a subscription, invoices what is due in advance, and catches up with what is due since a start in the past, as
/// far as one call goes: the customer is [catching up](crate::customer::Customer::catching_up) with the rest. Filter properties that are new to the organization become known to it.
/// What there is to say of the subscription comes with it, so that nobody need ask the store for what was just written there.
///
/// # Errors
/// Unknown references and bad dates by field; the refusals of [`choose_version`];
/// [`Refusal::OverlappingPlans`], [`Refusal::PrepaymentCantDetermineUnits`], [`Refusal::TestClockAdvancing`],
/// [`Refusal::CatchingUp`].
pub fn create_subscription(
    tx: &mut dyn Transaction,
    command: &CreateSubscription,
    now: OffsetDateTime,
) -> Result<NewSubscription, Error> {
    create_within(tx, command, now, CALL_WORK_MAX)
}

/// [`create_subscription`] that does about `work_max` of what is past.
pub(super) fn create_within(
    tx: &mut dyn Transaction,
    command: &CreateSubscription,
    now: OffsetDateTime,
    work_max: usize,
) -> Result<NewSubscription, Error> {
    let key = CustomerKey::derive(tx.organization(), &command.customer);
    command.faults(tx, key, now)?.finish(())?;
    let mut account = Account::load(tx, key, now)?;
    account.refuse_while_on_the_way(tx)?;
    finish_due(tx, &mut account, now)?;

    let currency = account.customer.default_currency_code.clone();
    let version = choose(tx, &account, (command.version, ChoiceFields::CREATE), &currency, now)?;
    let offer = account.offer(tx, version.id)?;
    let subscription = build(tx, &account, command, &offer, now)?;
    let existing = account.current(tx, subscription.period.start())?;
    if existing.iter().any(|other| other.overlaps(&subscription)) {
        return Err(Refusal::OverlappingPlans.into());
    }
    let records = offer.records_of(tx, &subscription)?;

    let keys: Vec<&str> = command.filters.iter().map(|(name, _)| name).collect();
    if !keys.is_empty() {
        tx.organizations().add_filter_keys(&keys)?;
    }
    let id = subscription.id;
    let start = subscription.period.start();
    account.add_unsaved(subscription, records);
    account.untold.new_subscription(MessageType::SubscriptionCreated, now, id);
    let due_at_start =
        |record: &BillingRecord| record.subscription == id && record.next_invoicing_at() == Some(start) && start <= now;
    issue_invoices(tx, &mut account, &due_at_start, start, now)?;
    process_some(tx, &mut account, (now, work_max), UnknownRate::Ends)?;
    account.new_subscription(tx, id)
}

impl CreateSubscription {
    /// What is wrong whatever the customer holds.
    pub(super) fn faults(
        &self,
        tx: &mut dyn Transaction,
        customer: CustomerKey,
        now: OffsetDateTime,
    ) -> Result<FieldErrors, Error> {
        let mut errors = FieldErrors::default();
        look_up(&mut errors, "customer_id", tx.customers().get(customer))?;
        find_choice(tx, (self.version, ChoiceFields::CREATE), &mut errors)?;
        errors.keep("", check_end(self, now));
        check_units(&self.prepaid_units, &mut errors);
        Ok(errors)
    }
}

/// Notes a plan or version that does not exist.
pub(super) fn find_choice(
    tx: &mut dyn Transaction,
    (choice, fields): (VersionChoice, ChoiceFields),
    errors: &mut FieldErrors,
) -> Result<(), Error> {
    match choice {
        VersionChoice::Plan(plan) => {
            look_up(errors, fields.plan, tx.plans().get(plan))?;
        }
        VersionChoice::Version(id) => {
            let found = find_version(tx, id);
            look_up(errors, fields.version, found)?;
        }
    }
    Ok(())
}

/// A version of a plan that was not deleted; the content of an add-on is a version too, but of no plan.
fn find_version(tx: &mut dyn Transaction, id: PlanVersionId) -> Result<PlanVersion, Error> {
    let version = tx.plans().get_version(id)?;
    tx.plans().get(version.plan)?;
    if version.deleted_at.is_some() { Err(Error::NotFound(Noun::PlanVersion)) } else { Ok(version) }
}

/// The version that is named, or that a plan has for the customer, preferably in `currency`.
pub(super) fn choose(
    tx: &mut dyn Transaction,
    account: &Account,
    (choice, fields): (VersionChoice, ChoiceFields),
    currency: &str,
    now: OffsetDateTime,
) -> Result<PlanVersion, Error> {
    let customer = &account.customer;
    match choice {
        VersionChoice::Plan(plan) => {
            tx.plans().get(plan).map_err(|error| error.at_field(fields.plan))?;
            let versions = tx.plans().list_versions(Some(plan))?;
            let currencies = [currency, &*account.organization.default_currency_code];
            Ok(choose_version(&versions, customer.key, currencies, now)?.clone())
        }
        VersionChoice::Version(id) => {
            let version = find_version(tx, id).map_err(|error| error.at_field(fields.version))?;
            if !version.is_offered_to(customer.key) {
                return Err(Refusal::PlanNotAvailableToCustomer.into());
            }
            Ok(version)
        }
    }
}

fn build(
    tx: &mut dyn Transaction,
    account: &Account,
    command: &CreateSubscription,
    offer: &Offer,
    now: OffsetDateTime,
) -> Result<Subscription, Error> {
    let mut errors = FieldErrors::default();
    let tile = errors.keep("", tile_of(command, offer, now));
    let units =
        errors.keep_all("component_fixed_charges_initial_units", prepaid_units(&command.prepaid_units, &offer.version));
    let (Some(tile), Some(prepaid_units)) = (tile, units) else { return Err(errors.into()) };
    let start = tile.period.start();
    let calendar = match offer.plan.duration {
        Some(duration) => Cadence::new(start, duration, offer.version.anchors).calendar(),
        None => Calendar::of_single_period(start),
    };
    let subscription = Subscription {
        id: tx.new_uuid().into(),
        customer: account.customer.key,
        plan: offer.plan.id,
        version: offer.version.id,
        period: tile.period,
        full: tile.full,
        calendar,
        chain_began_at: now,
        auto_renew: command.auto_renew,
        is_renewed: false,
        is_new: command.is_new,
        quantity: 1,
        filters: command.filters.clone(),
        metadata: command.metadata.clone(),
        prepaid_units,
        settled: Settled::default(),
        carried_usage: BTreeMap::new(),
        replaced_by: None,
        parent: None,
        cancellation: None,
        uncancelled_end: None,
        created_at: now,
    };
    check_start(&subscription, offer, now)?;
    if count_records(&offer.version, &subscription) > BillingRecord::PER_SUBSCRIPTION_MAX {
        let detail = "The period holds too many reset intervals of the plan.";
        return Err(FieldError::new("end_date", FieldCode::Invalid, detail).into());
    }
    Ok(subscription)
}

/// Refuses a start so long ago that there would be no end of billing what has fallen due since.
fn check_start(subscription: &Subscription, offer: &Offer, now: OffsetDateTime) -> Result<(), FieldError> {
    let duration = offer.plan.duration.filter(|_| subscription.auto_renew).map(PlanDuration::interval);
    // What ends has nothing to be billed behind its end.
    let last = if duration.is_some() { now } else { subscription.period.end().min(now) };
    let start = subscription.period.start();
    if offer.version.intervals().chain(duration).all(|interval| interval.boundary(start, INTERVALS_MAX) >= last) {
        return Ok(());
    }
    let detail =
        format!("A start in the past is at most {INTERVALS_MAX} of the plan's shortest billing intervals ago.");
    Err(FieldError::new("start_date", FieldCode::MinValue, detail))
}

fn tile_of(command: &CreateSubscription, offer: &Offer, now: OffsetDateTime) -> Result<Tile, FieldError> {
    let invalid = |detail: &str| FieldError::new("end_date", FieldCode::Invalid, detail);
    let start = instant::whole(command.start);
    let anchors = offer.version.anchors;
    let computed = offer.plan.duration.map(|duration| Cadence::new(start, duration, anchors).period(0));
    let Some(end) = command.end.map(instant::whole) else {
        let tile = computed.ok_or_else(|| {
            FieldError::new("end_date", FieldCode::Required, "The plan has no duration, so an end is needed.")
        })?;
        if tile.period.end() <= now && !command.auto_renew {
            return Err(invalid("The subscription would have ended already."));
        }
        return Ok(tile);
    };
    check_end(command, now)?;
    let period = Period::new(start, end).map_err(|_| invalid("The end must not be before the start."))?;
    let full = offer.plan.duration.map_or(period, |duration| {
        let whole = Cadence::new(start, duration, anchors);
        whole.period(0).full
    });
    Ok(Tile { period, full })
}

/// Checks an end that is given.
fn check_end(command: &CreateSubscription, now: OffsetDateTime) -> Result<(), FieldError> {
    let invalid = |detail: &str| Err(FieldError::new("end_date", FieldCode::Invalid, detail));
    match command.end.map(instant::whole) {
        Some(end) if end < instant::whole(command.start) => invalid("The end must not be before the start."),
        Some(end) if end <= now => invalid("The end must not be in the past."),
        _ => Ok(()),
    }
}

/// Notes what is wrong with units whatever they are units of.
pub(super) fn check_units(given: &[(MetricId, BigDecimal)], errors: &mut FieldErrors) {
    for (i, (metric, units)) in given.iter().enumerate() {
        let attr = format!("component_fixed_charges_initial_units.{i}");
        if units.is_negative() {
            let detail = "Ensure this value is greater than or equal to 0.";
            errors.push(format!("{attr}.units"), FieldCode::MinValue, detail);
        }
        if given[..i].iter().any(|(other, _)| other == metric) {
            errors.push(format!("{attr}.metric_id"), FieldCode::Unique, "Units of this metric are given twice.");
        }
    }
}

/// Units by metric, each of a prepaid component of the version, of which [`check_units`] found nothing to say.
pub(super) fn prepaid_units(
    given: &[(MetricId, BigDecimal)],
    version: &PlanVersion,
) -> Result<BTreeMap<MetricId, BigDecimal>, FieldErrors> {
    let mut errors = FieldErrors::default();
    let mut units = BTreeMap::new();
    for (i, (metric, given)) in given.iter().enumerate() {
        let prepaid = version.component_of(*metric).is_some_and(|component| component.prepaid_charge.is_some());
        if !prepaid {
            let detail = format!("No prepaid component of the plan has this {}.", Noun::Metric);
            errors.push(format!("{i}.metric_id"), FieldCode::DoesNotExist, detail);
        }
        units.insert(*metric, given.clone());
    }
    errors.finish(units)
}
