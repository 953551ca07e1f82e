//! What a caller may choose when a subscription is cancelled or switched.

/// What becomes of the fees and the usage of a subscription that is cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cancellation {
    /// What its fees come to; `None`: what each fee's own behaviour says.
    pub flat_fee_behavior: Option<FlatFeeBehavior>,
    /// What becomes of usage that was not billed.
    pub usage_behavior: UsageBehavior,
}

choices! {
    /// What the fees of a cancelled subscription come to.
    pub FlatFeeBehavior {
        /// Nothing: what was paid comes back.
        Refund = "refund",
        /// The part of the interval that was used.
        ChargeProrated = "charge_prorated",
        /// All of the interval.
        ChargeFull = "charge_full",
    }
}

choices! {
    /// What becomes of the usage of a cancelled subscription that was not billed.
    #[derive(Default)]
    pub UsageBehavior {
        /// It is billed.
        #[default]
        BillFull = "bill_full",
        /// It is dropped.
        BillNone = "bill_none",
    }
}

choices! {
    /// What becomes of the usage of a subscription that is switched to another plan.
    #[derive(Default)]
    pub SwitchUsageBehavior {
        /// It goes on in the new subscription.
        #[default]
        TransferToNewSubscription = "transfer_to_new_subscription",
        /// It stays with the old one, and the new one starts from zero.
        KeepSeparate = "keep_separate",
    }
}

choices! {
    /// When a change of a subscription is invoiced.
    #[derive(Default)]
    pub InvoicingBehavior {
        /// At once.
        #[default]
        InvoiceNow = "invoice_now",
        /// With the invoice of the period's end.
        AddToNextInvoice = "add_to_next_invoice",
    }
}
