//! What a transaction of a lane on a node takes of the catalogue's: addresses, numbers and idempotency keys.
//!
//! Two servers cannot commit as one. So each is *reserved* at home by a short transaction of its own, before the lane's transaction
//! ends, under a token that this one writes into its lane with its work:
//!
//! ```text
//! home  reserve(token)                                  settle(token)
//! lane                 work .. insert token    COMMIT
//! ```
//!
//! Whether the token is in the lane says what became of the transaction, whoever asks and whenever. Behind the commit the
//! reservation is *settled*. Where that did not happen, because a process, a server or a line died in between, [`Shared::resolve`](crate::shared::Shared::resolve) writes the token
//! into the lane as given up. The unique index has it wait for a transaction that is on its way. If the token is there already, the
//! transaction was committed, and the reservation is settled; otherwise it never can be any more, and what was reserved is
//! *given back*: an address and a key are free, and a number is the next to be used.

mod outcome;

use billing_domain::id::OrganizationId;
use billing_domain::invoice::SEQUENCE_DIGITS;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text, Uuid as SqlUuid};
use uuid::Uuid;

use crate::lanes::Lane;
use crate::pg::schema::{invoice_counters, lane_reservations as reservations};
use crate::pg::statement::statement;

pub(crate) use self::outcome::{RESOLVED_MAX, Reserved, write_token};

/// What is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An address that a customer has from the commit on.
    Email,
    /// An address that a customer has no more from the commit on.
    LeavingEmail,
    InvoiceNumber,
    CreditNoteNumber,
    IdempotencyKey,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::LeavingEmail => "leaving_email",
            Self::InvoiceNumber => "invoice_number",
            Self::CreditNoteNumber => "credit_note_number",
            Self::IdempotencyKey => "idempotency_key",
        }
    }
}

/// Who reserves: a transaction of a lane on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    /// Never used twice.
    pub(crate) token: Uuid,
    pub(crate) lane: i16,
    pub(crate) organization: Uuid,
}

impl Holder {
    /// Somebody new.
    pub(crate) fn new(lane: &Lane, organization: OrganizationId) -> Self {
        Self { token: Uuid::now_v7(), lane: lane.row_number(), organization: organization.uuid() }
    }

    /// Notes at home what it has taken, in the transaction in which it takes it.
    pub(crate) fn note(
        &self,
        home: &mut PgConnection,
        kind: Kind,
        name: &str,
        (customer, sequence): (Option<Uuid>, Option<i64>),
    ) -> QueryResult<()> {
        let row = (
            reservations::token.eq(self.token),
            reservations::kind.eq(kind.as_str()),
            reservations::name.eq(name),
            reservations::lane_number.eq(self.lane),
            reservations::organization_id.eq(self.organization),
            reservations::customer_key.eq(customer),
            reservations::sequence.eq(sequence),
        );
        diesel::insert_into(reservations::table).values(row).on_conflict_do_nothing().execute(home).map(drop)
    }
}

statement! {
    /// Takes numbers that were given back, the lowest first; the counter's row must be locked.
    TakeReturned -> BigInt {
        "DELETE FROM returned_numbers
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND kind = " kind: String as Text; " AND sequence IN (
            SELECT sequence FROM returned_numbers
            WHERE organization_id = " same_organization: Uuid as SqlUuid; " AND kind = " same_kind: String as Text; "
            ORDER BY sequence LIMIT " limit: i64 as BigInt; "
        )
        RETURNING sequence"
    }
}

/// The next `count` places of a sequence: first those that were given back, then those behind the last. The counter's row is locked
/// from here to the end of the transaction.
pub(crate) fn take_sequence(
    pg: &mut PgConnection,
    organization: Uuid,
    kind: Kind,
    count: usize,
) -> QueryResult<Vec<i64>> {
    use invoice_counters::dsl as counter;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let first =
        (counter::organization_id.eq(organization), counter::last_sequence.eq(0), counter::last_credit_note.eq(0));
    let (invoices, credit_notes): (i64, i64) = diesel::insert_into(counter::invoice_counters)
        .values(first)
        .on_conflict(counter::organization_id)
        .do_update()
        .set(counter::last_sequence.eq(counter::last_sequence))
        .returning((counter::last_sequence, counter::last_credit_note))
        .get_result(pg)?;
    let take = TakeReturned {
        organization,
        kind: kind.as_str().to_owned(),
        same_organization: organization,
        same_kind: kind.as_str().to_owned(),
        limit: count,
    };
    let mut taken: Vec<i64> = take.load(pg)?;
    taken.sort_unstable();
    let new = count - i64::try_from(taken.len()).unwrap_or(i64::MAX);
    if new > 0 {
        let target = counter::invoice_counters.find(organization);
        let last = match kind {
            Kind::CreditNoteNumber => {
                let last = credit_notes + new;
                diesel::update(target).set(counter::last_credit_note.eq(last)).execute(pg)?;
                last
            }
            _ => {
                let last = invoices + new;
                diesel::update(target).set(counter::last_sequence.eq(last)).execute(pg)?;
                last
            }
        };
        taken.extend(last - new + 1..=last);
    }
    Ok(taken)
}

/// Reserves an address for a customer.
pub(crate) fn reserve_email(home: &mut PgConnection, holder: &Holder, customer: Uuid, email: &str) -> QueryResult<()> {
    use crate::pg::schema::customer_emails::dsl as emails;
    let row =
        (emails::organization_id.eq(holder.organization), emails::email.eq(email), emails::customer_key.eq(customer));
    diesel::insert_into(emails::customer_emails).values(row).execute(home)?;
    holder.note(home, Kind::Email, email, (Some(customer), None))
}

/// Reserves an address for a customer, or none, and notes that it has no other any more from the commit on.
pub(crate) fn move_email(
    home: &mut PgConnection,
    holder: &Holder,
    customer: Uuid,
    email: Option<&str>,
) -> QueryResult<()> {
    use crate::pg::schema::customer_emails::dsl as emails;
    let held: Vec<String> = emails::customer_emails
        .filter(emails::organization_id.eq(holder.organization).and(emails::customer_key.eq(customer)))
        .select(emails::email)
        .load(home)?;
    for old in held.iter().filter(|old| Some(old.as_str()) != email) {
        holder.note(home, Kind::LeavingEmail, old, (Some(customer), None))?;
    }
    match email {
        // It may be the one that this transaction was to leave.
        Some(email) if held.iter().any(|old| old == email) => {
            let kept = reservations::table.find((holder.token, Kind::LeavingEmail.as_str(), email));
            diesel::delete(kept).execute(home).map(drop)
        }
        Some(email) => reserve_email(home, holder, customer, email),
        None => Ok(()),
    }
}

statement! {
    /// Whose an address is, unless a transaction has noted that it leaves it.
    FindOwner -> SqlUuid {
        "SELECT customer_key FROM customer_emails owned
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND email = " email: String as Text; "
            AND NOT EXISTS (
                SELECT FROM lane_reservations
                WHERE token = " token: Uuid as SqlUuid; " AND kind = 'leaving_email' AND name = owned.email
            )"
    }
}

/// Whose an address is, unless the transaction is about to leave it.
pub(crate) fn owner_of_email(
    home: &mut PgConnection,
    organization: Uuid,
    email: &str,
    holder: Option<&Holder>,
) -> QueryResult<Option<Uuid>> {
    let token = holder.map_or(Uuid::nil(), |holder| holder.token);
    FindOwner { organization, email: email.to_owned(), token }.get_result(home).optional()
}

/// An invoice that needs a number: the customer, its id, and what its number begins with.
pub(crate) type Unnumbered = (Uuid, Uuid, String);

/// Reserves the next numbers for invoices, in their order.
pub(crate) fn reserve_invoice_numbers(
    home: &mut PgConnection,
    holder: &Holder,
    invoices: &[Unnumbered],
) -> QueryResult<Vec<String>> {
    let sequences = take_sequence(home, holder.organization, Kind::InvoiceNumber, invoices.len())?;
    let numbers = numbers_of(invoices, &sequences);
    note_numbers(home, holder.organization, invoices, &numbers)?;
    for (((customer, ..), number), sequence) in invoices.iter().zip(&numbers).zip(sequences) {
        holder.note(home, Kind::InvoiceNumber, number, (Some(*customer), Some(sequence)))?;
    }
    Ok(numbers)
}

/// Takes the next numbers for invoices where the catalogue is in the lane's own database: they are the transaction's.
pub(crate) fn take_invoice_numbers(
    pg: &mut PgConnection,
    organization: Uuid,
    invoices: &[Unnumbered],
) -> QueryResult<Vec<String>> {
    let sequences = take_sequence(pg, organization, Kind::InvoiceNumber, invoices.len())?;
    let numbers = numbers_of(invoices, &sequences);
    note_numbers(pg, organization, invoices, &numbers)?;
    Ok(numbers)
}

fn numbers_of(invoices: &[Unnumbered], sequences: &[i64]) -> Vec<String> {
    let number = |((.., prefix), sequence): (&Unnumbered, &i64)| format!("{prefix}{sequence:0>SEQUENCE_DIGITS$}");
    invoices.iter().zip(sequences).map(number).collect()
}

/// Notes whose the numbers are.
fn note_numbers(
    pg: &mut PgConnection,
    organization: Uuid,
    invoices: &[Unnumbered],
    numbers: &[String],
) -> QueryResult<()> {
    use crate::pg::schema::invoice_numbers::dsl as names;
    let row = |((customer, id, _), number): (&Unnumbered, &String)| {
        (
            names::organization_id.eq(organization),
            names::number.eq(number.clone()),
            names::customer_key.eq(*customer),
            names::invoice_id.eq(*id),
        )
    };
    let rows: Vec<_> = invoices.iter().zip(numbers).map(row).collect();
    diesel::insert_into(names::invoice_numbers).values(rows).execute(pg).map(drop)
}

/// Reserves the next number for a credit note.
pub(crate) fn reserve_credit_note_number(home: &mut PgConnection, holder: &Holder) -> QueryResult<i64> {
    let sequence = take_sequence(home, holder.organization, Kind::CreditNoteNumber, 1)?[0];
    holder.note(home, Kind::CreditNoteNumber, &sequence.to_string(), (None, Some(sequence)))?;
    Ok(sequence)
}

/// What became of a key that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyReserved {
    Taken,
    /// Somebody has it, and has been answered.
    Answered,
    /// Somebody has it, and is at work, or nobody knows yet how that has ended.
    InDoubt,
}

/// Reserves an idempotency key, unless it is reserved.
pub(crate) fn reserve_key(
    home: &mut PgConnection,
    holder: &Holder,
    key: &str,
    fingerprint: &[u8],
) -> QueryResult<KeyReserved> {
    use crate::pg::schema::idempotency_keys::dsl as keys;
    let row = (keys::organization_id.eq(holder.organization), keys::key.eq(key), keys::fingerprint.eq(fingerprint));
    if diesel::insert_into(keys::idempotency_keys).values(row).on_conflict_do_nothing().execute(home)? > 0 {
        holder.note(home, Kind::IdempotencyKey, key, (None, None))?;
        return Ok(KeyReserved::Taken);
    }
    let status = keys::idempotency_keys.find((holder.organization, key)).select(keys::status);
    let status: Option<Option<i16>> = status.first(home).optional()?;
    let is_answered = status.flatten().is_some();
    Ok(if is_answered { KeyReserved::Answered } else { KeyReserved::InDoubt })
}
