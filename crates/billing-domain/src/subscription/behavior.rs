//! What a caller may choose when a subscription is cancelled or switched.

/// What becomes of the fees and the usage of a subscription that is cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cancellation {
    /// What its fees come to; `None`: what each fee's own behaviour says.
    pub flat_fee_behavior: Option<FlatFeeBehavior>,
    /// What becomes of usage that was not billed.
    pub usage_behavior: UsageBehavior,
}

/// What the fees of a cancelled subscription come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlatFeeBehavior {
    /// Nothing: what was paid comes back.
    Refund,
    /// The part of the interval that was used.
    ChargeProrated,
    /// All of the interval.
    ChargeFull,
}

impl FlatFeeBehavior {
    /// Every choice.
    pub const ALL: &'static [Self] = &[Self::Refund, Self::ChargeProrated, Self::ChargeFull];

    /// The text on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refund => "refund",
            Self::ChargeProrated => "charge_prorated",
            Self::ChargeFull => "charge_full",
        }
    }
}

/// What becomes of the usage of a cancelled subscription that was not billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageBehavior {
    /// It is billed.
    #[default]
    BillFull,
    /// It is dropped.
    BillNone,
}

impl UsageBehavior {
    /// Every choice.
    pub const ALL: &'static [Self] = &[Self::BillFull, Self::BillNone];

    /// The text on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BillFull => "bill_full",
            Self::BillNone => "bill_none",
        }
    }
}

/// What becomes of the usage of a subscription that is switched to another plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwitchUsageBehavior {
    /// It goes on in the new subscription.
    #[default]
    TransferToNewSubscription,
    /// It stays with the old one, and the new one starts from zero.
    KeepSeparate,
}

impl SwitchUsageBehavior {
    /// Every choice.
    pub const ALL: &'static [Self] = &[Self::TransferToNewSubscription, Self::KeepSeparate];

    /// The text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TransferToNewSubscription => "transfer_to_new_subscription",
            Self::KeepSeparate => "keep_separate",
        }
    }
}

/// When a change of a subscription is invoiced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvoicingBehavior {
    /// At once.
    #[default]
    InvoiceNow,
    /// With the invoice of the period's end.
    AddToNextInvoice,
}

impl InvoicingBehavior {
    /// Every choice.
    pub const ALL: &'static [Self] = &[Self::InvoiceNow, Self::AddToNextInvoice];

    /// The text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvoiceNow => "invoice_now",
            Self::AddToNextInvoice => "add_to_next_invoice",
        }
    }
}
