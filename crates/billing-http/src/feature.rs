//! Features: what a plan grants that is not metered.

use actix_web::web;
use billing_domain::FieldErrors;
use billing_domain::id::FeatureId;
use billing_domain::plan::Feature;
use billing_domain::workflow::{CreateFeature, create_feature};

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::wire::{body, read_through, view};

/// The calls about features.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/features/", "List features", list).lists::<FeatureView>(),
        post("/api/features/", "Create a feature", create).takes::<CreateFeature>().answers::<FeatureView>(201),
    ]
}

body! {
    /// A new feature.
    CreateFeatureBody {
        /// Its name, unique in the organization.
        required feature_name: String,
        /// What it is.
        optional feature_description: String,
    }
}

impl CreateFeatureBody {
    fn read(self) -> Result<CreateFeature, FieldErrors> {
        Ok(CreateFeature { name: self.feature_name, description: self.feature_description })
    }
}

read_through! { CreateFeature = CreateFeatureBody; }

view! {
    /// A feature.
    FeatureView {
        /// Its id.
        feature_id: FeatureId,
        /// Its name.
        feature_name: String,
        /// What it is.
        feature_description: Option<String>,
    }
}

impl From<&Feature> for FeatureView {
    fn from(feature: &Feature) -> Self {
        let Feature { id, name, description } = feature.clone();
        Self { feature_id: id, feature_name: name, feature_description: description }
    }
}

/// `GET /api/features/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<FeatureView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        map_page(paging.cut(tx.features().list()?)?, |feature| Ok(FeatureView::from(&feature)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/features/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<CreateFeature>,
) -> Result<Created<FeatureView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, _| Ok(FeatureView::from(&create_feature(tx, &command)?)));
    Ok(Created(view.await?))
}
