//! Currencies that organizations added.

use billing_domain::Error;
use billing_domain::currency::Currency;
use billing_domain::store::CurrencyRepo;
use diesel::pg::Pg;
use diesel::prelude::*;
use uuid::Uuid;

use crate::pg::column::count;
use crate::pg::schema::currencies;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = currencies, check_for_backend(Pg))]
struct CurrencyRow {
    organization_id: Uuid,
    code: String,
    name: String,
    symbol: String,
    decimals: i16,
}

impl TryFrom<CurrencyRow> for Currency {
    type Error = Error;

    fn try_from(row: CurrencyRow) -> Result<Self, Error> {
        Ok(Self { code: row.code, name: row.name, symbol: row.symbol, decimals: count(row.decimals)? })
    }
}

impl CurrencyRepo for PgTransaction<'_> {
    fn insert(&mut self, currency: &Currency) -> Result<(), Error> {
        let row = CurrencyRow {
            organization_id: self.tenant(),
            code: currency.code.clone(),
            name: currency.name.clone(),
            symbol: currency.symbol.clone(),
            decimals: i16::from(currency.decimals),
        };
        self.query(|pg| diesel::insert_into(currencies::table).values(&row).execute(pg))?;
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Currency>, Error> {
        let query = currencies::table
            .filter(currencies::organization_id.eq(self.tenant()))
            .order(currencies::code)
            .select(CurrencyRow::as_select());
        self.query(|pg| query.load(pg))?.into_iter().map(Currency::try_from).collect()
    }
}
