//! Requests for a second person.

use bigdecimal::BigDecimal;
use billing_domain::approval::{Approval, ApprovalState, HeldCall, Outcome};
use billing_domain::audit::{Actor, ActorKind};
use billing_domain::id::ApprovalId;
use billing_domain::store::{ApprovalRepo, Page, PageRequest};
use billing_domain::{Error, FieldError, HeldAmount, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, count};
use crate::pg::schema::approvals;
use crate::repo::customer::page_of;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = approvals, check_for_backend(Pg), primary_key(organization_id, id))]
#[diesel(treat_none_as_null = true)]
struct ApprovalRow {
    organization_id: Uuid,
    id: Uuid,
    operation: String,
    method: String,
    path: String,
    body: Option<String>,
    amount: Option<BigDecimal>,
    currency_code: Option<String>,
    requester_kind: String,
    requester_id: String,
    requester_name: String,
    requested_at: OffsetDateTime,
    expires_at: OffsetDateTime,
    state: String,
    decider_kind: Option<String>,
    decider_id: Option<String>,
    decider_name: Option<String>,
    decided_at: Option<OffsetDateTime>,
    reason: Option<String>,
    outcome_status: Option<i32>,
    outcome_code: Option<String>,
}

impl ApprovalRow {
    fn new(organization_id: Uuid, approval: &Approval) -> Self {
        let Approval { call, held, requested_by, decided_by, outcome, .. } = approval.clone();
        let (decider_id, decider_name) = decided_by.clone().map(|by| (by.id, by.name)).unzip();
        Self {
            organization_id,
            id: approval.id.uuid(),
            operation: call.operation,
            method: call.method,
            path: call.path,
            body: call.body,
            amount: held.amount,
            currency_code: held.currency_code,
            requester_kind: requested_by.kind.as_str().to_owned(),
            requester_id: requested_by.id,
            requester_name: requested_by.name,
            requested_at: approval.requested_at,
            expires_at: approval.expires_at,
            state: approval.state.as_str().to_owned(),
            decider_kind: decided_by.map(|by| by.kind.as_str().to_owned()),
            decider_id,
            decider_name,
            decided_at: approval.decided_at,
            reason: approval.reason.clone(),
            outcome_status: outcome.as_ref().map(|outcome| i32::from(outcome.status)),
            outcome_code: outcome.and_then(|outcome| outcome.code),
        }
    }
}

fn actor(kind: &str, id: String, name: String) -> Result<Actor, Error> {
    Ok(Actor { kind: choice(ActorKind::ALL, ActorKind::as_str, kind)?, id, name })
}

impl TryFrom<ApprovalRow> for Approval {
    type Error = Error;

    fn try_from(row: ApprovalRow) -> Result<Self, Error> {
        let decided_by = match (row.decider_kind, row.decider_id, row.decider_name) {
            (Some(kind), Some(id), Some(name)) => Some(actor(&kind, id, name)?),
            _ => None,
        };
        let status: Option<u16> = row.outcome_status.map(count).transpose()?;
        Ok(Self {
            id: row.id.into(),
            call: HeldCall { operation: row.operation, method: row.method, path: row.path, body: row.body },
            held: HeldAmount { amount: row.amount, currency_code: row.currency_code },
            requested_by: actor(&row.requester_kind, row.requester_id, row.requester_name)?,
            requested_at: row.requested_at,
            expires_at: row.expires_at,
            state: choice(ApprovalState::ALL, ApprovalState::as_str, &row.state)?,
            decided_by,
            decided_at: row.decided_at,
            reason: row.reason,
            outcome: status.map(|status| Outcome { status, code: row.outcome_code }),
        })
    }
}

impl ApprovalRepo for PgTransaction<'_> {
    fn insert(&mut self, approval: &Approval) -> Result<(), Error> {
        let row = ApprovalRow::new(self.tenant(), approval);
        self.query(|pg| diesel::insert_into(approvals::table).values(&row).execute(pg)).map(drop)
    }

    fn get(&mut self, id: ApprovalId) -> Result<Approval, Error> {
        let query = approvals::table.find((self.tenant(), id.uuid())).select(ApprovalRow::as_select());
        let row: Option<ApprovalRow> = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::Approval))?.try_into()
    }

    fn list(
        &mut self,
        state: Option<ApprovalState>,
        now: OffsetDateTime,
        page: &PageRequest,
    ) -> Result<Page<Approval>, Error> {
        let bad = || FieldError::bad_cursor();
        let after: Option<ApprovalId> =
            page.after.as_deref().map(|text| text.parse().map_err(|_| bad())).transpose()?;
        let mut query = approvals::table.filter(approvals::organization_id.eq(self.tenant())).into_boxed();
        // What waits too long has expired, and nobody notes it.
        let waiting = ApprovalState::Waiting.as_str();
        query = match state {
            None => query,
            Some(ApprovalState::Waiting) => {
                query.filter(approvals::state.eq(waiting).and(approvals::expires_at.gt(now)))
            }
            Some(ApprovalState::Expired) => {
                query.filter(approvals::state.eq(waiting).and(approvals::expires_at.le(now)))
            }
            Some(state) => query.filter(approvals::state.eq(state.as_str())),
        };
        if let Some(after) = after {
            query = query.filter(approvals::id.lt(after.uuid()));
        }
        let query = query.order(approvals::id.desc()).limit(i64::from(page.limit) + 1).select(ApprovalRow::as_select());
        let rows: Vec<ApprovalRow> = self.query(|pg| query.load(pg))?;
        let found =
            rows.into_iter().map(|row| Approval::try_from(row).map(|approval| (approval.id.to_string(), approval)));
        Ok(page_of(found.collect::<Result<_, _>>()?, page.limit))
    }

    fn update(&mut self, approval: &Approval) -> Result<(), Error> {
        let row = ApprovalRow::new(self.tenant(), approval);
        let kept = approvals::table.find((self.tenant(), approval.id.uuid()));
        match self.query(|pg| diesel::update(kept).set(&row).execute(pg))? {
            0 => Err(Error::NotFound(Noun::Approval)),
            _ => Ok(()),
        }
    }
}
