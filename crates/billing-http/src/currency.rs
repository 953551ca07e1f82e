//! Currencies: those of ISO 4217, and units of the organization's own.

use actix_web::web;
use billing_domain::FieldErrors;
use billing_domain::currency::Currency;
use billing_domain::workflow::create_currency;

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::wire::{CurrencyView, body, read_through};

/// The calls about currencies.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/currencies/", "List currencies and the organization's own units", list).lists::<CurrencyView>(),
        post("/api/currencies/", "Add a unit of the organization's own", create)
            .takes::<Currency>()
            .answers::<CurrencyView>(201),
    ]
}

body! {
    /// A unit of the organization's own, such as credits.
    CurrencyBody {
        /// What the API names it by, at most 10 characters.
        required code: String,
        /// Its name.
        required name: String,
        /// What is put before an amount, at most 10 characters.
        required symbol: String,
        /// Decimals that an invoice line is rounded to, at most 15; 2 when missing.
        optional decimals: u8,
    }
}

impl CurrencyBody {
    fn read(self) -> Result<Currency, FieldErrors> {
        let decimals = self.decimals.unwrap_or(2);
        Ok(Currency { code: self.code, name: self.name, symbol: self.symbol, decimals })
    }
}

read_through! { Currency = CurrencyBody; }

/// `GET /api/currencies/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<CurrencyView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let mut currencies = Currency::all_iso_4217();
        currencies.extend(tx.currencies().list()?);
        map_page(paging.cut(currencies)?, |currency| Ok(CurrencyView::from(&currency)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/currencies/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(currency): ApiJson<Currency>,
) -> Result<Created<CurrencyView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, _| {
        let made = create_currency(tx, &currency)?;
        Ok(CurrencyView::from(&made))
    });
    Ok(Created(view.await?))
}
