//! How the form that plans and versions are built with is drawn: rows with their buttons, and what is wrong at the field that it is of.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::plan_form::{
    BUTTON, CARRIED, CHARGE_FIELDS, CHARGES, COMPONENT_FIELDS, COMPONENTS, METRIC, MORE_FIELDS, PLAN_FIELDS, PlanForm,
    QUANTITY_FIELD, REPLACING, TIER_FIELDS, TIERS, VERSION_FIELDS,
};
use crate::form::Field;
use crate::layout::form_token;
use crate::text;
use crate::visit::Visit;

/// A form, and what is drawn with it.
pub(super) struct Drawn<'d> {
    pub form: &'d PlanForm,
    pub metrics: &'d [(String, String)],
    pub faults: &'d BTreeMap<String, String>,
    /// Whether it is a version of a plan that is there.
    pub is_version: bool,
    /// What the button says that makes it.
    pub button: &'static str,
    /// Where one goes who does not want it.
    pub back: &'d str,
}

impl Drawn<'_> {
    /// The form, sent to the page's own path. Without a script: whatever button is pressed, all that was typed comes along.
    pub(super) fn render(&self, visit: &Visit<'_>) -> Markup {
        let rows = &self.form.0;
        html! {
            form.builder method="post" action=(visit.path) novalidate {
                (form_token(&visit.viewer.form_token))
                input type="hidden" name="once" value=(visit.once);
                // What a browser presses for whoever presses Enter in a field.
                button.hidden type="submit" name=(BUTTON) value="try" formaction="#price" tabindex="-1" aria-hidden="true" {}
                fieldset {
                    legend { (if self.is_version { text::NEW_VERSION } else { text::PLAN }) }
                    @if !self.is_version { (self.cells("", &PLAN_FIELDS, visit)) }
                    (self.cells("", &VERSION_FIELDS, visit))
                    @if self.is_version { (self.cells("", &[REPLACING], visit)) }
                    (self.more("", &MORE_FIELDS, visit))
                    @for list in CARRIED { @for place in 0..rows.count(list) {
                        @let name = format!("{list}.{place}");
                        input type="hidden" name=(name) value=(rows.value(&name));
                    } }
                }
                fieldset id=(CHARGES) {
                    legend { (text::RECURRING_CHARGES) }
                    @for place in 0..rows.count(CHARGES) { (self.charge(place, visit)) }
                    p { (pressed("add", CHARGES, CHARGES, text::ADD_RECURRING_CHARGE)) }
                }
                @for place in 0..rows.count(COMPONENTS) { (self.component(place, visit)) }
                p { (pressed("add", COMPONENTS, &format!("{COMPONENTS}-{}", rows.count(COMPONENTS)), text::ADD_COMPONENT)) }
                p.links {
                    button type="submit" name=(BUTTON) value="try" formaction="#price" { (text::TRY_PRICE) }
                    button type="submit" name=(BUTTON) value="save" { (self.button) }
                    a href=(self.back) { (text::BACK) }
                }
            }
        }
    }

    fn fault(&self, name: &str) -> Option<&str> {
        self.faults.get(name).map(String::as_str)
    }

    /// Fields side by side, of the row that the prefix names.
    fn cells(&self, prefix: &str, fields: &[Field], visit: &Visit<'_>) -> Markup {
        html! { div.cells { @for field in fields {
            @let name = format!("{prefix}{}", field.name);
            div { (field.render_as(&name, (self.form.0.value(&name), self.fault(&name)), &visit.viewer.zone)) }
        } } }
    }

    /// Fields that are seldom needed: folded up unless something stands in one, or is wrong with it.
    fn more(&self, prefix: &str, fields: &[Field], visit: &Visit<'_>) -> Markup {
        let says_something = fields.iter().any(|field| {
            let name = format!("{prefix}{}", field.name);
            let value = self.form.0.value(&name);
            self.faults.contains_key(&name) || (value != field.first_value() && !value.is_empty())
        });
        html! { details open[says_something] { summary { (text::MORE) } (self.cells(prefix, fields, visit)) } }
    }

    fn charge(&self, place: usize, visit: &Visit<'_>) -> Markup {
        let row = format!("{CHARGES}.{place}");
        let prefix = format!("{row}.");
        let (usual, seldom) = CHARGE_FIELDS.split_at(4);
        html! {
            div.row {
                (self.cells(&prefix, usual, visit))
                (self.more(&prefix, seldom, visit))
                (removed(&row, CHARGES, &format!("{} {}", text::CHARGE, place + 1)))
            }
        }
    }

    fn component(&self, place: usize, visit: &Visit<'_>) -> Markup {
        let row = format!("{COMPONENTS}.{place}");
        let (prefix, tiers, anchor) = (format!("{row}."), format!("{row}.{TIERS}"), format!("{COMPONENTS}-{place}"));
        html! {
            fieldset id=(anchor) {
                legend { (text::COMPONENT) " " (place + 1) }
                div.cells { div { (self.metric(&format!("{prefix}{METRIC}"))) } }
                @if let Some(fault) = self.fault(&tiers) { p.fault { (fault) } }
                @for tier in 0..self.form.0.count(&tiers) {
                    @let name = format!("{tiers}.{tier}");
                    div.row {
                        (self.cells(&format!("{name}."), &TIER_FIELDS, visit))
                        (removed(&name, &anchor, &format!("{} {}", text::TIER, tier + 1)))
                    }
                }
                p { (pressed("add", &tiers, &anchor, text::ADD_TIER)) }
                (self.more(&prefix, &COMPONENT_FIELDS, visit))
                (self.cells(&prefix, &[QUANTITY_FIELD], visit))
                (removed(&row, CHARGES, &format!("{} {}", text::COMPONENT, place + 1)))
            }
        }
    }

    /// The choice of a metric. One that is not among those offered stays chosen.
    fn metric(&self, name: &str) -> Markup {
        let (chosen, fault) = (self.form.0.value(name), self.fault(name));
        let is_offered = chosen.is_empty() || self.metrics.iter().any(|(id, _)| id == chosen);
        let fault_id = format!("{name}-fault");
        html! {
            label for=(name) { (text::METRIC) }
            select id=(name) name=(name) aria-invalid=[fault.map(|_| "true")] aria-describedby=[fault.map(|_| &fault_id)] {
                option value="" { (text::CHOOSE) }
                @for (id, words) in self.metrics { option value=(id) selected[id == chosen] { (words) } }
                @if !is_offered { option value=(chosen) selected { (chosen) } }
            }
            @if let Some(fault) = fault { p.fault id=(fault_id) { (fault) } }
        }
    }

    /// What is wrong and stands at no field.
    pub(super) fn unplaced(&self) -> impl Iterator<Item = (&String, &String)> {
        let is_placed = |at: &str| {
            let tiers = at.strip_suffix(TIERS).and_then(|row| row.strip_suffix('.'));
            self.form.0.has(at) || tiers.is_some_and(|row| self.form.0.has(&format!("{row}.{METRIC}")))
        };
        self.faults.iter().filter(move |(at, _)| !is_placed(at))
    }
}

/// A button that sends the form, and gives it back with a row more or less, at `anchor`.
fn pressed(verb: &str, row: &str, anchor: &str, words: &str) -> Markup {
    html! {
        button.quiet type="submit" name=(BUTTON) value={ (verb) " " (row) } formaction={ "#" (anchor) } { (words) }
    }
}

fn removed(row: &str, anchor: &str, what: &str) -> Markup {
    html! {
        p { button.quiet type="submit" name=(BUTTON) value={ "remove " (row) } formaction={ "#" (anchor) } {
            (text::REMOVE_LINE) span.hidden { " " (what) }
        } }
    }
}
