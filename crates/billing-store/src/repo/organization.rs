//! Organizations.

use bigdecimal::BigDecimal;
use billing_domain::organization::{AccessPolicy, Organization};
use billing_domain::store::OrganizationRepo;
use billing_domain::tax::{TaxFailure, TaxProvider};
use billing_domain::{Error, FieldCode, FieldError, Noun, StoreError};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Text, Uuid as SqlUuid};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, count, from_json, stored_count, to_json};
use crate::pg::schema::organizations;
use crate::pg::statement::statement;
use crate::rollup::renew_ingest_version;
use crate::shared::Shared;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = organizations, check_for_backend(Pg))]
struct OrganizationRow {
    id: Uuid,
    name: String,
    default_currency_code: String,
    timezone: String,
    tax_rate: Option<BigDecimal>,
    payment_grace_period_days: Option<i32>,
    invoice_grace_minutes: i64,
    subscription_filter_keys: Vec<String>,
    access_policy: String,
    event_window_days: i32,
    address: Option<Value>,
    created_at: OffsetDateTime,
    tax_providers: Vec<String>,
    tax_hook: Option<Value>,
    on_tax_failure: String,
    approval_limit: Option<BigDecimal>,
}

impl TryFrom<&Organization> for OrganizationRow {
    type Error = Error;

    fn try_from(organization: &Organization) -> Result<Self, Error> {
        Ok(Self {
            id: organization.id.uuid(),
            name: organization.name.clone(),
            default_currency_code: organization.default_currency_code.clone(),
            timezone: organization.timezone.clone(),
            tax_rate: organization.tax_rate.clone(),
            payment_grace_period_days: organization.payment_grace_period_days.map(i32::from),
            invoice_grace_minutes: stored_count(organization.invoice_grace_minutes)?,
            subscription_filter_keys: organization.subscription_filter_keys.clone(),
            access_policy: organization.access_policy.as_str().to_owned(),
            event_window_days: i32::from(organization.event_window_days),
            address: organization.address.as_ref().map(to_json).transpose()?,
            created_at: organization.created_at,
            tax_providers: organization.tax_providers.iter().map(|provider| provider.as_str().to_owned()).collect(),
            tax_hook: organization.tax_hook.as_ref().map(to_json).transpose()?,
            on_tax_failure: organization.on_tax_failure.as_str().to_owned(),
            approval_limit: organization.approval_limit.clone(),
        })
    }
}

impl TryFrom<OrganizationRow> for Organization {
    type Error = Error;

    fn try_from(row: OrganizationRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            default_currency_code: row.default_currency_code,
            timezone: row.timezone,
            tax_rate: row.tax_rate,
            payment_grace_period_days: row.payment_grace_period_days.map(count).transpose()?,
            invoice_grace_minutes: count(row.invoice_grace_minutes)?,
            subscription_filter_keys: row.subscription_filter_keys,
            access_policy: choice(AccessPolicy::ALL, AccessPolicy::as_str, &row.access_policy)?,
            event_window_days: count(row.event_window_days)?,
            address: row.address.map(from_json).transpose()?,
            created_at: row.created_at,
            tax_providers: tax_providers(&row.tax_providers)?,
            tax_hook: row.tax_hook.map(from_json).transpose()?,
            on_tax_failure: choice(TaxFailure::ALL, TaxFailure::as_str, &row.on_tax_failure)?,
            approval_limit: row.approval_limit,
        })
    }
}

/// The providers that a row names.
pub(crate) fn tax_providers(names: &[String]) -> Result<Vec<TaxProvider>, Error> {
    names.iter().map(|name| choice(TaxProvider::ALL, TaxProvider::as_str, name)).collect()
}

statement! {
    /// Adds those keys that are missing, each once and in the order given, and answers how many there are now. Whoever
    /// adds at the same time waits, and then adds to what this one made of the list.
    AddFilterKeys -> Integer {
        "UPDATE organizations SET subscription_filter_keys = subscription_filter_keys || ARRAY(
            SELECT added.key
            FROM unnest(" keys: Vec<String> as Array<Text>; ") WITH ORDINALITY AS added (key, position)
            WHERE added.key <> ALL (subscription_filter_keys)
            GROUP BY added.key
            ORDER BY min(added.position)
        )
        WHERE id = " organization: Uuid as SqlUuid; "
        RETURNING cardinality(subscription_filter_keys)"
    }
}

statement! {
    /// By how many minutes the organization's invoices wait longer than so many.
    ReadGraceBeyond -> BigInt {
        "SELECT invoice_grace_minutes - " minutes: i64 as BigInt; " FROM organizations WHERE id = " organization: Uuid as SqlUuid; ""
    }
}

statement! {
    /// Moves the organization's queued billing ahead. What is looked at too early, because it waits for nothing, is queued again
    /// for when it is due.
    BringForward -> Integer {
        "UPDATE billing_due SET due_at = due_at - make_interval(mins => " minutes: i64 as BigInt; "::integer)
        WHERE organization_id = " organization: Uuid as SqlUuid; "
        RETURNING 1"
    }
}

impl Shared {
    /// Moves the organization's queued billing ahead in each of several lanes once more, now that the shorter wait is committed: a
    /// worker may have put customers back for the longer one meanwhile. Too early does no harm.
    pub(crate) fn bring_forward_again(&self, organization: Uuid, minutes: i64) {
        let forward = BringForward { minutes, organization };
        for lane in self.lanes.all().filter(|_| self.lanes.only().is_none()) {
            let forwarded = self.lanes.with(lane, |lane| lane.pool.run(|pg| forward.clone().execute(pg)));
            if let Err(failure) = forwarded {
                log::warn!("billing of lane {} comes as late as before: {}", lane.number, failure.into_error());
            }
        }
    }
}

/// Refuses an organization with more keys than there may be.
fn expect_few_filter_keys(in_all: i32) -> Result<(), Error> {
    if count::<usize>(in_all)? > Organization::SUBSCRIPTION_FILTER_KEYS_MAX {
        let detail = "The organization has too many subscription filter keys.";
        return Err(FieldError::new("subscription_filters", FieldCode::ListTooLong, detail).into());
    }
    Ok(())
}

impl OrganizationRepo for PgTransaction<'_> {
    fn insert(&mut self, organization: &Organization) -> Result<(), Error> {
        if organization.id != self.organization {
            let message = "an organization is made in a transaction of its own".to_owned();
            return Err(StoreError::Internal(message).into());
        }
        let row = OrganizationRow::try_from(organization)?;
        self.query(|pg| diesel::insert_into(organizations::table).values(&row).execute(pg))?;
        let tenant = self.tenant();
        self.query(|pg| renew_ingest_version(pg, tenant))
    }

    fn get(&mut self) -> Result<Organization, Error> {
        let query = organizations::table.find(self.tenant()).select(OrganizationRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::Organization))?.try_into()
    }

    fn update(&mut self, organization: &Organization) -> Result<(), Error> {
        let row = OrganizationRow::try_from(organization)?;
        let tenant = self.tenant();
        let read = ReadGraceBeyond { minutes: row.invoice_grace_minutes, organization: tenant };
        let minutes = self.query(|pg| read.get_result::<i64>(pg).optional())?;
        if let Some(minutes) = minutes.filter(|minutes| *minutes > 0) {
            let forward = BringForward { minutes, organization: tenant };
            self.in_every_lane(|pg| forward.clone().execute(pg).map(drop))?;
            self.brought_forward = Some(minutes);
        }
        // All but the filter keys, which another transaction may be adding to.
        let changes = (
            organizations::name.eq(row.name),
            organizations::default_currency_code.eq(row.default_currency_code),
            organizations::timezone.eq(row.timezone),
            organizations::tax_rate.eq(row.tax_rate),
            organizations::payment_grace_period_days.eq(row.payment_grace_period_days),
            organizations::invoice_grace_minutes.eq(row.invoice_grace_minutes),
            organizations::access_policy.eq(row.access_policy),
            organizations::event_window_days.eq(row.event_window_days),
            organizations::address.eq(row.address),
            organizations::tax_providers.eq(row.tax_providers),
            organizations::tax_hook.eq(row.tax_hook),
            organizations::on_tax_failure.eq(row.on_tax_failure),
            organizations::approval_limit.eq(row.approval_limit),
        );
        let rows = self.query(|pg| diesel::update(organizations::table.find(tenant)).set(changes).execute(pg))?;
        if rows == 0 {
            return Err(Error::NotFound(Noun::Organization));
        }
        // The window for events may have changed.
        self.query(|pg| renew_ingest_version(pg, tenant))
    }

    fn add_filter_keys(&mut self, keys: &[&str]) -> Result<(), Error> {
        let tenant = self.tenant();
        let query = organizations::table.find(tenant).select(organizations::subscription_filter_keys);
        let known: Vec<String> =
            self.query(|pg| query.first(pg).optional())?.ok_or(Error::NotFound(Noun::Organization))?;
        // Mostly they are all known, and then nobody has to wait for anybody.
        if keys.iter().all(|key| known.iter().any(|other| other == key)) {
            return Ok(());
        }
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let added = AddFilterKeys { keys, organization: tenant };
        if self.away().is_some() {
            // A key too many costs a roll-up, and changes no figure.
            self.at_home(|home| Ok(expect_few_filter_keys(added.clone().get_result(home)?)?))?;
            return self.catch_up();
        }
        expect_few_filter_keys(self.query(|pg| added.get_result(pg))?)
    }
}
