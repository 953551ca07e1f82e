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
//! reservation is *settled*. Where that did not happen, because a process, a server or a line died in between, [`Shared::resolve`] writes the token
//! into the lane as given up. The unique index has it wait for a transaction that is on its way. If the token is there already, the
//! transaction was committed, and the reservation is settled; otherwise it never can be any more, and what was reserved is
//! *given back*: an address and a key are free, and a number is the next to be used.

use std::thread;
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Claim};
use billing_domain::invoice::SEQUENCE_DIGITS;
use billing_domain::{Error, Refusal, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, SmallInt, Text, Uuid as SqlUuid};
use uuid::Uuid;

use crate::lanes::Lane;
use crate::pg::column::stored_count;
use crate::pg::error::Failure;
use crate::pg::schema::{invoice_counters, lane_reservations as reservations};
use crate::pg::statement::statement;
use crate::shared::Shared;

/// From which age on a reservation is looked at by somebody else, in seconds: a transaction has ended by then, or it fails.
const AGE_SECONDS: i32 = 15;
/// Most reservations that are looked at in one go.
pub(crate) const RESOLVED_MAX: i64 = 200;
/// How long a lane knows of a token that nobody asks about any more, in days.
const TOKEN_DAYS: i32 = 1;

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
    /// Writes a token with how its transaction ends, unless it is there.
    WriteToken -> Integer {
        "INSERT INTO lane_tokens (token, is_given_up, status, answer)
        VALUES (" token: Uuid as SqlUuid; ", " is_given_up: bool as Bool; ", " status: Option<i16> as Nullable<SmallInt>; ", " answer: Option<String> as Nullable<Text>; ")
        ON CONFLICT DO NOTHING"
    }
}

statement! {
    /// How the transaction of a token has ended.
    ReadToken -> (Bool, Nullable<SmallInt>, Nullable<Text>) {
        "SELECT is_given_up, status, answer FROM lane_tokens WHERE token = " token: Uuid as SqlUuid; ""
    }
}

statement! {
    /// Makes what was reserved final.
    Settle -> BigInt {
        "WITH settled AS (
            DELETE FROM lane_reservations WHERE token = " token: Uuid as SqlUuid; " RETURNING *
        ), freed AS (
            DELETE FROM customer_emails email USING settled
            WHERE settled.kind = 'leaving_email' AND email.organization_id = settled.organization_id
                AND email.email = settled.name AND email.customer_key = settled.customer_key
        ), answered AS (
            UPDATE idempotency_keys kept SET status = " status: Option<i16> as Nullable<SmallInt>; ", answer = " answer: Option<String> as Nullable<Text>; "
            FROM settled
            WHERE settled.kind = 'idempotency_key' AND kept.organization_id = settled.organization_id AND kept.key = settled.name
        )
        SELECT count(*) FROM settled"
    }
}

statement! {
    /// Gives back what was reserved.
    GiveBack -> BigInt {
        "WITH returned AS (
            DELETE FROM lane_reservations WHERE token = " token: Uuid as SqlUuid; " RETURNING *
        ), freed AS (
            DELETE FROM customer_emails email USING returned
            WHERE returned.kind = 'email' AND email.organization_id = returned.organization_id
                AND email.email = returned.name AND email.customer_key = returned.customer_key
        ), unnumbered AS (
            DELETE FROM invoice_numbers number USING returned
            WHERE returned.kind = 'invoice_number' AND number.organization_id = returned.organization_id AND number.number = returned.name
        ), numbers AS (
            INSERT INTO returned_numbers (organization_id, kind, sequence)
            SELECT organization_id, kind, sequence FROM returned WHERE kind IN ('invoice_number', 'credit_note_number')
        ), unanswered AS (
            DELETE FROM idempotency_keys kept USING returned
            WHERE returned.kind = 'idempotency_key' AND kept.organization_id = returned.organization_id AND kept.key = returned.name
                AND kept.status IS NULL
        )
        SELECT count(*) FROM returned"
    }
}

statement! {
    /// The reservations that nobody has settled for a while, the oldest first.
    FindOld -> (SmallInt, SqlUuid) {
        "SELECT lane_number, token FROM lane_reservations
        WHERE reserved_at < statement_timestamp() - make_interval(secs => " seconds: i32 as Integer; ")
        GROUP BY lane_number, token ORDER BY min(reserved_at)
        LIMIT " limit: i64 as BigInt; ""
    }
}

statement! {
    /// Those of other transactions that are about a customer.
    FindOthers -> SqlUuid {
        "SELECT DISTINCT token FROM lane_reservations
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND customer_key = " customer: Uuid as SqlUuid; "
            AND token <> " token: Uuid as SqlUuid; ""
    }
}

statement! {
    /// Tokens of a lane that nobody has settled.
    FindOfLane -> SqlUuid { "SELECT DISTINCT token FROM lane_reservations WHERE lane_number = " lane: i16 as SmallInt; "" }
}

statement! {
    /// Forgets tokens that are old and that nobody asks about.
    ForgetTokens -> Integer {
        "DELETE FROM lane_tokens
        WHERE noted_at < statement_timestamp() - make_interval(days => " days: i32 as Integer; ")
            AND token <> ALL (" but: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

/// Writes the token of a transaction that is about to be committed into its lane; with the answer, where a key was reserved.
///
/// # Errors
/// [`StoreError::Unavailable`] when the transaction was given up meanwhile: it took too long.
pub(crate) fn write_token(pg: &mut PgConnection, token: Uuid, answer: Option<&Answer>) -> Result<(), Failure> {
    let status = answer.map(|answer| stored_count(answer.status)).transpose()?;
    let answer = answer.map(|answer| answer.text.clone());
    match (WriteToken { token, is_given_up: false, status, answer }).execute(pg)? {
        0 => {
            Err(StoreError::Unavailable("what a transaction had reserved was given up before its end".to_owned())
                .into())
        }
        _ => Ok(()),
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

/// What the attempts at one transaction have reserved: each under a token of its own, and what one of them did not come to is given
/// back before the next.
pub(crate) struct Reserved<'s> {
    shared: &'s Shared,
    lane: Option<&'s Lane>,
    token: Option<Uuid>,
    is_taken_back: bool,
}

impl<'s> Reserved<'s> {
    pub(crate) fn new(shared: &'s Shared, lane: Option<&'s Lane>) -> Self {
        Self { shared, lane, token: None, is_taken_back: false }
    }

    /// Gives back what the last attempt has reserved, of which nothing is left.
    ///
    /// # Errors
    /// As [`Shared::resolve`].
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        match (self.lane, self.token.take()) {
            (Some(lane), Some(token)) => self.shared.resolve(lane, token),
            _ => Ok(()),
        }
    }

    /// Remembers what an attempt has reserved, and whether its work was taken back although the transaction goes on.
    pub(crate) fn note(&mut self, holder: Option<Holder>, is_taken_back: bool) {
        (self.token, self.is_taken_back) = (holder.map(|holder| holder.token), is_taken_back);
    }

    /// Settles what the last attempt has reserved if it is known to be committed, and otherwise finds out.
    pub(crate) fn end(mut self, is_committed: bool) {
        let (Some(lane), Some(token)) = (self.lane, self.token.take()) else { return };
        if is_committed && !self.is_taken_back {
            self.shared.settle(token, None);
        } else {
            self.shared.resolve_or_leave(lane, token);
        }
    }
}

/// How long a key is waited for that a twin has who is at work: as long as for its row.
const TWIN_MAX: Duration = Duration::from_secs(2);
/// How long between two looks at it.
const TWIN_LOOK_EVERY: Duration = Duration::from_millis(20);

impl Shared {
    /// Reserves the key of a request for a transaction of a lane on a node; a twin who is at work is waited for.
    ///
    /// # Errors
    /// [`Refusal::IdempotencyKeyInUse`]; those of home's connections.
    pub(crate) fn reserve_claim(
        &self,
        lane: &Lane,
        organization: OrganizationId,
        claim: &Claim,
    ) -> Result<Holder, Failure> {
        let (holder, begun) = (Holder::new(lane, organization), Instant::now());
        loop {
            let reserved =
                self.lanes.home.transact(|home| Ok(reserve_key(home, &holder, &claim.key, &claim.fingerprint)?));
            match reserved {
                Ok(KeyReserved::Taken) => return Ok(holder),
                Ok(KeyReserved::InDoubt) if begun.elapsed() < TWIN_MAX => thread::sleep(TWIN_LOOK_EVERY),
                Ok(_) => return Err(Error::from(Refusal::IdempotencyKeyInUse).into()),
                Err(failure) => {
                    // Perhaps it was taken.
                    self.resolve_or_leave(lane, holder.token);
                    return Err(failure);
                }
            }
        }
    }

    /// Settles what a transaction has reserved that is known to be committed. Where home does not answer, somebody does it later.
    pub(crate) fn settle(&self, token: Uuid, answer: Option<&Answer>) {
        if let Err(failure) = self.try_settle(token, answer) {
            log::info!("a reservation is settled later: {}", failure.into_error());
        }
    }

    fn try_settle(&self, token: Uuid, answer: Option<&Answer>) -> Result<(), Failure> {
        let status = answer.map(|answer| stored_count(answer.status)).transpose()?;
        let settle = Settle { token, status, answer: answer.map(|answer| answer.text.clone()) };
        self.lanes.home.transact_again(|pg| Ok(settle.clone().get_result::<i64>(pg).map(drop)?))
    }

    /// Finds out what became of the transaction of a token, waiting for one that is on its way, and settles or gives back what it
    /// had reserved.
    ///
    /// # Errors
    /// Those of the lane's connections and of home's; then nothing has changed.
    pub(crate) fn resolve(&self, lane: &Lane, token: Uuid) -> Result<(), Failure> {
        let (is_given_up, status, answer) = lane.worker_pool.transact_again(|pg| {
            let give_up = WriteToken { token, is_given_up: true, status: None, answer: None };
            give_up.execute(pg)?;
            Ok(ReadToken { token }.get_result::<(bool, Option<i16>, Option<String>)>(pg)?)
        })?;
        self.lanes.home.transact_again(|pg| {
            let done: QueryResult<i64> = match is_given_up {
                true => GiveBack { token }.get_result(pg),
                false => Settle { token, status, answer: answer.clone() }.get_result(pg),
            };
            Ok(done.map(drop)?)
        })
    }

    /// [`Shared::resolve`], where it may as well be done later.
    pub(crate) fn resolve_or_leave(&self, lane: &Lane, token: Uuid) {
        if let Err(failure) = self.resolve(lane, token) {
            log::info!("a reservation is looked at later: {}", failure.into_error());
        }
    }

    /// Resolves what other transactions had reserved for a customer whose lock the caller holds, so that they have ended.
    ///
    /// # Errors
    /// As [`Shared::resolve`].
    pub(crate) fn resolve_others(&self, lane: &Lane, holder: &Holder, customer: Uuid) -> Result<(), Failure> {
        let find = FindOthers { organization: holder.organization, customer, token: holder.token };
        let others: Vec<Uuid> = self.lanes.home.run(|pg| find.clone().load(pg))?;
        others.into_iter().try_for_each(|token| self.resolve(lane, token))
    }

    /// Resolves reservations that nobody has settled for a while; how many. Those of a lane that does not answer stay as they are.
    ///
    /// # Errors
    /// Those of home's connections.
    pub(crate) fn resolve_old(&self, age_seconds: Option<u32>) -> Result<usize, Failure> {
        if !self.lanes.are_on_nodes() {
            return Ok(0);
        }
        let seconds = age_seconds.map_or(Ok(AGE_SECONDS), stored_count)?;
        let find = FindOld { seconds, limit: RESOLVED_MAX };
        let old: Vec<(i16, Uuid)> = self.lanes.home.run(|pg| find.clone().load(pg))?;
        let (mut resolved, mut silent) = (0, Vec::new());
        for (number, token) in old {
            let Some(lane) = usize::try_from(number).ok().and_then(|number| self.lanes.all().get(number)) else {
                continue;
            };
            if silent.contains(&number) {
                continue;
            }
            match self.resolve(lane, token) {
                Ok(()) => resolved += 1,
                Err(failure) => {
                    log::warn!("reservations of lane {number} stay as they are: {}", failure.into_error());
                    silent.push(number);
                }
            }
        }
        Ok(resolved)
    }

    /// Forgets how transactions of lanes on nodes have ended, long after anybody could ask.
    ///
    /// # Errors
    /// Those of the connections.
    pub(crate) fn forget_tokens(&self) -> Result<(), Failure> {
        for lane in self.lanes.all().iter().filter(|lane| lane.replica.is_some()) {
            let find = FindOfLane { lane: lane.row_number() };
            let but: Vec<Uuid> = self.lanes.home.run(|pg| find.clone().load(pg))?;
            let forget = ForgetTokens { days: TOKEN_DAYS, but };
            lane.worker_pool.run(|pg| forget.clone().execute(pg))?;
        }
        Ok(())
    }
}
