//! Spellings of known clients that differ from what the interface says, and mean the same.

use billing_domain::FieldErrors;
use billing_domain::subscription::{FlatFeeBehavior, InvoicingBehavior, SwitchUsageBehavior};
use serde_json::Value;

use super::body::PrepaidUnitsBody;
use crate::wire::{Described, FromJson, Schema, Schemas};

/// [`FlatFeeBehavior`], which some clients write with `prorate` for `charge_prorated`.
#[derive(Clone, Copy, Debug)]
pub struct FlatFee(pub FlatFeeBehavior);

impl FromJson for FlatFee {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        match value.as_str() {
            Some("prorate") => Ok(Self(FlatFeeBehavior::ChargeProrated)),
            _ => FlatFeeBehavior::from_json(value).map(Self),
        }
    }
}

impl Described for FlatFee {
    fn describe(schemas: &mut Schemas) -> Schema {
        FlatFeeBehavior::describe(schemas)
    }
}

/// [`InvoicingBehavior`] of a switch. Some clients mistake it for what becomes of usage, and send that here.
#[derive(Clone, Copy, Debug)]
pub enum SwitchInvoicing {
    /// What belongs here.
    Invoicing(InvoicingBehavior),
    /// What belongs into `usage_behavior`; it holds when that is missing.
    Usage(SwitchUsageBehavior),
}

impl SwitchInvoicing {
    /// How a switch is invoiced and what becomes of usage, out of the two fields.
    pub fn read(
        invoicing: Option<Self>,
        usage: Option<SwitchUsageBehavior>,
    ) -> (InvoicingBehavior, SwitchUsageBehavior) {
        match invoicing {
            Some(Self::Invoicing(invoicing)) => (invoicing, usage.unwrap_or_default()),
            Some(Self::Usage(mistaken)) => (InvoicingBehavior::default(), usage.unwrap_or(mistaken)),
            None => (InvoicingBehavior::default(), usage.unwrap_or_default()),
        }
    }
}

impl FromJson for SwitchInvoicing {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        match SwitchUsageBehavior::from_json(value.clone()) {
            Ok(usage) => Ok(Self::Usage(usage)),
            Err(_) => InvoicingBehavior::from_json(value).map(Self::Invoicing),
        }
    }
}

impl Described for SwitchInvoicing {
    fn describe(schemas: &mut Schemas) -> Schema {
        InvoicingBehavior::describe(schemas)
    }
}

/// A list of prepaid units. Some clients send an object here that means nothing.
#[derive(Clone, Debug, Default)]
pub struct InitialUnits(pub Vec<PrepaidUnitsBody>);

impl FromJson for InitialUnits {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        match value {
            Value::Array(_) => Vec::from_json(value).map(Self),
            _ => Ok(Self::default()),
        }
    }
}

impl Described for InitialUnits {
    fn describe(schemas: &mut Schemas) -> Schema {
        Vec::<PrepaidUnitsBody>::describe(schemas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_understood_with_its_two_behaviours_mixed_up() {
        use InvoicingBehavior::{AddToNextInvoice, InvoiceNow};
        use SwitchUsageBehavior::{KeepSeparate, TransferToNewSubscription};
        #[rustfmt::skip]
        let cases = [
            // invoicing_behavior,     usage_behavior,       read,                                          why
            (None,                     None,                 (InvoiceNow, TransferToNewSubscription),       "the defaults"),
            (Some("add_to_next_invoice"), Some(KeepSeparate), (AddToNextInvoice, KeepSeparate),             "as it should be"),
            (Some("keep_separate"),    None,                 (InvoiceNow, KeepSeparate),                    "in the wrong field"),
            (Some("keep_separate"),    Some(TransferToNewSubscription), (InvoiceNow, TransferToNewSubscription), "the right field wins"),
        ];
        for (invoicing, usage, expected, why) in cases {
            let invoicing = invoicing.map(|text| SwitchInvoicing::from_json(Value::from(text)).expect(why));
            assert_eq!(SwitchInvoicing::read(invoicing, usage), expected, "{why}");
        }
        assert!(SwitchInvoicing::from_json(Value::from("later")).is_err());
    }
}
