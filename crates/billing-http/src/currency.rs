//! Currencies: those of ISO 4217, and units of the organization's own.

use actix_web::web;
use billing_domain::currency::Currency;
use billing_domain::{FieldCode, FieldErrors, Refusal, text};

use crate::answer::Created;
use crate::app::App;
use crate::auth::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::wire::{CurrencyView, body, read_through};

/// The calls about currencies.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/currencies/", "List currencies and the organization's own units", list)
            .answers::<Vec<CurrencyView>>(200),
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

/// Longest code and symbol, in characters.
const CODE_CHARACTERS_MAX: usize = 10;
/// Most decimals of a unit.
const DECIMALS_MAX: u8 = 15;

impl CurrencyBody {
    fn read(self) -> Result<Currency, FieldErrors> {
        let mut errors = FieldErrors::default();
        errors.keep("code", text::check(&self.code, CODE_CHARACTERS_MAX));
        errors.keep("name", text::check(&self.name, text::NAME_CHARACTERS_MAX));
        errors.keep("symbol", text::check(&self.symbol, CODE_CHARACTERS_MAX));
        let decimals = self.decimals.unwrap_or(2);
        if decimals > DECIMALS_MAX {
            errors.push("decimals", FieldCode::MaxValue, format!("Ensure this value is at most {DECIMALS_MAX}."));
        }
        errors.finish(Currency { code: self.code, name: self.name, symbol: self.symbol, decimals })
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
        let own = tx.currencies().list()?;
        if Currency::iso_4217(&currency.code).is_some() || own.iter().any(|other| other.code == currency.code) {
            return Err(Refusal::DuplicateResource("A currency with this code already exists").into());
        }
        tx.currencies().insert(&currency)?;
        Ok(CurrencyView::from(&currency))
    });
    Ok(Created(view.await?))
}
