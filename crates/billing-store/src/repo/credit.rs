//! Credits and their ledgers.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::BigDecimal;
use billing_domain::credit::{Credit, CreditLedger, EntryKind, LedgerEntry};
use billing_domain::id::{CreditId, CustomerKey};
use billing_domain::store::CreditRepo;
use billing_domain::{Error, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{checked, choice, unreadable};
use crate::pg::schema::{credit_entries, credits};
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = credits, check_for_backend(Pg))]
struct CreditRow {
    customer_key: Uuid,
    id: Uuid,
    organization_id: Uuid,
    currency_code: String,
    amount: BigDecimal,
    amount_paid: BigDecimal,
    amount_paid_currency_code: Option<String>,
    description: Option<String>,
    effective_at: OffsetDateTime,
    expires_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
}

impl CreditRow {
    fn new(organization_id: Uuid, customer: CustomerKey, credit: &Credit) -> Self {
        Self {
            customer_key: customer.uuid(),
            id: credit.id.uuid(),
            organization_id,
            currency_code: credit.currency_code.clone(),
            amount: credit.amount.clone(),
            amount_paid: credit.amount_paid.clone(),
            amount_paid_currency_code: credit.amount_paid_currency_code.clone(),
            description: credit.description.clone(),
            effective_at: credit.effective_at,
            expires_at: credit.expires_at,
            created_at: credit.created_at,
        }
    }
}

impl From<CreditRow> for Credit {
    fn from(row: CreditRow) -> Self {
        Self {
            id: row.id.into(),
            currency_code: row.currency_code,
            amount: row.amount,
            amount_paid: row.amount_paid,
            amount_paid_currency_code: row.amount_paid_currency_code,
            description: row.description,
            effective_at: row.effective_at,
            expires_at: row.expires_at,
            created_at: row.created_at,
        }
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = credit_entries, check_for_backend(Pg))]
struct EntryRow {
    customer_key: Uuid,
    credit_id: Uuid,
    position: i64,
    organization_id: Uuid,
    id: Uuid,
    kind: String,
    amount: BigDecimal,
    invoice_id: Option<Uuid>,
    at: OffsetDateTime,
}

impl TryFrom<EntryRow> for LedgerEntry {
    type Error = Error;

    fn try_from(row: EntryRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            kind: choice(EntryKind::ALL, EntryKind::as_str, &row.kind)?,
            amount: row.amount,
            invoice: row.invoice_id.map(Into::into),
            at: row.at,
        })
    }
}

impl PgTransaction<'_> {
    fn with_entries(&mut self, customer: CustomerKey, rows: Vec<CreditRow>) -> Result<Vec<CreditLedger>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let query = credit_entries::table
            .filter(credit_entries::organization_id.eq(self.tenant()))
            .filter(credit_entries::customer_key.eq(customer.uuid()).and(credit_entries::credit_id.eq_any(ids)))
            .order((credit_entries::credit_id, credit_entries::position))
            .select(EntryRow::as_select());
        let mut entries: BTreeMap<Uuid, Vec<LedgerEntry>> = BTreeMap::new();
        for row in self.query(|pg| query.load(pg))? {
            entries.entry(row.credit_id).or_default().push(row.try_into()?);
        }
        rows.into_iter()
            .map(|row| {
                let entries_of_credit = entries.remove(&row.id).unwrap_or_default();
                CreditLedger::replay(row.into(), entries_of_credit).map_err(unreadable)
            })
            .collect()
    }

    /// Those of the customers who have credit left.
    pub(crate) fn find_creditors(&mut self, customers: &[Uuid]) -> Result<BTreeSet<Uuid>, Error> {
        let query = credits::table
            .filter(checked(credits::organization_id.eq(self.tenant())).and(credits::customer_key.eq_any(customers)))
            .filter(credits::remaining.gt(BigDecimal::default()))
            .select(credits::customer_key);
        Ok(self.query(|pg| query.load(pg))?.into_iter().collect())
    }

    /// Appends the entries of a ledger from the `from`th on.
    fn append_entries(&mut self, customer: CustomerKey, ledger: &CreditLedger, from: usize) -> Result<(), Error> {
        let tenant = self.tenant();
        let rows: Vec<EntryRow> = (0_i64..)
            .zip(ledger.entries())
            .skip(from)
            .map(|(position, entry)| EntryRow {
                customer_key: customer.uuid(),
                credit_id: ledger.credit().id.uuid(),
                position,
                organization_id: tenant,
                id: entry.id.uuid(),
                kind: entry.kind.as_str().to_owned(),
                amount: entry.amount.clone(),
                invoice_id: entry.invoice.map(|invoice| invoice.uuid()),
                at: entry.at,
            })
            .collect();
        // In order: the balance must hold after each.
        for row in &rows {
            self.query(|pg| diesel::insert_into(credit_entries::table).values(row).execute(pg))?;
        }
        Ok(())
    }
}

impl CreditRepo for PgTransaction<'_> {
    fn insert(&mut self, customer: CustomerKey, ledger: &CreditLedger) -> Result<(), Error> {
        let row = CreditRow::new(self.tenant(), customer, ledger.credit());
        self.query(|pg| diesel::insert_into(credits::table).values(&row).execute(pg))?;
        self.append_entries(customer, ledger, 0)
    }

    fn customer_of(&mut self, id: CreditId) -> Result<CustomerKey, Error> {
        let query = credits::table
            .filter(credits::organization_id.eq(self.tenant()).and(credits::id.eq(id.uuid())))
            .select(credits::customer_key);
        let key: Option<Uuid> = self.query(|pg| query.first(pg).optional())?;
        key.map(CustomerKey::from).ok_or(Error::NotFound(Noun::Credit))
    }

    fn get(&mut self, customer: CustomerKey, id: CreditId) -> Result<CreditLedger, Error> {
        let query = credits::table
            .find((customer.uuid(), id.uuid()))
            .filter(credits::organization_id.eq(self.tenant()))
            .select(CreditRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?.ok_or(Error::NotFound(Noun::Credit))?;
        self.with_entries(customer, vec![row])?.pop().ok_or(Error::NotFound(Noun::Credit))
    }

    fn list(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error> {
        let query = credits::table
            .filter(checked(credits::organization_id.eq(self.tenant())).and(credits::customer_key.eq(customer.uuid())))
            .order((credits::created_at.desc(), credits::id.desc()))
            .select(CreditRow::as_select());
        let rows = self.query(|pg| query.load(pg))?;
        self.with_entries(customer, rows)
    }

    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error> {
        let query = credits::table
            .filter(checked(credits::organization_id.eq(self.tenant())).and(credits::customer_key.eq(customer.uuid())))
            .filter(credits::remaining.gt(BigDecimal::default()))
            .order((credits::created_at, credits::id))
            .select(CreditRow::as_select());
        let rows = self.query(|pg| query.load(pg))?;
        self.with_entries(customer, rows)
    }

    fn update(&mut self, customer: CustomerKey, ledger: &CreditLedger) -> Result<(), Error> {
        let (tenant, credit) = (self.tenant(), ledger.credit());
        let target =
            credits::table.find((customer.uuid(), credit.id.uuid())).filter(credits::organization_id.eq(tenant));
        let changes = (credits::description.eq(&credit.description), credits::expires_at.eq(credit.expires_at));
        if self.query(|pg| diesel::update(target).set(changes).execute(pg))? == 0 {
            return Err(Error::NotFound(Noun::Credit));
        }
        let stored = credit_entries::table
            .filter(credit_entries::customer_key.eq(customer.uuid()))
            .filter(credit_entries::credit_id.eq(credit.id.uuid()))
            .order(credit_entries::position)
            .select(credit_entries::id);
        let stored: Vec<CreditId> = self.query(|pg| stored.load::<Uuid>(pg))?.into_iter().map(CreditId::from).collect();
        ledger.check_begins_with(&stored)?;
        let stored = stored.len();
        self.append_entries(customer, ledger, stored)
    }
}
