//! Giving messages their places in the feeds of their organizations.
//!
//! A sequence would leave a hole: of two transactions the one that takes its number first may commit last, and whoever has read
//! up to the other's number would never see it. So a message is written without a place, and gets one behind its commit, by one
//! process at a time: whatever is seen at a place, nothing will ever stand before it that is not there yet.
//!
//! Places are kept with the catalogue, whatever lanes the messages are in, so that there is one order. What is placed is noted
//! with the message behind that; a process that dies in between leaves messages that are found again, and keep their places.

use std::collections::BTreeMap;
use std::sync::Arc;

use billing_domain::Error;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{Feeds, Placed, Renderer};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::PgStore;
use crate::lanes::Lane;
use crate::pg::column::count;
use crate::pg::error::Failure;
use crate::pg::lock::{LockClass, try_lock};
use crate::pg::schema::message_counters;
use crate::pg::statement::statement;

statement! {
    /// The messages of a lane's customers that have no place, those that were written first before the others.
    ListUnplaced -> (SqlUuid, Nullable<SqlUuid>, SqlUuid, Text, Timestamptz) {
        "SELECT organization_id, customer_key, id, message_type, written_at FROM messages WHERE NOT is_placed
        ORDER BY written_at, id LIMIT " limit: i64 as BigInt; ""
    }
}

statement! {
    /// [`ListUnplaced`] of what is organizations' own.
    ListOwnUnplaced -> (SqlUuid, Nullable<SqlUuid>, SqlUuid, Text, Timestamptz) {
        "SELECT organization_id, NULL::uuid, id, message_type, written_at FROM organization_messages WHERE NOT is_placed
        ORDER BY written_at, id LIMIT " limit: i64 as BigInt; ""
    }
}

statement! {
    /// Gives messages, in their order, the next positions of their organizations, but for those that have one.
    PlaceMessages -> (SqlUuid, BigInt) {
        "INSERT INTO feed_entries (organization_id, position, customer_key, message_id, message_type, written_at)
        SELECT fresh.organization_id, coalesce(counter.last_position, 0)
                + row_number() OVER (PARTITION BY fresh.organization_id ORDER BY fresh.ordinal),
            fresh.customer_key, fresh.id, fresh.message_type, fresh.written_at
        FROM unnest(" organizations: Vec<Uuid> as Array<SqlUuid>; ", " customers: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>; ",
            " ids: Vec<Uuid> as Array<SqlUuid>; ", " types: Vec<String> as Array<Text>; ",
            " ats: Vec<OffsetDateTime> as Array<Timestamptz>; ") WITH ORDINALITY
            AS fresh (organization_id, customer_key, id, message_type, written_at, ordinal)
        LEFT JOIN message_counters counter USING (organization_id)
        WHERE NOT EXISTS (
            SELECT FROM feed_entries entry
            WHERE entry.organization_id = fresh.organization_id AND entry.message_id = fresh.id
        )
        RETURNING organization_id, position"
    }
}

statement! {
    /// Notes of messages that they have a place.
    MarkPlaced -> SqlUuid {
        "UPDATE messages SET is_placed = true
        FROM unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " ids: Vec<Uuid> as Array<SqlUuid>; ") AS placed (customer_key, id)
        WHERE messages.customer_key = placed.customer_key AND messages.id = placed.id
        RETURNING messages.id"
    }
}

statement! {
    /// [`MarkPlaced`] of what is organizations' own.
    MarkOwnPlaced -> SqlUuid {
        "UPDATE organization_messages SET is_placed = true
        FROM unnest(" organizations: Vec<Uuid> as Array<SqlUuid>; ", " ids: Vec<Uuid> as Array<SqlUuid>; ") AS placed (organization_id, id)
        WHERE organization_messages.organization_id = placed.organization_id AND organization_messages.id = placed.id
        RETURNING organization_messages.id"
    }
}

statement! {
    /// Notes how far feeds go.
    NotePositions -> SqlUuid {
        "INSERT INTO message_counters (organization_id, last_position)
        SELECT * FROM unnest(" organizations: Vec<Uuid> as Array<SqlUuid>; ", " positions: Vec<i64> as Array<BigInt>; ")
        ON CONFLICT (organization_id) DO UPDATE SET last_position = excluded.last_position
        RETURNING organization_id"
    }
}

statement! {
    /// Some organizations whose feeds begin with what was written before an instant, or with what is not kept any more.
    ListWithOld -> SqlUuid {
        "SELECT counter.organization_id FROM message_counters counter
        CROSS JOIN LATERAL (
            SELECT position, written_at FROM feed_entries
            WHERE feed_entries.organization_id = counter.organization_id
            ORDER BY feed_entries.position LIMIT 1
        ) oldest
        WHERE oldest.position < counter.first_kept OR oldest.written_at < " before: OffsetDateTime as Timestamptz; "
        LIMIT " limit: i64 as BigInt; ""
    }
}

statement! {
    /// Notes from where on a feed is kept: of its oldest places, so many at most, behind the last that was written before an
    /// instant. Somebody else may have come further.
    MoveFirstKept -> SqlUuid {
        "UPDATE message_counters SET first_kept = greatest(first_kept, old.last + 1)
        FROM (
            SELECT max(entry.position) AS last
            FROM (
                SELECT position, written_at FROM feed_entries WHERE organization_id = " organization: Uuid as SqlUuid; "
                ORDER BY position LIMIT " limit: i64 as BigInt; "
            ) entry
            WHERE entry.written_at < " before: OffsetDateTime as Timestamptz; "
        ) old
        WHERE message_counters.organization_id = " same_organization: Uuid as SqlUuid; " AND old.last IS NOT NULL
        RETURNING message_counters.organization_id"
    }
}

statement! {
    /// The oldest places of a feed that are not kept.
    ListDropped -> (SqlUuid, BigInt, Nullable<SqlUuid>, SqlUuid) {
        "SELECT entry.organization_id, entry.position, entry.customer_key, entry.message_id
        FROM message_counters counter
        JOIN feed_entries entry ON entry.organization_id = counter.organization_id AND entry.position < counter.first_kept
        WHERE counter.organization_id = " organization: Uuid as SqlUuid; "
        ORDER BY entry.position LIMIT " limit: i64 as BigInt; ""
    }
}

statement! {
    /// Drops places of a feed.
    DropEntries -> BigInt {
        "DELETE FROM feed_entries WHERE organization_id = " organization: Uuid as SqlUuid; "
            AND position = ANY (" positions: Vec<i64> as Array<BigInt>; ")
        RETURNING position"
    }
}

statement! {
    /// Drops messages.
    DropMessages -> SqlUuid {
        "DELETE FROM messages USING unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " ids: Vec<Uuid> as Array<SqlUuid>; ") AS old (customer_key, id)
        WHERE messages.customer_key = old.customer_key AND messages.id = old.id
        RETURNING messages.id"
    }
}

statement! {
    /// [`DropMessages`] of what is organizations' own.
    DropOwnMessages -> SqlUuid {
        "DELETE FROM organization_messages
        USING unnest(" organizations: Vec<Uuid> as Array<SqlUuid>; ", " ids: Vec<Uuid> as Array<SqlUuid>; ") AS old (organization_id, id)
        WHERE organization_messages.organization_id = old.organization_id AND organization_messages.id = old.id
        RETURNING organization_messages.id"
    }
}

/// Organizations whose old messages are dropped in one go.
const DROPPED_FROM_MAX: i64 = 50;

/// The place of a message that is not kept: its organization, its position, whose it is if it is a customer's, its id.
type Dropped = (Uuid, i64, Option<Uuid>, Uuid);

/// A message without a place: its organization, whose it is if it is a customer's, its id and type, when it was written.
type Unplaced = (Uuid, Option<Uuid>, Uuid, String, OffsetDateTime);

/// The last position of each organization among these.
fn last_of(rows: &[(Uuid, i64)]) -> BTreeMap<Uuid, i64> {
    let mut last = BTreeMap::new();
    for (organization, position) in rows {
        let known = last.entry(*organization).or_insert(*position);
        *known = (*known).max(*position);
    }
    last
}

/// The keys and ids of those that are customers'.
fn of_customers(all: &[Unplaced]) -> (Vec<Uuid>, Vec<Uuid>) {
    all.iter().filter_map(|(_, key, id, ..)| Some(((*key)?, *id))).unzip()
}

/// The organizations and ids of the others.
fn own(all: &[Unplaced]) -> (Vec<Uuid>, Vec<Uuid>) {
    all.iter().filter(|(_, key, ..)| key.is_none()).map(|(organization, _, id, ..)| (*organization, *id)).unzip()
}

impl PgStore {
    /// Whether customers' messages are where the catalogue is, and can be read and written with it.
    fn is_in_one_place(&self) -> bool {
        self.shared.lanes.only().is_some_and(|lane| lane.role.is_none())
    }

    /// Everything that has no place, some of each source: what is organizations' own, then lane by lane.
    fn list_unplaced(&self, pg: &mut PgConnection, limit: u32) -> Result<Vec<Vec<Unplaced>>, Failure> {
        let limit = i64::from(limit);
        let mut all = vec![ListOwnUnplaced { limit }.load(pg)?];
        if self.is_in_one_place() {
            all.push(ListUnplaced { limit }.load(pg)?);
            return Ok(all);
        }
        for lane in self.shared.lanes.all() {
            let list = |lane: &Lane| lane.pool.read_together(|pg| Ok(ListUnplaced { limit }.load(pg)?));
            all.push(self.shared.lanes.with(lane, list)?);
        }
        Ok(all)
    }

    /// Notes with the messages that they have places: with the catalogue in the same transaction, in other places behind it. Whoever does not
    /// come to that is found again, with the place it has.
    fn mark_placed(&self, all: &[Vec<Unplaced>]) -> Result<(), Error> {
        // The first are organizations' own.
        for (lane, placed) in self.shared.lanes.all().zip(all.iter().skip(1)).filter(|(_, placed)| !placed.is_empty()) {
            let (customers, ids) = of_customers(placed);
            let mark = MarkPlaced { customers, ids };
            let marked = self.shared.lanes.with(lane, |lane| lane.pool.run(|pg| mark.clone().load::<Uuid>(pg)));
            marked.map_err(Failure::into_error)?;
        }
        Ok(())
    }
}

impl PgStore {
    /// Drops some of an organization's oldest messages; how many. First whoever reads is told that they are not kept, then the
    /// messages go, and their places last: by those whoever comes after a death in between finds what is left. It takes no lock:
    /// several at once do the same.
    fn drop_some(&self, organization: Uuid, before: OffsetDateTime, limit: i64) -> Result<usize, Failure> {
        let pool = &self.shared.pool;
        let forget = MoveFirstKept { organization, limit, before, same_organization: organization };
        pool.run(|pg| forget.clone().load::<Uuid>(pg))?;
        let list = ListDropped { organization, limit };
        let dropped: Vec<Dropped> = pool.run(|pg| list.clone().load(pg))?;
        let own = dropped.iter().filter(|(_, _, key, _)| key.is_none());
        let (organizations, ids) = own.map(|(organization, _, _, id)| (*organization, *id)).unzip();
        let old = DropOwnMessages { organizations, ids };
        pool.run(|pg| old.clone().load::<Uuid>(pg))?;
        let of_customers = dropped.iter().filter_map(|(_, _, key, id)| Some(((*key)?, *id)));
        for (lane, old) in self.shared.lanes.apart(of_customers, |(key, _)| CustomerKey::from(*key)) {
            let (customers, ids) = old.into_iter().map(|(_, old)| old).unzip();
            let old = DropMessages { customers, ids };
            self.shared.lanes.with(lane, |lane| lane.pool.run(|pg| old.clone().load::<Uuid>(pg)))?;
        }
        let positions = dropped.iter().map(|(_, position, ..)| *position).collect();
        let entries = DropEntries { organization, positions };
        pool.run(|pg| entries.clone().load::<i64>(pg))?;
        Ok(dropped.len())
    }
}

impl Feeds for PgStore {
    fn place_messages(&self, limit: u32) -> Result<Placed, Error> {
        let placed = self.shared.pool.transact(|pg| {
            if !try_lock(pg, LockClass::Messages)? {
                // Somebody is at it, and comes again for what they have not seen.
                return Ok(None);
            }
            // Behind the lock: what is seen without a place has none, or this is not the first time that it is seen.
            let all = self.list_unplaced(pg, limit)?;
            let mut fresh: Vec<Unplaced> = all.concat();
            fresh.sort_by_key(|(_, _, id, _, written_at)| (*written_at, *id));
            if fresh.is_empty() {
                return Ok(Some((all, BTreeMap::new())));
            }
            let place = PlaceMessages {
                organizations: fresh.iter().map(|(organization, ..)| *organization).collect(),
                customers: fresh.iter().map(|(_, key, ..)| *key).collect(),
                ids: fresh.iter().map(|(_, _, id, ..)| *id).collect(),
                types: fresh.iter().map(|(_, _, _, message_type, _)| message_type.clone()).collect(),
                ats: fresh.iter().map(|(.., written_at)| *written_at).collect(),
            };
            let last = last_of(&place.load::<(Uuid, i64)>(pg)?);
            if !last.is_empty() {
                let (organizations, positions) = last.iter().map(|(id, position)| (*id, *position)).unzip();
                NotePositions { organizations, positions }.load::<Uuid>(pg)?;
            }
            let (organizations, ids) = own(&fresh);
            MarkOwnPlaced { organizations, ids }.load::<Uuid>(pg)?;
            if self.is_in_one_place() {
                let (customers, ids) = of_customers(&fresh);
                MarkPlaced { customers, ids }.load::<Uuid>(pg)?;
            }
            Ok(Some((all, last)))
        });
        let Some((all, last)) = placed.map_err(Failure::into_error)? else { return Ok(Placed::default()) };
        if !self.is_in_one_place() {
            self.mark_placed(&all)?;
        }
        let there_is_more = all.iter().any(|source| source.len() >= limit as usize);
        Ok(Placed::new(last.into_keys().map(OrganizationId::from).collect(), there_is_more))
    }

    fn last_positions(&self, organizations: &[OrganizationId]) -> Result<Vec<u64>, Error> {
        let ids: Vec<Uuid> = organizations.iter().map(|organization| organization.uuid()).collect();
        let query = message_counters::table
            .filter(message_counters::organization_id.eq_any(&ids))
            .select((message_counters::organization_id, message_counters::last_position));
        let rows = self.shared.pool.run(|pg| query.clone().load::<(Uuid, i64)>(pg)).map_err(Failure::into_error)?;
        let last: BTreeMap<Uuid, i64> = rows.into_iter().collect();
        ids.iter().map(|id| count(last.get(id).copied().unwrap_or(0))).collect()
    }

    fn drop_messages(&self, before: OffsetDateTime, limit: u32) -> Result<bool, Error> {
        let list = ListWithOld { before, limit: DROPPED_FROM_MAX };
        let organizations: Vec<Uuid> = self.shared.pool.run(|pg| list.clone().load(pg)).map_err(Failure::into_error)?;
        let each = (i64::from(limit) / organizations.len().max(1) as i64).max(1);
        let mut there_is_more = organizations.len() as i64 == DROPPED_FROM_MAX;
        for organization in organizations {
            there_is_more |= self.drop_some(organization, before, each).map_err(Failure::into_error)? == each as usize;
        }
        Ok(there_is_more)
    }

    fn on_messages(&self, bell: Box<dyn Fn() + Send + Sync>) {
        self.shared.messages.set_bell(bell);
    }

    fn render_with(&self, renderer: Arc<dyn Renderer>) {
        self.shared.messages.set_renderer(renderer);
    }
}
