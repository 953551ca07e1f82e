//! Billing records: one charge of a subscription over one reset interval, and what it puts on an invoice.

use bigdecimal::BigDecimal;
use time::{Duration, OffsetDateTime};

use crate::id::{BillingRecordId, ComponentId, MetricId, PlanVersionId, RecurringChargeId, SubscriptionId};
use crate::invoice::Trace;
use crate::period::Period;
use crate::plan::{Component, PlanVersion, RecurringCharge};

mod billed;
mod charged;
mod prepaid;
mod records;

pub use billed::Billed;
pub use charged::Charged;
pub use prepaid::{Prepaid, PrepaidSegment};
pub use records::{carried_usage_at, count_records, invoicing_span_at, records_of, reset_period_at};

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
    /// The sales tax, in percent, of what was billed of it last: what comes late has the same. 0 when
    /// there was none; `None`: nothing was billed yet.
    pub tax_rate: Option<BigDecimal>,
    /// What `full` fees of the same interval came to before a switch of plans: a full fee is charged once, so only what
    /// it comes to beyond that is charged here.
    pub charged_before_switch: BigDecimal,
    /// What becomes of its usage.
    pub usage: UsageBilling,
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

choices! {
    /// What becomes of the usage of a record.
    #[derive(Default)]
    pub UsageBilling {
        /// It is billed by the record.
        #[default]
        Here = "here",
        /// A switch handed it on to another record, which bills all of it: what was billed here comes back.
        HandedOn = "handed_on",
        /// A cancellation dropped what was not billed; what was, stays.
        Dropped = "dropped",
    }
}

impl ChargeRef {
    /// Whether it names this recurring charge.
    pub fn is(self, charge: RecurringChargeId) -> bool {
        self == Self::Recurring(charge)
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

    /// [`BillingRecord::billed_by`], to read.
    pub fn billed_as(&self, trace: &Trace) -> Option<&Billed> {
        match trace {
            Trace::PrepaidUsageCharge { .. } => self.prepaid.as_ref().map(|prepaid| &prepaid.billed),
            Trace::RecurringCharge { .. } | Trace::UsageCharge { .. } | Trace::UsageHandedOn { .. } => {
                Some(&self.billed)
            }
            _ => None,
        }
    }

    /// The memory that a line with this trace was billed from: that of the prepaid units, or that of the fee or the usage;
    /// `None` when the line is no charge of a record.
    pub fn billed_by(&mut self, trace: &Trace) -> Option<&mut Billed> {
        match trace {
            Trace::PrepaidUsageCharge { .. } => self.prepaid.as_mut().map(|prepaid| &mut prepaid.billed),
            Trace::RecurringCharge { .. } | Trace::UsageCharge { .. } | Trace::UsageHandedOn { .. } => {
                Some(&mut self.billed)
            }
            _ => None,
        }
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
            ChargeRef::Recurring(id) => {
                self.recurring_charges.iter().find(|charge| charge.id == id).map(Charge::Recurring)
            }
            ChargeRef::Component(id) => {
                self.components.iter().find(|component| component.id == id).map(Charge::Component)
            }
        }
    }

    /// The metrics that its components meter.
    pub fn metrics(&self) -> impl Iterator<Item = MetricId> {
        self.components.iter().map(|component| component.metric)
    }
}
