//! A change of a subscription in three steps: its form, what it would be invoiced with, and the change itself.
//!
//! The form is a query: looking changes nothing, so going back and loading again does no harm. Only the last step is an action.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::customer::drafts;
use super::customer_path;
use crate::api::Failure;
use crate::form::{Field, body_of};
use crate::layout::{failed_part, form_token};
use crate::route::Outcome;
use crate::visit::{Fields, Visit, escaped};
use crate::{show, text};

/// What says in the query that the form was filled in.
const IS_FILLED: &str = "preview";

/// A field for one of what there is.
pub(super) struct Choices {
    /// As the call names it.
    pub name: &'static str,
    /// As people call it.
    pub label: &'static str,
    /// What is sent, and what is read.
    pub options: Vec<(String, String)>,
    /// Whether it is a field of the call; otherwise it is a part of its path.
    pub is_in_body: bool,
    /// What is said in the form's place where there is nothing to choose.
    pub nothing: &'static str,
}

/// A change of what a customer holds.
pub(super) struct Change<'c> {
    /// How it is called.
    pub title: &'static str,
    /// What it does.
    pub explained: &'static str,
    /// Whether it takes something away.
    pub is_danger: bool,
    /// One of several, first of all.
    pub choices: Option<Choices>,
    /// The other fields.
    pub fields: &'static [Field],
    /// What the call is told besides.
    pub told: &'c [(&'static str, &'c str)],
    /// The call that makes it. The one that shows it is beneath.
    pub call: &'c str,
}

/// A subscription that is to be changed.
///
/// # Errors
/// When there is none.
pub(super) async fn subscription(visit: &Visit<'_>) -> Result<Value, Failure> {
    visit.get(format!("/api/subscriptions/{}/", escaped(&visit.id))).await
}

/// What a subscription is, and whose.
pub(super) fn facts(subscription: &Value) -> Markup {
    html! {
        dl.facts {
            div { dt { (text::CUSTOMER) } dd.long { (show::name(&subscription["customer"])) } }
            (plan_and_period(subscription))
        }
    }
}

fn plan_and_period(subscription: &Value) -> Markup {
    let plan = &subscription["billing_plan"];
    html! {
        div { dt { (text::PLAN) } dd.long {
            (show::plain(&plan["plan_name"])) " " span.quiet { "v" (show::plain(&plan["version"])) }
            @for addon in show::items(&subscription["addons"]) {
                div.quiet { "+ " (show::plain(&addon["addon"]["addon_name"])) }
            }
        } }
        div { dt { (text::PERIOD) } dd { (show::days(&subscription["start_date"], &subscription["end_date"])) } }
    }
}

impl Change<'_> {
    /// The page: the form, and once it was filled in what the change comes to, with the button that makes it.
    ///
    /// # Errors
    /// When it cannot be looked at. What is wrong with the form is shown in its place.
    pub(super) async fn page(&self, visit: &Visit<'_>, holder: &Value, facts: Markup) -> Result<Outcome, Failure> {
        let back = customer_path(&show::plain(&holder["customer_id"]));
        let nothing = self.choices.as_ref().filter(|choices| choices.options.is_empty()).map(|choices| choices.nothing);
        if let Some(nothing) = nothing {
            let content = html! {
                nav.path { a.long href=(back) { (show::name(holder)) } }
                h1 { (self.title) }
                (facts)
                p.empty { (nothing) }
                p { a href=(back) { (text::BACK) } }
            };
            return Ok(Outcome::Page(self.title.to_owned(), content));
        }
        let preview = match visit.query.get(IS_FILLED) {
            None => None,
            Some(_) => match visit.ask_with(format!("{}preview/", self.call), self.body(visit, &visit.query)?).await {
                Err(failure) if ![400, 404, 409].contains(&failure.status) => return Err(failure),
                looked_at => Some(looked_at),
            },
        };
        let content = html! {
            nav.path { a.long href=(back) { (show::name(holder)) } }
            h1 { (self.title) }
            (facts)
            p { (self.explained) }
            (self.form(visit, &back))
            @match &preview {
                None => {}
                Some(Err(failure)) => section { (failed_part(failure)) }
                Some(Ok(preview)) => section {
                    h2 { (text::PREVIEWED) }
                    p { (text::PREVIEW_EXPLAINED) }
                    (shown(preview))
                    (self.confirmation(visit, &back))
                }
            }
        };
        Ok(Outcome::Page(self.title.to_owned(), content))
    }

    /// Makes the change; what the call answers.
    ///
    /// # Errors
    /// Those of the call.
    pub(super) async fn make(&self, visit: &Visit<'_>) -> Result<Value, Failure> {
        visit.post(self.call, self.body(visit, &visit.form)?).await
    }

    fn body(&self, visit: &Visit<'_>, filled: &Fields) -> Result<Map<String, Value>, Failure> {
        let mut body = body_of(filled, self.fields, &visit.viewer.zone)?;
        if let Some(choices) = self.choices.as_ref().filter(|choices| choices.is_in_body) {
            body.extend(filled.get(choices.name).map(|chosen| (choices.name.to_owned(), chosen.into())));
        }
        body.extend(self.told.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
        Ok(body)
    }

    fn form(&self, visit: &Visit<'_>, back: &str) -> Markup {
        let filled = |name: &str| visit.query.get(name).unwrap_or_default();
        html! {
            form.act method="get" action=(visit.path) {
                input type="hidden" name=(IS_FILLED) value="1";
                @if let Some(choices) = &self.choices {
                    label for=(choices.name) { (choices.label) }
                    select id=(choices.name) name=(choices.name) {
                        @for (sent, words) in &choices.options {
                            option value=(sent) selected[sent == filled(choices.name)] { (words) }
                        }
                    }
                }
                @for field in self.fields { (field.render(filled(field.name), &visit.viewer.zone)) }
                button type="submit" { (text::PREVIEW) }
                a href=(back) { (text::BACK) }
            }
        }
    }

    /// The form that makes the change: with what was looked at, and nothing else.
    fn confirmation(&self, visit: &Visit<'_>, back: &str) -> Markup {
        let names = self.choices.iter().map(|choices| choices.name).chain(self.fields.iter().map(|field| field.name));
        html! {
            form.act method="post" action=(visit.path) {
                (form_token(&visit.viewer.form_token))
                input type="hidden" name="once" value=(visit.once);
                @for name in names {
                    @if let Some(value) = visit.query.get(name) { input type="hidden" name=(name) value=(value); }
                }
                button.danger[self.is_danger] type="submit" { (self.title) }
                a href=(back) { (text::KEEP) }
            }
        }
    }
}

/// What a change comes to.
fn shown(preview: &Value) -> Markup {
    let totals = |field: &str| {
        html! { @for invoice in show::items(&preview[field]) { div { (show::amount(&invoice["amount"], &invoice["currency"])) } }
        @if show::items(&preview[field]).is_empty() { span.quiet { (text::NONE) } } }
    };
    html! {
        @if preview["is_complete"] == false { div.notice { p { (text::MORE_COMES) } } }
        dl.facts {
            (plan_and_period(&preview["subscription"]))
            div { dt { (text::AT_ONCE) } dd { (totals("invoices")) } }
            div { dt { (text::NEXT_INVOICE_BEFORE) } dd { (totals("next_invoices_before")) } }
            div { dt { (text::NEXT_INVOICE_AFTER) } dd { (totals("next_invoices")) } }
        }
        h3 { (text::AT_ONCE) }
        (drafts(show::items(&preview["invoices"]), text::NOTHING_AT_ONCE))
        h3 { (text::NEXT_INVOICE) }
        (drafts(show::items(&preview["next_invoices"]), text::NOTHING_NEXT))
    }
}
