//! Typed ids: the one registry of every identifier in the system.
//!
//! On the wire an id is its prefix and 32 lowercase hex digits; input may leave out the prefix and may
//! carry the hyphens of a UUID. Inside, an id is a 16-byte UUID that no other kind of id can stand in for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// The text is not an id of the wanted kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {prefix:?} followed by 32 hexadecimal digits")]
pub struct IdError {
    prefix: &'static str,
}

fn parse(prefix: &'static str, text: &str) -> Result<Uuid, IdError> {
    let digits: String = text.strip_prefix(prefix).unwrap_or(text).chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 {
        return Err(IdError { prefix });
    }
    Uuid::try_parse(&digits).map_err(|_| IdError { prefix })
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, prefix = $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// What the wire form starts with.
            pub const PREFIX: &'static str = $prefix;

            /// The 16 bytes behind the id.
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse($prefix, text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id! {
    /// The tenant: everything else belongs to exactly one organization.
    OrganizationId, prefix = "org_"
}
id! {
    /// What is measured: a definition that turns events into a quantity.
    MetricId, prefix = "metric_"
}
id! {
    /// Something a plan grants that is not metered.
    FeatureId, prefix = "feature_"
}
id! {
    /// A plan: a name over a sequence of versions. Subscriptions pin a version, never the plan.
    PlanId, prefix = "plan_"
}
id! {
    /// One immutable revision of a plan.
    PlanVersionId, prefix = "plan_version_"
}
id! {
    /// Something that can be attached to a subscription.
    AddonId, prefix = "addon_"
}
id! {
    /// What an add-on charges, as existing clients name it: the id of its plan version under another prefix.
    AddonVersionId, prefix = "addon_version_"
}
id! {
    /// An add-on that is attached to a subscription: the id of its own subscription under another prefix.
    AddonSubscriptionId, prefix = "addon_sub_"
}
id! {
    /// One metered component of a plan version. Never on the wire.
    ComponentId, prefix = "component_"
}
id! {
    /// One recurring charge of a plan version. Never on the wire.
    RecurringChargeId, prefix = "recurring_charge_"
}
id! {
    /// One customer's hold on one plan version for one period; a renewal has a new id.
    SubscriptionId, prefix = "sub_"
}
id! {
    /// One charge of a subscription over one reset interval. Never on the wire.
    BillingRecordId, prefix = "billing_record_"
}
id! {
    /// An issued invoice.
    InvoiceId, prefix = "invoice_"
}
id! {
    /// A credit; the prefix is the one existing clients know.
    CreditId, prefix = "baladj_"
}
id! {
    /// A payment of an invoice, or its reversal.
    PaymentId, prefix = "payment_"
}
id! {
    /// A credit note: it takes back a part of what an invoice charged.
    CreditNoteId, prefix = "credit_note_"
}
id! {
    /// Something that is charged once.
    OneOffLineId, prefix = "one_off_line_"
}
id! {
    /// Where an organization's own tax provider is asked: another one for each address. Never on the wire.
    TaxHookId, prefix = "tax_hook_"
}
id! {
    /// Long work in the background.
    JobId, prefix = "job_"
}
id! {
    /// An audit of an organization's books.
    BooksAuditId, prefix = "books_audit_"
}
id! {
    /// A message about something that became true: the same however often it is sent.
    MessageId, prefix = "msg_"
}
id! {
    /// Where an organization has messages sent.
    WebhookEndpointId, prefix = "webhook_endpoint_"
}
id! {
    /// A person who signs in.
    UserId, prefix = "user_"
}
id! {
    /// A figure and a threshold of which an organization is told once.
    UsageAlertId, prefix = "usg_alert_"
}
id! {
    /// A correction of an event.
    EventCorrectionId, prefix = "event_correction_"
}
id! {
    /// A change in the audit log.
    AuditEntryId, prefix = "audit_entry_"
}
id! {
    /// A request for a second person.
    ApprovalId, prefix = "approval_"
}
id! {
    /// A clock that a customer can live by in place of the real one.
    TestClockId, prefix = "test_clock_"
}

/// A line of an issued invoice: the invoice and the line's place on it. Neither ever changes, so it names the line for good, and
/// nothing is kept for it; on the wire it is `line_`, the invoice's 32 digits, `_` and the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId {
    invoice: InvoiceId,
    place: usize,
}

impl LineId {
    /// What the wire form starts with.
    pub const PREFIX: &'static str = "line_";

    /// The line that stands at `place` on an invoice, counted from 1.
    pub fn new(invoice: InvoiceId, place: usize) -> Self {
        Self { invoice, place }
    }

    /// The invoice that it stands on.
    pub fn invoice(self) -> InvoiceId {
        self.invoice
    }

    /// Its place, counted from 1.
    pub fn place(self) -> usize {
        self.place
    }
}

impl FromStr for LineId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = IdError { prefix: Self::PREFIX };
        let (invoice, place) = text.strip_prefix(Self::PREFIX).unwrap_or(text).rsplit_once('_').ok_or(error)?;
        let read = place.parse().ok().filter(|read: &usize| *read > 0 && read.to_string() == place).ok_or(error)?;
        Ok(Self::new(parse(Self::PREFIX, invoice)?.into(), read))
    }
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line_{}_{}", self.invoice.uuid().simple(), self.place)
    }
}

impl Serialize for LineId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A customer inside the system: derived from the organization and the caller's own id, never looked up
/// ([`CustomerKey::derive`]).
///
/// Events can therefore be stored before their customer exists, and everything about one customer lives
/// under one key. The wire never shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomerKey(Uuid);

impl CustomerKey {
    /// The 16 bytes behind the key.
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for CustomerKey {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_spelling_of_an_id() {
        let hex = "0190a5f3c2b17f00a1b2c3d4e5f60718";
        #[rustfmt::skip]
        let cases = [
            // text,                                           accepted, why
            (format!("plan_{hex}"),                            true,  "the wire form"),
            (hex.to_owned(),                                   true,  "the prefix may be left out"),
            (hex.to_uppercase(),                               true,  "hex digits have no case"),
            ("0190a5f3-c2b1-7f00-a1b2-c3d4e5f60718".to_owned(), true, "a UUID with hyphens"),
            (format!("plan_version_{hex}"),                    false, "an id of another kind"),
            (format!("metric_{hex}"),                          false, "an id of another kind"),
            (hex[1..].to_owned(),                              false, "a digit is missing"),
            (format!("{hex}0"),                                false, "a digit too many"),
            ("plan_".to_owned(),                               false, "nothing after the prefix"),
            ("é".repeat(32),                                   false, "not hexadecimal"),
        ];
        for (text, accepted, why) in cases {
            let parsed = text.parse::<PlanId>();
            assert_eq!(parsed.is_ok(), accepted, "{text}: {why}");
            if let Ok(id) = parsed {
                assert_eq!(id.to_string(), format!("plan_{hex}"), "{why}");
            }
        }
    }
}
