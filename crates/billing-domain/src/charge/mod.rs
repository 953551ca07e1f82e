//! Billing records: one charge of a subscription over one reset interval, and what it puts on an invoice.

use bigdecimal::{BigDecimal, Zero};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use crate::decimal;
use crate::id::{BillingRecordId, ComponentId, MetricId, PlanVersionId, RecurringChargeId, SubscriptionId};
use crate::invoice::Rounding;
use crate::money;
use crate::period::Period;
use crate::plan::{Component, PlanVersion, RecurringCharge};

mod charged;
mod prepaid;
mod records;

pub use charged::Charged;
pub use prepaid::{Prepaid, PrepaidSegment};
pub use records::{count_records, records_of, reset_period_at};

/// One charge of a subscription over one reset interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BillingRecord {
    /// Its id.
    pub id: BillingRecordId,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The plan version that prices it.
    pub version: PlanVersionId,
    /// Which charge of the version.
    pub charge: ChargeRef,
    /// The time it is for.
    pub period: Period,
    /// The uncut interval that the time is part of: what a full price is for.
    pub full: Period,
    /// When it is put on an invoice, ascending, only instants to come; none: it is fully billed.
    pub invoicing_instants: Vec<OffsetDateTime>,
    /// Until when events of its time may still arrive after all of it was billed; `None`: none are looked for.
    pub late_until: Option<OffsetDateTime>,
    /// What has been billed of it.
    pub billed: Billed,
    /// The sales tax, in percent, of what was billed of it last: what is taken back or comes late has the same. 0 when
    /// there was none; `None`: nothing was billed yet.
    pub tax_rate: Option<BigDecimal>,
    /// Its prepaid units, when the component has a prepaid charge.
    pub prepaid: Option<Prepaid>,
}

/// Which charge of a plan version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeRef {
    /// A fee by time.
    Recurring(RecurringChargeId),
    /// A metered component.
    Component(ComponentId),
}

impl ChargeRef {
    /// Whether it names this recurring charge.
    pub fn is(self, charge: RecurringChargeId) -> bool {
        self == Self::Recurring(charge)
    }
}

/// What has been billed of one charge so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Billed {
    /// Units of the metric; 0 for fees.
    #[serde(with = "decimal::number")]
    pub quantity: BigDecimal,
    /// The price of all of it, unrounded.
    #[serde(with = "decimal::number")]
    pub exact: BigDecimal,
    /// What invoice lines gave of that price.
    #[serde(with = "decimal::number")]
    pub given: BigDecimal,
}

impl Billed {
    /// Whether nothing has been billed yet.
    pub fn is_nothing(&self) -> bool {
        self.exact.is_zero() && self.given.is_zero()
    }

    /// Bills up to `exact` in all and says what that puts on the next line.
    fn up_to(&mut self, exact: BigDecimal, decimals: u8) -> Rounding {
        let amount = money::portion(&exact, &self.given, decimals);
        let rounding = Rounding { exact_so_far: exact.clone(), given_before: self.given.clone(), decimals, amount };
        self.given += &rounding.amount;
        self.exact = exact;
        rounding
    }
}

impl BillingRecord {
    /// Most records that one subscription may have.
    pub const PER_SUBSCRIPTION_MAX: usize = 5_000;
    /// How long after a custom metric failed its usage is billed again.
    pub const RETRY_AFTER: Duration = Duration::DAY;

    /// When it is next put on an invoice; `None`: it is fully billed.
    pub fn next_invoicing_at(&self) -> Option<OffsetDateTime> {
        self.invoicing_instants.first().copied()
    }

    /// Whether an invoice has charged for it.
    pub fn has_billed(&self) -> bool {
        !self.billed.is_nothing() || self.prepaid.as_ref().is_some_and(|prepaid| !prepaid.billed.is_nothing())
    }

    /// Leaves every invoicing instant up to and with `at` behind.
    pub fn pass(&mut self, at: OffsetDateTime) {
        self.invoicing_instants.retain(|instant| *instant > at);
    }

    /// Waits for late events until `until`, unless that is `over` already or there is no time that they could be of.
    pub fn wait_until(&mut self, until: Option<OffsetDateTime>, over: OffsetDateTime) {
        self.late_until = until.filter(|until| *until > over && !self.period.is_empty());
    }

    /// Leaves `at` behind without having billed its usage, which is tried again after [`BillingRecord::RETRY_AFTER`].
    pub fn postpone(&mut self, at: OffsetDateTime) {
        let Some(again) = at.checked_add(Self::RETRY_AFTER) else { return };
        if self.awaits_late_usage() {
            self.late_until = self.late_until.map(|until| until.max(again));
            return;
        }
        self.invoicing_instants.retain(|instant| *instant > at);
        if self.invoicing_instants.first().is_none_or(|next| *next > again) {
            self.invoicing_instants.insert(0, again);
        }
    }

    /// Whether all of it was billed and events of its time may still arrive.
    pub fn awaits_late_usage(&self) -> bool {
        self.invoicing_instants.is_empty() && self.late_until.is_some()
    }

    /// When it is next looked at: its next invoicing instant, otherwise the end of the wait for late events.
    pub fn next_due_at(&self) -> Option<OffsetDateTime> {
        self.next_invoicing_at().or(self.late_until)
    }

    /// Has nothing more invoiced, not even what comes late.
    pub fn close(&mut self) {
        self.invoicing_instants.clear();
        self.late_until = None;
    }

    /// Has nothing invoiced at its own start: what is charged in advance waits for the next invoicing instant.
    pub fn wait_behind_start(&mut self) {
        let start = self.period.start();
        self.invoicing_instants.retain(|instant| *instant > start);
    }

    /// The time whose usage is due at `at`: all of it once all of it was billed.
    pub fn window(&self, at: OffsetDateTime) -> Period {
        if self.awaits_late_usage() { self.period } else { self.period.cut_at(at) }
    }
}

/// The charge behind a record, looked up in its version.
pub enum Charge<'v> {
    /// A fee by time.
    Recurring(&'v RecurringCharge),
    /// A metered component.
    Component(&'v Component),
}

impl PlanVersion {
    /// The charge that `reference` names; `None` if it is another version's.
    pub fn charge(&self, reference: ChargeRef) -> Option<Charge<'_>> {
        match reference {
            ChargeRef::Recurring(id) => self.recurring_charges.iter().find(|own| own.id == id).map(Charge::Recurring),
            ChargeRef::Component(id) => self.components.iter().find(|own| own.id == id).map(Charge::Component),
        }
    }

    /// The metrics that its components meter.
    pub fn metrics(&self) -> impl Iterator<Item = MetricId> {
        self.components.iter().map(|component| component.metric)
    }
}
