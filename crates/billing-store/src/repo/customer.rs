//! Customers, their own time, and when they next have something to be billed.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::customer::{Customer, CustomerFields, PaymentProvider};
use billing_domain::id::CustomerKey;
use billing_domain::store::{CustomerRepo, Page, PageRequest, SearchedBy};
use billing_domain::{Error, FieldError, Noun};
use diesel::dsl::{SqlTypeOf, sql};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::lanes::Lane;
use crate::pg::column::{from_json, to_json, unreadable};
use crate::pg::now::{customer_now, customer_nows};
use crate::pg::schema::{billing_due, customer_emails, customers};
use crate::pg::statement::statement;
use crate::repo::organization::tax_providers;
use crate::reservation;
use crate::transaction::{PgTransaction, Reached};

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = customers, check_for_backend(Pg))]
pub(crate) struct CustomerRow {
    customer_key: Uuid,
    organization_id: Uuid,
    customer_id: String,
    #[diesel(embed)]
    fields: FieldsRow,
    test_clock_id: Option<Uuid>,
    created_at: OffsetDateTime,
    last_instant: OffsetDateTime,
    deleted_at: Option<OffsetDateTime>,
    catching_up: bool,
}

/// A customer's place in the list of customers.
pub(crate) type ListKey = Uuid;

/// What of a customer may change.
#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = customers, check_for_backend(Pg), treat_none_as_null = true)]
pub(crate) struct FieldsRow {
    name: Option<String>,
    email: Option<String>,
    default_currency_code: String,
    billing_address: Option<Value>,
    shipping_address: Option<Value>,
    tax_rate: Option<BigDecimal>,
    timezone: String,
    payment_provider: Option<String>,
    payment_provider_id: Option<String>,
    has_payment_method: bool,
    properties: Value,
    tax_providers: Vec<String>,
    tax_quotes: Value,
    one_off_lines: Value,
}

impl TryFrom<&Customer> for FieldsRow {
    type Error = Error;

    fn try_from(customer: &Customer) -> Result<Self, Error> {
        let fields = &customer.fields;
        Ok(Self {
            name: fields.name.clone(),
            email: customer.email.clone(),
            default_currency_code: customer.default_currency_code.clone(),
            billing_address: fields.billing_address.as_ref().map(to_json).transpose()?,
            shipping_address: fields.shipping_address.as_ref().map(to_json).transpose()?,
            tax_rate: fields.tax_rate.clone(),
            timezone: customer.timezone.clone(),
            payment_provider: fields.payment_provider.map(|provider| provider.as_str().to_owned()),
            payment_provider_id: fields.payment_provider_id.clone(),
            has_payment_method: fields.has_payment_method,
            properties: Value::Object(fields.properties.clone()),
            tax_providers: fields.tax_providers.iter().map(|provider| provider.as_str().to_owned()).collect(),
            tax_quotes: to_json(&customer.tax_quotes)?,
            one_off_lines: to_json(&customer.one_off_lines)?,
        })
    }
}

impl TryFrom<&Customer> for CustomerRow {
    type Error = Error;

    fn try_from(customer: &Customer) -> Result<Self, Error> {
        Ok(Self {
            customer_key: customer.key.uuid(),
            organization_id: customer.organization.uuid(),
            customer_id: customer.id.as_str().to_owned(),
            fields: customer.try_into()?,
            test_clock_id: customer.test_clock.map(|clock| clock.uuid()),
            created_at: customer.created_at,
            last_instant: customer.created_at,
            deleted_at: customer.deleted_at,
            catching_up: customer.catching_up,
        })
    }
}

impl TryFrom<CustomerRow> for Customer {
    type Error = Error;

    fn try_from(row: CustomerRow) -> Result<Self, Error> {
        let FieldsRow { email, default_currency_code, timezone, .. } = row.fields;
        let provider = |text: String| text.parse::<PaymentProvider>().map_err(unreadable);
        let fields = CustomerFields {
            name: row.fields.name,
            billing_address: row.fields.billing_address.map(from_json).transpose()?,
            shipping_address: row.fields.shipping_address.map(from_json).transpose()?,
            tax_rate: row.fields.tax_rate,
            tax_providers: tax_providers(&row.fields.tax_providers)?,
            payment_provider: row.fields.payment_provider.map(provider).transpose()?,
            payment_provider_id: row.fields.payment_provider_id,
            has_payment_method: row.fields.has_payment_method,
            properties: from_json(row.fields.properties)?,
        };
        Ok(Self {
            key: row.customer_key.into(),
            organization: row.organization_id.into(),
            id: row.customer_id.parse().map_err(|_| unreadable("customer_id"))?,
            email,
            default_currency_code,
            timezone,
            fields,
            test_clock: row.test_clock_id.map(Into::into),
            catching_up: row.catching_up,
            tax_quotes: from_json(row.fields.tax_quotes)?,
            one_off_lines: from_json(row.fields.one_off_lines)?,
            created_at: row.created_at,
            deleted_at: row.deleted_at,
        })
    }
}

/// What the columns of a [`CustomerRow`] are in SQL.
pub(crate) type CustomerSql = SqlTypeOf<<CustomerRow as Selectable<Pg>>::SelectExpression>;

/// The columns of a [`CustomerRow`], in its order.
pub(crate) const COLUMNS: &str =
    "customers.customer_key, customers.organization_id, customers.customer_id, customers.name,
    customers.email, customers.default_currency_code, customers.billing_address, customers.shipping_address,
    customers.tax_rate, customers.timezone, customers.payment_provider, customers.payment_provider_id,
    customers.has_payment_method, customers.properties, customers.tax_providers, customers.tax_quotes, customers.one_off_lines, customers.test_clock_id, customers.created_at,
    customers.last_instant, customers.deleted_at, customers.catching_up";

/// The end of an insert into the queue: whoever is in it already is there as if anew, free for any worker, whatever went wrong before.
const QUEUED_ANEW: &str = "ON CONFLICT (customer_key) DO UPDATE SET due_at = excluded.due_at, claimed_until = NULL,
            failures = 0, failure = NULL, failed_at = NULL, is_parked = false, waits_for_tax_until = NULL";

statement! {
    /// Moves a customer's last instant forward.
    AdvanceInstant -> BigInt {
        "UPDATE customers SET last_instant = greatest(last_instant, " instant: OffsetDateTime as Timestamptz; ")
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND customer_key = " customer: Uuid as SqlUuid; ""
    }
}

statement! {
    /// Puts a customer in real time into the queue, free for any worker.
    SetBillingDue -> BigInt {
        "INSERT INTO billing_due (customer_key, organization_id, due_at)
        SELECT customer_key, organization_id, " due_at: OffsetDateTime as Timestamptz; "
        FROM customers
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND customer_key = " customer: Uuid as SqlUuid; "
            AND test_clock_id IS NULL
        " [QUEUED_ANEW] ""
    }
}

statement! {
    /// Moves customers' last instants forward, and puts those in real time into the queue, free for any worker, or takes
    /// them out of it; answers which of them there are.
    AdvanceInstantsAndQueue -> SqlUuid {
        "WITH wanted AS (
            SELECT * FROM unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " instants: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " dues: Vec<Option<OffsetDateTime>> as Array<Nullable<Timestamptz>>; ")
                AS wanted (customer_key, instant, due_at)
        ), reached AS (
            UPDATE customers customer SET last_instant = greatest(customer.last_instant, wanted.instant)
            FROM wanted
            WHERE customer.organization_id = " organization: Uuid as SqlUuid; " AND customer.customer_key = wanted.customer_key
            RETURNING customer.customer_key, customer.organization_id, customer.test_clock_id, wanted.due_at
        ), queued AS (
            INSERT INTO billing_due (customer_key, organization_id, due_at)
            SELECT customer_key, organization_id, due_at
            FROM reached
            WHERE test_clock_id IS NULL AND due_at IS NOT NULL
            " [QUEUED_ANEW] "
        ), dropped AS (
            DELETE FROM billing_due due USING reached
            WHERE due.customer_key = reached.customer_key AND due.organization_id = reached.organization_id
                AND reached.due_at IS NULL
        )
        SELECT customer_key FROM reached"
    }
}

/// The place in the list of customers that a cursor stands for.
pub(crate) fn list_key_of(cursor: &str) -> Result<ListKey, Error> {
    Uuid::try_parse(cursor).map_err(|_| FieldError::bad_cursor().into())
}

/// A page of what was read of a list, with one more than fits where there are more; each with the text of its place.
pub(crate) fn page_of<T>(mut found: Vec<(String, T)>, limit: u32) -> Page<T> {
    let limit = limit as usize;
    let is_last = found.len() <= limit;
    found.truncate(limit);
    let next = found.last().filter(|_| !is_last).map(|(place, _)| place.clone());
    Page { items: found.into_iter().map(|(_, item)| item).collect(), next }
}

impl PgTransaction<'_> {
    /// Writes the instants that customers have reached, and when something of theirs is due again.
    pub(crate) fn write_reached(&mut self) -> Result<(), Error> {
        let Reached(reached) = std::mem::take(&mut self.reached);
        if reached.is_empty() || self.has_failed() {
            return Ok(());
        }
        let write = AdvanceInstantsAndQueue {
            customers: reached.keys().map(|customer| customer.uuid()).collect(),
            instants: reached.values().map(|(instant, _)| *instant).collect(),
            dues: reached.values().map(|(_, due_at)| *due_at).collect(),
            organization: self.tenant(),
        };
        match self.query(|pg| write.load::<Uuid>(pg))?.len() == reached.len() {
            true => Ok(()),
            false => Err(Error::NotFound(Noun::Customer)),
        }
    }

    /// The organization's customers behind a place, one more than a page of so many has, each with its place.
    pub(crate) fn list_customers(
        &mut self,
        after: Option<ListKey>,
        limit: u32,
    ) -> Result<Vec<(ListKey, Customer)>, Error> {
        let query = customers::table
            .filter(customers::organization_id.eq(self.tenant()))
            .filter(customers::list_key.gt(after.unwrap_or(Uuid::nil())).and(customers::deleted_at.is_null()))
            .order(customers::list_key)
            .limit(i64::from(limit) + 1)
            .select((customers::list_key, CustomerRow::as_select()));
        let rows: Vec<(Uuid, CustomerRow)> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(|(key, row)| Ok((key, row.try_into()?))).collect()
    }

    /// Notes at home which address the customer has, if that is another one than before.
    fn move_email(&mut self, lane: &Lane, row: &CustomerRow) -> Result<(), Error> {
        let (organization, customer, email) = (row.organization_id, row.customer_key, row.fields.email.as_deref());
        self.resolve_others(lane, customer)?;
        let held = customer_emails::table
            .filter(customer_emails::organization_id.eq(organization))
            .filter(customer_emails::customer_key.eq(customer))
            .select(customer_emails::email);
        let held: Vec<String> = self.ask_home(|pg| held.load(pg))?;
        if held.iter().map(String::as_str).eq(email) {
            return Ok(());
        }
        self.reserve(lane, |home, holder| reservation::move_email(home, holder, customer, email))
    }

    fn reserve_email(&mut self, row: &CustomerRow) -> Result<(), Error> {
        if let Some(lane) = self.away() {
            return self.move_email(lane, row);
        }
        let Some(email) = &row.fields.email else { return Ok(()) };
        let values = (
            customer_emails::organization_id.eq(row.organization_id),
            customer_emails::email.eq(email),
            customer_emails::customer_key.eq(row.customer_key),
        );
        self.query(|pg| diesel::insert_into(customer_emails::table).values(values).execute(pg))?;
        Ok(())
    }
}

statement! {
    /// Leaves a customer's billing alone that failed once more, unless it was billed since it was leased.
    ParkBilling -> BigInt {
        "UPDATE billing_due
        SET failures = failures + 1, failure = " reason: String as Text; ", failed_at = statement_timestamp(),
            is_parked = true, claimed_until = statement_timestamp()
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND customer_key = " customer: Uuid as SqlUuid; "
            AND failures = " failures: i64 as BigInt; " AND claimed_until IS NOT NULL"
    }
}

statement! {
    /// Has a customer's billing tried again that failed, unless a worker is at it.
    RetryBilling -> BigInt {
        "UPDATE billing_due SET is_parked = false, failures = 0, claimed_until = NULL
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND customer_key = " customer: Uuid as SqlUuid; " AND failures > 0"
    }
}

impl CustomerRepo for PgTransaction<'_> {
    fn insert(&mut self, customer: &Customer) -> Result<(), Error> {
        let row = CustomerRow { organization_id: self.tenant(), ..CustomerRow::try_from(customer)? };
        let values = (&row, customers::list_key.eq(Uuid::now_v7()));
        self.query(|pg| diesel::insert_into(customers::table).values(values).execute(pg))?;
        self.reserve_email(&row)
    }

    fn get(&mut self, key: CustomerKey) -> Result<Customer, Error> {
        let found = self.get_even_deleted(key)?;
        if found.deleted_at.is_some() { Err(Error::NotFound(Noun::Customer)) } else { Ok(found) }
    }

    fn get_even_deleted(&mut self, key: CustomerKey) -> Result<Customer, Error> {
        let query = customers::table.find(key.uuid()).filter(customers::organization_id.eq(self.tenant()));
        let row = self.query(|pg| query.select(CustomerRow::as_select()).first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::Customer))?.try_into()
    }

    fn find_by_email(&mut self, email: &str) -> Result<Option<CustomerKey>, Error> {
        if self.away().is_some() {
            let (tenant, holder) = (self.tenant(), self.holder());
            let found = self.ask_home(|pg| reservation::owner_of_email(pg, tenant, email, holder.as_ref()))?;
            return Ok(found.map(CustomerKey::from));
        }
        let query = customer_emails::table.find((self.tenant(), email)).select(customer_emails::customer_key);
        let found: Option<Uuid> = self.query(|pg| query.first(pg).optional())?;
        Ok(found.map(CustomerKey::from))
    }

    fn update(&mut self, customer: &Customer) -> Result<(), Error> {
        let row = CustomerRow { organization_id: self.tenant(), ..CustomerRow::try_from(customer)? };
        let target = customers::table.find(row.customer_key).filter(customers::organization_id.eq(row.organization_id));
        let changes = (&row.fields, customers::deleted_at.eq(row.deleted_at));
        if self.query(|pg| diesel::update(target).set(changes).execute(pg))? == 0 {
            return Err(Error::NotFound(Noun::Customer));
        }
        if self.away().is_none() {
            let emails = customer_emails::table
                .filter(customer_emails::organization_id.eq(row.organization_id))
                .filter(customer_emails::customer_key.eq(row.customer_key));
            self.query(|pg| diesel::delete(emails).execute(pg))?;
        }
        self.reserve_email(&row)
    }

    fn list(&mut self, page: &PageRequest) -> Result<Page<Customer>, Error> {
        let after = page.after.as_deref().map(list_key_of).transpose()?;
        let found = self.list_customers(after, page.limit)?.into_iter();
        Ok(page_of(found.map(|(key, customer)| (key.simple().to_string(), customer)).collect(), page.limit))
    }

    fn search(&mut self, by: SearchedBy, beginning: &str, limit: u32) -> Result<Vec<Customer>, Error> {
        let searched = match by {
            SearchedBy::Id => "lower(left(customers.customer_id, 100) COLLATE \"C\")",
            SearchedBy::Name => "lower(left(customers.name, 100) COLLATE \"C\")",
        };
        let from = SearchedBy::folded(beginning);
        // In this order nothing that begins with the text comes behind it and the last of all characters.
        let to = format!("{from}\u{10FFFF}");
        let is_found = sql::<Bool>(searched).sql(" >= ").bind::<Text, _>(from).sql(" AND ");
        let is_found = is_found.sql(searched).sql(" < ").bind::<Text, _>(to);
        let query = customers::table
            .filter(customers::organization_id.eq(self.tenant()).and(customers::deleted_at.is_null()))
            .filter(is_found)
            .order((sql::<Text>(searched), customers::customer_key))
            .limit(i64::from(limit))
            .select(CustomerRow::as_select());
        let rows: Vec<CustomerRow> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    fn now(&mut self, key: CustomerKey) -> Result<OffsetDateTime, Error> {
        self.write_reached()?;
        let organization = self.tenant();
        self.query(|pg| customer_now(pg, organization, key.uuid()))
    }

    fn nows(&mut self, keys: &[CustomerKey]) -> Result<Vec<OffsetDateTime>, Error> {
        self.write_reached()?;
        let customers = keys.iter().map(|key| key.uuid()).collect();
        let organization = self.tenant();
        let found = self.query(|pg| customer_nows(pg, organization, customers))?;
        let found: BTreeMap<Uuid, OffsetDateTime> = found.into_iter().collect();
        let now = |key: &CustomerKey| found.get(&key.uuid()).copied().ok_or(Error::NotFound(Noun::Customer));
        keys.iter().map(now).collect()
    }

    fn advance_instant(&mut self, key: CustomerKey, instant: OffsetDateTime) -> Result<(), Error> {
        self.write_reached()?;
        let statement = AdvanceInstant { instant, organization: self.tenant(), customer: key.uuid() };
        match self.query(|pg| statement.execute(pg))? {
            0 => Err(Error::NotFound(Noun::Customer)),
            _ => Ok(()),
        }
    }

    fn set_billing_due(&mut self, key: CustomerKey, due_at: Option<OffsetDateTime>) -> Result<(), Error> {
        self.write_reached()?;
        let tenant = self.tenant();
        match due_at {
            Some(due_at) => {
                let statement = SetBillingDue { due_at, organization: tenant, customer: key.uuid() };
                self.query(|pg| statement.execute(pg))?;
            }
            None => {
                let target = billing_due::table.find(key.uuid()).filter(billing_due::organization_id.eq(tenant));
                self.query(|pg| diesel::delete(target).execute(pg))?;
            }
        }
        Ok(())
    }

    fn park_billing(&mut self, key: CustomerKey, failures: u32, reason: &str) -> Result<bool, Error> {
        self.write_reached()?;
        let park = ParkBilling {
            reason: reason.to_owned(),
            organization: self.tenant(),
            customer: key.uuid(),
            failures: i64::from(failures),
        };
        Ok(self.query(|pg| park.execute(pg))? > 0)
    }

    fn retry_billing(&mut self, key: CustomerKey) -> Result<bool, Error> {
        self.write_reached()?;
        let retry = RetryBilling { organization: self.tenant(), customer: key.uuid() };
        Ok(self.query(|pg| retry.execute(pg))? > 0)
    }

    fn set_catching_up(&mut self, key: CustomerKey, catching_up: bool) -> Result<(), Error> {
        let target = customers::table.find(key.uuid()).filter(customers::organization_id.eq(self.tenant()));
        let change = customers::catching_up.eq(catching_up);
        if self.query(|pg| diesel::update(target).set(change).execute(pg))? == 0 {
            return Err(Error::NotFound(Noun::Customer));
        }
        Ok(())
    }

    fn advance_instant_and_queue(
        &mut self,
        key: CustomerKey,
        instant: OffsetDateTime,
        due_at: Option<OffsetDateTime>,
    ) -> Result<(), Error> {
        self.reached.advance(key, instant, due_at);
        Ok(())
    }
}
