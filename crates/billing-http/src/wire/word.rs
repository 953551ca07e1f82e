//! Words of a fixed set, spelled by the domain.

use billing_domain::addon::{AddonType, BillingFrequency, InvoiceWhen};
use billing_domain::credit::CreditStatus;
use billing_domain::customer::PaymentProvider;
use billing_domain::invoice::{BillingType, PaymentStatus};
use billing_domain::organization::AccessPolicy;
use billing_domain::period::{IntervalUnit, PlanDuration};
use billing_domain::plan::{ChargeBehavior, ChargeTiming, PlanVersionStatus, PriceAdjustmentKind};
use billing_domain::subscription::{
    FlatFeeBehavior, InvoicingBehavior, SubscriptionStatus, SwitchUsageBehavior, UsageBehavior,
};
use billing_domain::test_clock::TestClockStatus;
use billing_domain::tier::{BatchRounding, StepKind};
use billing_domain::{FieldCode, FieldErrors};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::body::{incorrect_type, one, quoted};
use super::schema::{self, Described, Schema, Schemas};

/// A domain value that is written as one of a fixed set of words.
pub trait Words: Copy + 'static {
    /// Every value there is.
    fn all() -> &'static [Self];
    /// How it is written.
    fn text(self) -> &'static str;
}

/// A [`Words`] value in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<T>(pub T);

impl<T: Words> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.text())
    }
}

impl<T: Words> Described for Word<T> {
    fn describe(_: &mut Schemas) -> Schema {
        schema::words(T::all().iter().map(|value| value.text()))
    }
}

/// Reads a word.
pub fn read<T: Words>(value: &Value) -> Result<T, FieldErrors> {
    let Value::String(text) = value else { return Err(incorrect_type("a string", value)) };
    let found = T::all().iter().copied().find(|word| word.text() == text);
    found.ok_or_else(|| {
        let choices: Vec<&str> = T::all().iter().map(|word| word.text()).collect();
        let detail = format!("{} is not a valid choice. Choices: {}.", quoted(text), choices.join(", "));
        one(FieldCode::InvalidChoice, detail)
    })
}

/// Makes enums with `ALL` and `as_str` readable and describable.
macro_rules! words {
    ($($type:ty),* $(,)?) => {
        $(
            impl $crate::wire::Words for $type {
                fn all() -> &'static [Self] { &Self::ALL[..] }
                fn text(self) -> &'static str { self.as_str() }
            }

            impl $crate::wire::FromJson for $type {
                fn from_json(value: serde_json::Value) -> Result<Self, billing_domain::FieldErrors> {
                    $crate::wire::read_word(&value)
                }
            }

            impl $crate::wire::Described for $type {
                fn describe(schemas: &mut $crate::wire::Schemas) -> $crate::wire::Schema {
                    $crate::wire::Word::<Self>::describe(schemas)
                }
            }
        )*
    };
}

pub(crate) use words as words_of;

words_of! {
    AccessPolicy, AddonType, BatchRounding, BillingFrequency, BillingType, ChargeBehavior, ChargeTiming, CreditStatus, FlatFeeBehavior,
    IntervalUnit, InvoiceWhen, InvoicingBehavior, PaymentProvider, PaymentStatus, PlanDuration, PlanVersionStatus,
    PriceAdjustmentKind, StepKind, SubscriptionStatus, SwitchUsageBehavior, TestClockStatus, UsageBehavior,
}
