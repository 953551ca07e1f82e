//! Words of a fixed set, spelled by the domain.

use billing_domain::addon::{AddonType, BillingFrequency, InvoiceWhen};
use billing_domain::choice::{self, Choice};
use billing_domain::credit::CreditStatus;
use billing_domain::credit_note::Settlement;
use billing_domain::customer::PaymentProvider;
use billing_domain::invoice::{AdjustmentKind, BillingType, PaymentStatus};
use billing_domain::organization::AccessPolicy;
use billing_domain::payment::PaymentKind;
use billing_domain::period::{IntervalUnit, PlanDuration};
use billing_domain::plan::{ChargeBehavior, ChargeTiming, PlanVersionStatus, PriceAdjustmentKind};
use billing_domain::statement::StatementKind;
use billing_domain::subscription::{
    FlatFeeBehavior, InvoicingBehavior, SubscriptionStatus, SwitchUsageBehavior, UsageBehavior,
};
use billing_domain::tax::{TaxFailure, TaxProvider};
use billing_domain::test_clock::TestClockStatus;
use billing_domain::tier::{BatchRounding, StepKind};
use billing_domain::{FieldCode, FieldErrors};
use serde_json::Value;

use super::body::{incorrect_type, one, quoted};
use super::schema::{self, DecimalForm, Schema};

/// Reads a word.
pub fn read<T: Choice>(value: &Value) -> Result<T, FieldErrors> {
    let Value::String(text) = value else { return Err(incorrect_type("a string", value)) };
    choice::parse(text).map_err(|unknown| one(FieldCode::InvalidChoice, format!("{} is {unknown}", quoted(text))))
}

/// Describes a word.
pub fn describe<T: Choice>() -> Schema {
    schema::words(T::TEXTS.iter().copied())
}

/// Makes the domain's choices readable and describable.
macro_rules! words {
    ($($type:ty),* $(,)?) => {
        $(
            impl $crate::wire::FromJson for $type {
                fn from_json(value: serde_json::Value) -> Result<Self, billing_domain::FieldErrors> {
                    $crate::wire::read_word(&value)
                }
            }

            impl $crate::wire::Described for $type {
                fn describe(_: &mut $crate::wire::Schemas) -> $crate::wire::Schema {
                    $crate::wire::describe_word::<Self>()
                }
            }
        )*
    };
}

pub(crate) use words as words_of;

words_of! {
    AccessPolicy, AddonType, AdjustmentKind, BatchRounding, BillingFrequency, BillingType, ChargeBehavior, ChargeTiming, CreditStatus,
    DecimalForm, FlatFeeBehavior,
    IntervalUnit, InvoiceWhen, InvoicingBehavior, PaymentKind, PaymentProvider, PaymentStatus, PlanDuration, PlanVersionStatus,
    PriceAdjustmentKind, Settlement, StatementKind, StepKind, SubscriptionStatus, SwitchUsageBehavior, TaxFailure, TaxProvider, TestClockStatus,
    UsageBehavior,
}
