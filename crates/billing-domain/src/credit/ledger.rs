//! What happened to a credit, entry by entry.

use bigdecimal::{BigDecimal, Signed, Zero};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Credit, CreditError, CreditStatus};
use crate::decimal;
use crate::error::StoreError;
use crate::id::{CreditId, InvoiceId};
use crate::period::instant;

choices! {
    /// What an entry did.
    pub EntryKind {
        /// The credit came into being; always the first entry, and only that.
        Grant = "grant",
        /// A part paid for an invoice.
        Drawdown = "drawdown",
        /// A drawdown came back, because its invoice was voided.
        Restored = "restored",
        /// What remained was taken away, or what of it nobody had paid for.
        Void = "void",
        /// What remained ran out of time.
        Expiry = "expiry",
    }
}

/// One line of a credit's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Its own id, of the same kind as the credit's.
    pub id: CreditId,
    /// What it did.
    pub kind: EntryKind,
    /// How much, in major units, always above 0; the kind says which way.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
    /// The invoice, of a drawdown or of its return.
    #[serde(default)]
    pub invoice: Option<InvoiceId>,
    /// When.
    #[serde(with = "instant")]
    pub at: OffsetDateTime,
}

/// Why an entry does not fit a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// An amount is not above 0.
    #[error("the amount of a ledger entry is more than 0")]
    NotPositive,
    /// The first entry is not the grant of the whole amount, or a later one is a grant.
    #[error("a ledger starts with the grant of the whole amount and has no other")]
    Grant,
    /// More is taken than remains.
    #[error("a ledger entry takes more than remains")]
    Overdrawn,
    /// More comes back than was drawn.
    #[error("a ledger entry restores more than was drawn")]
    OverRestored,
}

/// What a ledger's entries add up to. Every part is at least 0, and together they are the credit's amount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Balance {
    /// The credit's amount.
    pub granted: BigDecimal,
    /// What paid for invoices.
    pub drawn: BigDecimal,
    /// What came back of it.
    pub restored: BigDecimal,
    /// What was taken away.
    pub voided: BigDecimal,
    /// What ran out of time.
    pub expired: BigDecimal,
}

impl Balance {
    /// What is left: granted - (drawn - restored) - voided - expired.
    pub fn remaining(&self) -> BigDecimal {
        &self.granted - &self.drawn + &self.restored - &self.voided - &self.expired
    }

    /// Adds one entry.
    ///
    /// # Errors
    /// [`LedgerError`] when it does not fit; nothing is changed then.
    pub fn apply(&mut self, entry: &LedgerEntry) -> Result<(), LedgerError> {
        if !entry.amount.is_positive() {
            return Err(LedgerError::NotPositive);
        }
        let first = self.granted.is_zero();
        if first != (entry.kind == EntryKind::Grant) {
            return Err(LedgerError::Grant);
        }
        let (part, most, error) = match entry.kind {
            EntryKind::Grant => {
                self.granted.clone_from(&entry.amount);
                return Ok(());
            }
            EntryKind::Restored => {
                let outstanding = &self.drawn - &self.restored;
                (&mut self.restored, outstanding, LedgerError::OverRestored)
            }
            EntryKind::Drawdown => taking(self, |balance| &mut balance.drawn),
            EntryKind::Void => taking(self, |balance| &mut balance.voided),
            EntryKind::Expiry => taking(self, |balance| &mut balance.expired),
        };
        if entry.amount > most {
            return Err(error);
        }
        *part += &entry.amount;
        Ok(())
    }
}

/// The part that an entry adds to, and that it may take what remains and no more.
fn taking(
    balance: &mut Balance,
    part: impl Fn(&mut Balance) -> &mut BigDecimal,
) -> (&mut BigDecimal, BigDecimal, LedgerError) {
    let remaining = balance.remaining();
    (part(balance), remaining, LedgerError::Overdrawn)
}

/// A credit and everything that happened to it.
///
/// ```
/// use billing_domain::credit::{Credit, CreditLedger, CreditStatus};
/// use billing_domain::{decimal::plain, BigDecimal};
/// use time::macros::datetime;
/// use uuid::Uuid;
///
/// let ids: Vec<_> = (1..=9).map(|n| Uuid::from_u128(n)).collect();
/// let now = datetime!(2026-03-01 0:00 UTC);
/// let credit = Credit {
///     id: ids[0].into(),
///     currency_code: "EUR".to_owned(),
///     amount: BigDecimal::from(100),
///     amount_paid: BigDecimal::from(0),
///     amount_paid_currency_code: None,
///     description: None,
///     effective_at: now,
///     expires_at: Some(datetime!(2026-04-01 0:00 UTC)),
///     created_at: now,
/// };
/// let mut ledger = CreditLedger::grant(credit, ids[1].into()).unwrap();
/// ledger.draw(BigDecimal::from(30), ids[2].into(), ids[3].into(), now).unwrap();
/// assert_eq!(plain(&ledger.remaining()), "70");
///
/// // Surprising: a drawdown can come back after the credit has expired; it then expires in turn.
/// let april = datetime!(2026-04-01 0:00 UTC);
/// ledger.expire(ids[4].into(), april);
/// ledger.restore(ids[2].into(), ids[5].into(), april);
/// assert_eq!(plain(&ledger.remaining()), "30");
/// assert_eq!(ledger.status(april), CreditStatus::Inactive);
/// assert_eq!(plain(&ledger.expire(ids[6].into(), april).unwrap().amount), "30");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditLedger {
    credit: Credit,
    entries: Vec<LedgerEntry>,
    balance: Balance,
}

impl CreditLedger {
    /// A new credit, whole.
    ///
    /// # Errors
    /// As [`Credit::check`].
    pub fn grant(credit: Credit, entry_id: CreditId) -> Result<Self, CreditError> {
        credit.check()?;
        let (kind, amount, at) = (EntryKind::Grant, credit.amount.clone(), credit.created_at);
        let balance = Balance { granted: amount.clone(), ..Balance::default() };
        let entry = LedgerEntry { id: entry_id, kind, amount, invoice: None, at };
        Ok(Self { credit, entries: vec![entry], balance })
    }

    /// A ledger read back from a store, every entry checked again.
    ///
    /// # Errors
    /// [`LedgerError`]: the entries are not this credit's, or some are missing.
    pub fn replay(credit: Credit, entries: Vec<LedgerEntry>) -> Result<Self, LedgerError> {
        let mut balance = Balance::default();
        for entry in &entries {
            balance.apply(entry)?;
        }
        if balance.granted != credit.amount {
            return Err(LedgerError::Grant);
        }
        Ok(Self { credit, entries, balance })
    }

    /// The credit as granted, with its present description and expiry.
    pub fn credit(&self) -> &Credit {
        &self.credit
    }

    /// What happened to it, in order.
    pub fn entries(&self) -> &[LedgerEntry] {
        &self.entries
    }

    /// What that adds up to.
    pub fn balance(&self) -> &Balance {
        &self.balance
    }

    /// What is left, in major units.
    pub fn remaining(&self) -> BigDecimal {
        self.balance.remaining()
    }

    /// Where it stands at `now`. A credit that has yet to take effect is active.
    pub fn status(&self, now: OffsetDateTime) -> CreditStatus {
        if self.credit.is_expired(now) || self.remaining().is_zero() {
            CreditStatus::Inactive
        } else {
            CreditStatus::Active
        }
    }

    /// Pays `amount` of `invoice`.
    ///
    /// # Errors
    /// [`LedgerError`] when that is not above 0 or more than remains.
    pub fn draw(
        &mut self,
        amount: BigDecimal,
        invoice: InvoiceId,
        entry_id: CreditId,
        at: OffsetDateTime,
    ) -> Result<&LedgerEntry, LedgerError> {
        self.append(LedgerEntry { id: entry_id, kind: EntryKind::Drawdown, amount, invoice: Some(invoice), at })
    }

    /// Takes back what `invoice` drew, when it is voided; none when it drew nothing that is still out.
    pub fn restore(&mut self, invoice: InvoiceId, entry_id: CreditId, at: OffsetDateTime) -> Option<&LedgerEntry> {
        let signed = |entry: &LedgerEntry| match entry.kind {
            EntryKind::Drawdown => entry.amount.clone(),
            EntryKind::Restored => -&entry.amount,
            EntryKind::Grant | EntryKind::Void | EntryKind::Expiry => BigDecimal::zero(),
        };
        let amount = self.entries.iter().filter(|entry| entry.invoice == Some(invoice)).map(signed).sum();
        let invoice = Some(invoice);
        self.append(LedgerEntry { id: entry_id, kind: EntryKind::Restored, amount, invoice, at }).ok()
    }

    /// Takes away what remains. Nothing happens to a credit that is expired or used up.
    pub fn void(&mut self, entry_id: CreditId, now: OffsetDateTime) -> Option<&LedgerEntry> {
        match self.status(now) {
            CreditStatus::Active => self.close(EntryKind::Void, entry_id, now),
            CreditStatus::Inactive => None,
        }
    }

    /// Takes away what remains up to `amount`, whatever its status; none when nothing remains.
    pub fn void_up_to(&mut self, amount: &BigDecimal, entry_id: CreditId, at: OffsetDateTime) -> Option<&LedgerEntry> {
        let amount = self.remaining().min(amount.clone());
        self.append(LedgerEntry { id: entry_id, kind: EntryKind::Void, amount, invoice: None, at }).ok()
    }

    /// Checks that it goes on from these entries: one that was read before another of them came would write over it.
    ///
    /// # Errors
    /// [`StoreError::Internal`] when it does not.
    pub fn check_begins_with(&self, entries: &[CreditId]) -> Result<(), StoreError> {
        let same = |(one, other): (&LedgerEntry, &CreditId)| one.id == *other;
        match entries.len() <= self.entries.len() && self.entries.iter().zip(entries).all(same) {
            true => Ok(()),
            false => Err(StoreError::Internal(format!("credit {} would lose entries of its ledger", self.credit.id))),
        }
    }

    /// Writes off what remains once the credit has expired; none before that, or when nothing remains.
    pub fn expire(&mut self, entry_id: CreditId, now: OffsetDateTime) -> Option<&LedgerEntry> {
        if self.credit.is_expired(now) { self.close(EntryKind::Expiry, entry_id, now) } else { None }
    }

    fn close(&mut self, kind: EntryKind, id: CreditId, at: OffsetDateTime) -> Option<&LedgerEntry> {
        let amount = self.remaining();
        self.append(LedgerEntry { id, kind, amount, invoice: None, at }).ok()
    }

    /// Changes description and expiry; none leaves one as it is, `Some(None)` clears it.
    ///
    /// # Errors
    /// [`CreditError::NotActive`], [`CreditError::ExpiryInPast`] or [`CreditError::ExpiresBeforeEffective`].
    pub fn update(
        &mut self,
        description: Option<Option<String>>,
        expires_at: Option<Option<OffsetDateTime>>,
        now: OffsetDateTime,
    ) -> Result<(), CreditError> {
        if self.status(now) == CreditStatus::Inactive {
            return Err(CreditError::NotActive);
        }
        let mut changed = self.credit.clone();
        if let Some(expires_at) = expires_at {
            changed.expires_at = expires_at;
            if changed.is_expired(now) {
                return Err(CreditError::ExpiryInPast);
            }
        }
        if let Some(description) = description {
            changed.description = description;
        }
        changed.check()?;
        self.credit = changed;
        Ok(())
    }

    fn append(&mut self, entry: LedgerEntry) -> Result<&LedgerEntry, LedgerError> {
        self.balance.apply(&entry)?;
        self.entries.push(entry);
        self.entries.last().ok_or(LedgerError::Grant)
    }
}
