//! Add-ons: what can be attached to subscriptions.

use actix_web::web;
use billing_domain::addon::{Addon, AddonTerms, AddonType, BillingFrequency, InvoiceWhen};
use billing_domain::id::{AddonId, AddonVersionId, FeatureId};
use billing_domain::store::Transaction;
use billing_domain::workflow::{CreateAddon, NewComponent, NewPlanVersion, create_addon};
use billing_domain::{Error, FieldErrors};

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::feature::FeatureView;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::plan::{Catalog, ComponentView, Fee, PlanVersionView, RecurringChargeView, fees};
use crate::wire::{CurrencyView, Instant, body, read_through, view};

/// The calls about add-ons.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/addons/", "List add-ons", list).lists::<AddonView>(),
        post("/api/addons/", "Create an add-on", create).takes::<CreateAddon>().answers::<AddonView>(201),
        get("/api/addons/{addon_id}/", "Show an add-on", show).answers::<AddonView>(200),
    ]
}

body! {
    /// A new add-on.
    CreateAddonBody {
        /// Its name.
        required addon_name: String,
        /// What it is.
        optional addon_description: String,
        /// Code of the currency that everything in it is priced in; it is attached to plans in the same.
        required currency_code: String,
        /// Whether it is charged once or renews with the subscription it is attached to.
        required billing_frequency: BillingFrequency,
        /// When what it charges in advance is invoiced; `invoice_on_attach` when missing.
        optional invoice_when: InvoiceWhen,
        /// What is charged by time; in full when it is charged once, unless `charge_behavior` says `prorate`.
        optional recurring_charges: Vec<Fee>,
        /// What is charged by usage.
        optional components: Vec<NewComponent>,
        /// Ids of the features it grants.
        optional features: Vec<FeatureId>,
    }
}

impl CreateAddonBody {
    fn read(self) -> Result<CreateAddon, FieldErrors> {
        let invoice_when = self.invoice_when.unwrap_or(InvoiceWhen::InvoiceOnAttach);
        Ok(CreateAddon {
            name: self.addon_name,
            description: self.addon_description,
            terms: AddonTerms { billing_frequency: self.billing_frequency, invoice_when },
            content: NewPlanVersion {
                recurring_charges: fees(self.recurring_charges, self.billing_frequency.default_behavior()),
                components: self.components.unwrap_or_default(),
                features: self.features.unwrap_or_default(),
                ..NewPlanVersion::empty(&self.currency_code)
            },
        })
    }
}

read_through! { CreateAddon = CreateAddonBody; }

view! {
    /// Something that can be attached to a subscription.
    AddonView {
        /// Its id.
        addon_id: AddonId,
        /// Its name.
        addon_name: String,
        /// What it is.
        addon_description: Option<String>,
        /// The id of its content, by which it can be attached too.
        addon_version_id: AddonVersionId,
        /// Whether it charges for usage.
        addon_type: AddonType,
        /// Whether it is charged once or renews with the subscription it is attached to.
        billing_frequency: BillingFrequency,
        /// When what it charges in advance is invoiced.
        invoice_when: InvoiceWhen,
        /// What everything in it is priced in.
        currency: CurrencyView,
        /// What is charged by time.
        recurring_charges: Vec<RecurringChargeView>,
        /// What is charged by usage.
        components: Vec<ComponentView>,
        /// What it grants.
        features: Vec<FeatureView>,
        /// How many are attached to running subscriptions.
        active_instances: u64,
        /// When it was made.
        created_on: Instant,
    }
}

impl AddonView {
    fn new(tx: &mut dyn Transaction, catalog: &mut Catalog, addon: &Addon) -> Result<Self, Error> {
        let content = PlanVersionView::new(tx, catalog, &addon.plan(), &addon.content)?;
        Ok(Self {
            addon_id: addon.id,
            addon_name: addon.name.clone(),
            addon_description: addon.description.clone(),
            addon_version_id: addon.content.id.uuid().into(),
            addon_type: addon.addon_type(),
            billing_frequency: addon.terms.billing_frequency,
            invoice_when: addon.terms.invoice_when,
            currency: content.currency,
            recurring_charges: content.recurring_charges,
            components: content.components,
            features: content.features,
            active_instances: catalog.active_subscriptions(addon.content.id),
            created_on: Instant(addon.created_at),
        })
    }
}

view! {
    /// An add-on as others refer to it.
    AddonBriefView {
        /// Its name.
        addon_name: String,
        /// Its id.
        addon_id: AddonId,
        /// Whether it charges for usage.
        addon_type: AddonType,
        /// Whether it is charged once or renews with the subscription it is attached to.
        billing_frequency: BillingFrequency,
    }
}

impl From<&Addon> for AddonBriefView {
    fn from(addon: &Addon) -> Self {
        Self {
            addon_name: addon.name.clone(),
            addon_id: addon.id,
            addon_type: addon.addon_type(),
            billing_frequency: addon.terms.billing_frequency,
        }
    }
}

/// `GET /api/addons/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<AddonView>, ApiError> {
    let page = app.read(&caller, move |tx, now| {
        let mut catalog = Catalog::load(tx, None, now)?;
        map_page(paging.cut(tx.addons().list()?)?, |addon| AddonView::new(tx, &mut catalog, &addon))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/addons/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<CreateAddon>,
) -> Result<Created<AddonView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, now| {
        let addon = create_addon(tx, &command, now)?;
        let mut catalog = Catalog::load(tx, Some(addon.plan_id()), now)?;
        AddonView::new(tx, &mut catalog, &addon)
    });
    Ok(Created(view.await?))
}

/// `GET /api/addons/{addon_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<AddonId>,
) -> Result<web::Json<AddonView>, ApiError> {
    let view = app.read(&caller, move |tx, now| {
        let addon = tx.addons().get(id)?;
        let mut catalog = Catalog::load(tx, Some(addon.plan_id()), now)?;
        AddonView::new(tx, &mut catalog, &addon)
    });
    Ok(web::Json(view.await?))
}
