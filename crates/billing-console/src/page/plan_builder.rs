//! Building a plan, or a version of one: rows come and go by the form itself, prices are tried before anything is there, and what is
//! wrong stands at its field.

use std::collections::BTreeMap;

use maud::html;
use serde_json::{Value, json};

use super::plan::{plan_path, read};
use super::plan_fieldset::Drawn;
use super::plan_form::{BUTTON, PlanForm, Trial, faults, metrics};
use super::price_trial;
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const LIST: &str = "/console/plans/";
/// What is told in the form, with all that was typed: bad fields, what the books refuse, and a form that was sent before otherwise.
const TOLD: [u16; 3] = [400, 409, 422];

/// What came of the form so far.
struct State {
    form: PlanForm,
    preview: Option<Value>,
    wrong: Option<Failure>,
    faults: BTreeMap<String, String>,
}

impl State {
    fn new(form: PlanForm) -> Self {
        Self { form, preview: None, wrong: None, faults: BTreeMap::new() }
    }

    /// Keeps what is wrong with the form; anything else is passed on.
    fn keep(&mut self, failure: Failure, rows: &[usize]) -> Result<(), Failure> {
        if !TOLD.contains(&failure.status) {
            return Err(failure);
        }
        self.faults = faults(&failure, rows);
        self.wrong = Some(failure);
        Ok(())
    }

    /// Has the price tried.
    async fn try_price(&mut self, visit: &Visit<'_>, plan: Option<&Value>) -> Result<(), Failure> {
        let Trial { version, usage, rows } = match self.form.trial(&visit.viewer.zone) {
            Ok(trial) => trial,
            Err(failure) => return self.keep(failure, &[]),
        };
        let mut priced = self.form.plan();
        if let Some(plan) = plan {
            priced =
                ["plan_name", "plan_duration"].map(|name| (name.to_owned(), plan[name].clone())).into_iter().collect();
        }
        priced.insert("initial_version".to_owned(), version.into());
        let body = json!({"plan": priced, "usage": usage});
        match visit.ask_with("/api/plans/preview/", body).await {
            Ok(preview) => self.preview = Some(preview),
            Err(failure) => self.keep(failure, &rows)?,
        }
        Ok(())
    }

    async fn page(&self, visit: &Visit<'_>, plan: Option<&Value>) -> Result<Outcome, Failure> {
        let metrics = metrics(visit).await?;
        let (back, title) = match plan {
            Some(plan) => (plan_path(plan), format!("{}: {}", show::plain(&plan["plan_name"]), text::NEW_VERSION)),
            None => (LIST.to_owned(), text::NEW_PLAN.to_owned()),
        };
        let drawn = Drawn {
            form: &self.form,
            metrics: &metrics,
            faults: &self.faults,
            is_version: plan.is_some(),
            button: if plan.is_some() { text::PUBLISH_VERSION } else { text::PUBLISH_PLAN },
            back: &back,
        };
        let content = html! {
            nav.path { a.long href=(back) { @match plan {
                Some(plan) => { (show::plain(&plan["plan_name"])) }
                None => { (text::PLANS) }
            } } }
            h1.long { (title) }
            @if let Some(plan) = plan {
                p { (text::NEW_VERSION_EXPLAINED) }
                dl.facts {
                    div { dt { (text::DURATION) } dd { (show::or_none(&plan["plan_duration"])) } }
                    div { dt { (text::ACTIVE_SUBSCRIPTIONS) } dd { (show::number(&plan["active_subscriptions"])) } }
                    (carried(plan))
                }
            } @else { p { (text::NEW_PLAN_EXPLAINED) } }
            @if metrics.is_empty() { div.notice { p { (text::NO_METRICS) } } }
            @if let Some(wrong) = &self.wrong {
                div.notice.bad role="alert" {
                    p { @if self.faults.is_empty() { (wrong.detail) } @else { (text::FIELDS_ARE_WRONG) } }
                    @for (at, detail) in drawn.unplaced() { p { code { (at) } ": " (detail) } }
                }
            }
            (drawn.render(visit))
            section id="price" { @if let Some(preview) = &self.preview { (price_trial::shown(preview, &visit.viewer.zone)) } }
        };
        Ok(Outcome::Page(title, content))
    }
}

/// What a new version has of the newest one that cannot be typed: whom it is made for, and what it grants.
fn carried(plan: &Value) -> maud::Markup {
    let newest = show::items(&plan["versions"]).last().unwrap_or(&Value::Null);
    let lists = [(text::FEATURES, "features", "feature_name"), (text::MADE_FOR, "target_customers", "customer_id")];
    html! { @for (words, list, name) in lists { @if !show::items(&newest[list]).is_empty() {
        div { dt { (words) } dd.long { @for one in show::items(&newest[list]) { span.item { (show::plain(&one[name])) } } } }
    } } }
}

/// `GET /console/plans/new/`
///
/// # Errors
/// Those of the calls.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let organization = visit.get("/api/organization/").await?;
    let form = PlanForm::blank(&show::code(&organization["default_currency"]));
    State::new(form).page(visit, None).await
}

/// `POST /console/plans/new/`
///
/// # Errors
/// Those of the calls, but for what is wrong with the form: that is shown in it.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    answer(visit, None).await
}

/// `GET /console/plans/{plan_id}/new_version/`
///
/// # Errors
/// When there is no such plan.
pub async fn ask_version<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let plan = read(visit).await?;
    let form = match show::items(&plan["versions"]).last() {
        Some(newest) => PlanForm::of_version(newest, &plan),
        None => PlanForm::blank(&show::code(&visit.get("/api/organization/").await?["default_currency"])),
    };
    State::new(form).page(visit, Some(&plan)).await
}

/// `POST /console/plans/{plan_id}/new_version/`
///
/// # Errors
/// When there is no such plan; otherwise as [`act`].
pub async fn act_version<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let plan = read(visit).await?;
    answer(visit, Some(&plan)).await
}

/// The form again, as its buttons say; once it is made, the plan.
async fn answer<'v>(visit: &'v Visit<'v>, plan: Option<&Value>) -> Result<Outcome, Failure> {
    let mut state = State::new(PlanForm::sent(&visit.form));
    let button = visit.form.get(BUTTON).unwrap_or("try");
    if state.form.edit(button) {
        return state.page(visit, plan).await;
    }
    if button != "save" {
        state.try_price(visit, plan).await?;
        return state.page(visit, plan).await;
    }
    match save(visit, &state.form, plan).await {
        Ok(path) => Ok(Outcome::Go(path)),
        Err(failure) => {
            state.keep(failure, &[])?;
            state.page(visit, plan).await
        }
    }
}

/// Makes the plan or the version, once for the form; where it is shown.
async fn save(visit: &Visit<'_>, form: &PlanForm, plan: Option<&Value>) -> Result<String, Failure> {
    let Trial { version, .. } = form.trial(&visit.viewer.zone)?;
    match plan {
        Some(plan) => {
            let id = escaped(&show::plain(&plan["plan_id"]));
            visit.post(format!("/api/plans/{id}/versions/"), version).await?;
            Ok(plan_path(plan))
        }
        None => {
            let mut body = form.plan();
            body.insert("initial_version".to_owned(), version.into());
            Ok(plan_path(&visit.post("/api/plans/", body).await?))
        }
    }
}
