//! The form that plans and versions are built with: what can be typed into it, and the body that it comes to. Its fields are called as
//! the API names them where something is wrong with one, so that each fault stands at its field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use time::format_description::well_known::Rfc3339;

use crate::api::Failure;
use crate::form::{Field, Input};
use crate::rows::{Rows, pattern};
use crate::visit::{Fields, Visit};
use crate::zone::ViewerZone;
use crate::{show, text};

/// Most metrics that are offered.
const METRICS_SHOWN: u32 = 500;
/// What says which button of the form was pressed.
pub(super) const BUTTON: &str = "do";
pub(super) const CHARGES: &str = "recurring_charges";
pub(super) const COMPONENTS: &str = "components";
/// Tiers of a component; of which, stands in front.
pub(super) const TIERS: &str = "tiers";
/// What is carried over to a new version as it is.
pub(super) const CARRIED: [&str; 2] = ["features", "target_customers"];
pub(super) const METRIC: &str = "metric_id";
const ACTIVE_FROM: &str = "active_from";
/// How much is used when a price is tried: no field of a version.
const QUANTITY: &str = "quantity";

const UNITS: Input = Input::Choice(&[
    ("", text::EACH_PERIOD),
    ("day", text::UNIT_DAYS),
    ("week", text::UNIT_WEEKS),
    ("month", text::UNIT_MONTHS),
    ("year", text::UNIT_YEARS),
]);

pub(super) const PLAN_FIELDS: [Field; 2] = [
    Field::new("plan_name", text::NAME, Input::Text(200)).required(),
    Field::new(
        "plan_duration",
        text::DURATION,
        Input::Choice(&[
            ("monthly", text::MONTHLY),
            ("quarterly", text::QUARTERLY),
            ("yearly", text::YEARLY),
            ("", text::NO_DURATION),
        ]),
    ),
];
pub(super) const VERSION_FIELDS: [Field; 2] = [
    Field::new("currency_code", text::CURRENCY, Input::Text(10)).required(),
    Field::new(ACTIVE_FROM, text::ACTIVE_FROM, Input::Instant).hint(text::ACTIVE_FROM_HINT),
];
pub(super) const REPLACING: Field = Field::new(
    "make_active_type",
    text::OTHER_VERSIONS,
    Input::Choice(&[("replace_on_renewal", text::REPLACE_ON_RENEWAL), ("grandfather", text::GRANDFATHER)]),
)
.hint(text::OTHER_VERSIONS_HINT);
pub(super) const MORE_FIELDS: [Field; 5] = [
    Field::new("localized_name", text::OWN_NAME, Input::Text(200)).hint(text::OWN_NAME_HINT),
    Field::new("description", text::DESCRIPTION, Input::Text(1_000)),
    Field::new("price_adjustment.price_adjustment_name", text::PLAN_ADJUSTMENT, Input::Text(200))
        .hint(text::ADJUSTMENT_HINT),
    Field::new(
        "price_adjustment.price_adjustment_type",
        text::ADJUSTMENT_KIND,
        Input::Choice(&[
            ("", text::NONE),
            ("percentage", text::PERCENTAGE),
            ("fixed", text::FIXED),
            ("price_override", text::PRICE_OVERRIDE),
        ]),
    ),
    Field::new("price_adjustment.price_adjustment_amount", text::ADJUSTMENT_AMOUNT, Input::Number),
];
pub(super) const CHARGE_FIELDS: [Field; 8] = [
    Field::new("name", text::NAME, Input::Text(200)).required(),
    Field::new("amount", text::AMOUNT, Input::Number).required(),
    Field::new(
        "charge_timing",
        text::TIMING,
        Input::Choice(&[("in_advance", text::IN_ADVANCE), ("in_arrears", text::IN_ARREARS)]),
    ),
    Field::new(
        "charge_behavior",
        text::PRORATION,
        Input::Choice(&[("prorate", text::PRORATED), ("full", text::CHARGED_IN_FULL)]),
    ),
    Field::new("reset_interval_unit", text::RESET_INTERVAL, UNITS),
    Field::new("reset_interval_count", text::EVERY_SO_MANY, Input::Number),
    Field::new("invoicing_interval_unit", text::INVOICED_HOW_OFTEN, UNITS),
    Field::new("invoicing_interval_count", text::EVERY_SO_MANY, Input::Number),
];
pub(super) const COMPONENT_FIELDS: [Field; 7] = [
    Field::new(
        "bulk_pricing_enabled",
        text::PRICED,
        Input::Choice(&[("false", text::TIER_BY_TIER), ("true", text::IN_BULK)]),
    ),
    Field::new("reset_interval_unit", text::BEGINS_ANEW, UNITS),
    Field::new("reset_interval_count", text::EVERY_SO_MANY, Input::Number),
    Field::new("invoicing_interval_unit", text::INVOICED_HOW_OFTEN, UNITS),
    Field::new("invoicing_interval_count", text::EVERY_SO_MANY, Input::Number),
    Field::new(
        "prepaid_charge.charge_behavior",
        text::PAID_IN_ADVANCE,
        Input::Choice(&[("", text::NOTHING_PREPAID), ("prorate", text::PRORATED), ("full", text::CHARGED_IN_FULL)]),
    ),
    Field::new("prepaid_charge.units", text::UNITS_IN_ADVANCE, Input::Number).hint(text::UNITS_IN_ADVANCE_HINT),
];
pub(super) const TIER_FIELDS: [Field; 6] = [
    Field::new(
        "type",
        text::METRIC_KIND,
        Input::Choice(&[("per_unit", text::PER_UNIT), ("flat", text::FLAT_PRICE), ("free", text::FREE)]),
    ),
    Field::new("range_start", text::FROM, Input::Number).required(),
    Field::new("range_end", text::UP_TO_AND_INCLUDING, Input::Number),
    Field::new("cost_per_batch", text::PRICE, Input::Number),
    Field::new("metric_units_per_batch", text::UNITS_PER_BATCH, Input::Number),
    Field::new(
        "batch_rounding_type",
        text::BATCH_ROUNDING,
        Input::Choice(&[
            ("no_rounding", text::NO_ROUNDING),
            ("round_up", text::ROUNDED_UP),
            ("round_down", text::ROUNDED_DOWN),
            ("round_nearest", text::ROUNDED_NEAREST),
        ]),
    ),
];
pub(super) const QUANTITY_FIELD: Field =
    Field::new(QUANTITY, text::TRIED_QUANTITY, Input::Number).hint(text::TRIED_QUANTITY_HINT);

/// Whole numbers of the API, by the end of their names.
const WHOLE: &str = "_interval_count";

/// The names of all fields, with `*` for the number of a row.
fn known() -> BTreeSet<String> {
    let top = PLAN_FIELDS.iter().chain(&VERSION_FIELDS).chain(&MORE_FIELDS).chain([&REPLACING]);
    let mut known: BTreeSet<String> = top.map(|field| field.name.to_owned()).collect();
    known.extend(CHARGE_FIELDS.iter().map(|field| format!("{CHARGES}.*.{}", field.name)));
    known.extend(COMPONENT_FIELDS.iter().map(|field| format!("{COMPONENTS}.*.{}", field.name)));
    known.extend([METRIC, QUANTITY].map(|name| format!("{COMPONENTS}.*.{name}")));
    known.extend(TIER_FIELDS.iter().map(|field| format!("{COMPONENTS}.*.{TIERS}.*.{}", field.name)));
    known.extend(CARRIED.iter().map(|list| format!("{list}.*")));
    known
}

/// What was typed into the form.
#[derive(Clone, Debug)]
pub(super) struct PlanForm(pub Rows);

/// What is priced when a price is tried: the version, and how much is used, with the row that each quantity stands in.
pub(super) struct Trial {
    pub version: Map<String, Value>,
    pub usage: Vec<Value>,
    pub rows: Vec<usize>,
}

impl PlanForm {
    /// As it was sent.
    pub(super) fn sent(filled: &Fields) -> Self {
        Self(Rows::read(filled, &known()))
    }

    /// Nothing but a component to begin with.
    pub(super) fn blank(currency: &str) -> Self {
        let mut form = Self(Rows::default());
        for field in &PLAN_FIELDS {
            form.0.set(field.name, field.first_value());
        }
        form.0.set("currency_code", currency);
        form.add(COMPONENTS);
        form
    }

    /// A version as the API shows it.
    pub(super) fn of_version(version: &Value, plan: &Value) -> Self {
        let mut rows = Rows::default();
        rows.set("currency_code", show::code(&version["currency"]));
        for field in &MORE_FIELDS {
            let shown = value_at(version, field.name);
            // A version without a description of its own shows the plan's.
            let is_of_plan = field.name == "description" && version["description"] == plan["plan_description"];
            rows.set(field.name, if is_of_plan { String::new() } else { shown });
        }
        let filled = |fields: &'static [Field], row: &Value| -> Vec<(&'static str, String)> {
            fields.iter().map(|field| (field.name, value_at(row, field.name))).collect()
        };
        for charge in show::items(&version[CHARGES]) {
            rows.add(CHARGES, filled(&CHARGE_FIELDS, charge));
        }
        for component in show::items(&version[COMPONENTS]) {
            let metric = show::plain(&component["billable_metric"][METRIC]);
            let fields = filled(&COMPONENT_FIELDS, component).into_iter().chain([(METRIC, metric)]);
            let row = rows.add(COMPONENTS, fields);
            for tier in show::items(&component[TIERS]) {
                rows.add(&format!("{row}.{TIERS}"), filled(&TIER_FIELDS, tier));
            }
        }
        for (list, id) in [("features", "feature_id"), ("target_customers", "customer_id")] {
            for one in show::items(&version[list]) {
                rows.add(list, [("", show::plain(&one[id]))]);
            }
        }
        Self(rows)
    }

    /// Adds a row to a list of the form, and takes one away, as its buttons say. Whether that is what was asked for.
    pub(super) fn edit(&mut self, button: &str) -> bool {
        match button.split_once(' ') {
            Some(("add", list)) => self.add(list),
            Some(("remove", row)) => self.0.remove(row),
            _ => return false,
        }
        true
    }

    fn add(&mut self, list: &str) {
        let firsts = |fields: &'static [Field]| fields.iter().map(|field| (field.name, field.first_value().to_owned()));
        let component = list.strip_suffix(TIERS).and_then(|row| row.strip_suffix('.'));
        match (list, component) {
            (CHARGES, _) => drop(self.0.add(list, firsts(&CHARGE_FIELDS))),
            (COMPONENTS, _) => {
                let fields = firsts(&COMPONENT_FIELDS).chain([(METRIC, String::new()), (QUANTITY, String::new())]);
                let row = self.0.add(list, fields);
                self.add(&format!("{row}.{TIERS}"));
            }
            (_, Some(row)) if pattern(row) == format!("{COMPONENTS}.*") && self.0.has(&format!("{row}.{METRIC}")) => {
                // It begins where the one before it ends.
                let start = match self.0.count(list) {
                    0 => "0".to_owned(),
                    count => self.0.value(&format!("{list}.{}.range_end", count - 1)).to_owned(),
                };
                let fields = firsts(&TIER_FIELDS).map(|(name, first)| match name {
                    "range_start" => (name, start.clone()),
                    _ => (name, first),
                });
                drop(self.0.add(list, fields));
            }
            _ => {}
        }
    }

    /// What is typed about the plan itself, as the API takes it.
    pub(super) fn plan(&self) -> Map<String, Value> {
        let mut body = self.0.json();
        body.retain(|name, _| PLAN_FIELDS.iter().any(|field| field.name == name));
        body
    }

    /// The version as the API takes it, and what is used of it.
    ///
    /// # Errors
    /// An instant that there is not in the viewer's zone, or twice.
    pub(super) fn trial(&self, zone: &ViewerZone) -> Result<Trial, Failure> {
        let mut version = self.0.json();
        version.retain(|name, _| PLAN_FIELDS.iter().all(|field| field.name != name));
        if let Some(typed) = version.get(ACTIVE_FROM).and_then(Value::as_str) {
            let read = zone.read(typed).map_err(|failure| failure.at(ACTIVE_FROM))?;
            let instant = read.format(&Rfc3339);
            let instant = instant.map_err(|_| Failure::new(400, "invalid", text::NO_TIME).at(ACTIVE_FROM))?;
            version.insert(ACTIVE_FROM.to_owned(), instant.into());
        }
        let (mut usage, mut rows) = (Vec::new(), Vec::new());
        for list in [CHARGES, COMPONENTS] {
            for (place, row) in version.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
                let Some(fields) = row.as_object_mut() else { continue };
                if let (Some(quantity), Some(metric)) = (fields.remove(QUANTITY), fields.get(METRIC)) {
                    usage.push(json!({METRIC: metric, QUANTITY: quantity}));
                    rows.push(place);
                }
                for (_, value) in fields.iter_mut().filter(|(name, _)| name.ends_with(WHOLE)) {
                    if let Some(count) = value.as_str().and_then(|typed| typed.parse::<u32>().ok()) {
                        *value = count.into();
                    }
                }
            }
        }
        Ok(Trial { version, usage, rows })
    }
}

/// The field of a JSON value that a name with dots leads to, as text.
fn value_at(value: &Value, name: &str) -> String {
    show::plain(name.split('.').fold(value, |value, part| &value[part]))
}

/// What is wrong, by the fields of the form. `rows`: those that the quantities tried stand in.
pub(super) fn faults(failure: &Failure, rows: &[usize]) -> BTreeMap<String, String> {
    let mut faults = BTreeMap::new();
    for (at, detail) in &failure.faults {
        let at = at.strip_prefix("plan.").unwrap_or(at);
        let at = at.strip_prefix("initial_version.").unwrap_or(at);
        let quantity = at.strip_prefix("usage.").and_then(|rest| rest.split_once('.'));
        let at = match quantity.and_then(|(place, name)| Some((rows.get(place.parse::<usize>().ok()?)?, name))) {
            Some((row, name)) => format!("{COMPONENTS}.{row}.{name}"),
            None => at.to_owned(),
        };
        faults.entry(at).or_insert_with(|| detail.clone());
    }
    faults
}

/// The metrics that are offered: id and name.
///
/// # Errors
/// Those of the call.
pub(super) async fn metrics(visit: &Visit<'_>) -> Result<Vec<(String, String)>, Failure> {
    let metrics = visit.get(format!("/api/metrics/?limit={METRICS_SHOWN}")).await?;
    let named = |metric: &Value| (show::plain(&metric[METRIC]), show::plain(&metric["metric_name"]));
    Ok(show::items(&metrics).iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(text: &str) -> PlanForm {
        PlanForm::sent(&Fields::parse(text))
    }

    #[test]
    fn a_form_comes_to_the_body_of_the_call() {
        #[rustfmt::skip]
        let cases = [
            // sent,                                                                  version,                                                                        usage,                                                   why
            ("plan_name=A&currency_code=USD&do=save&once=1&form_token=t",             json!({"currency_code": "USD"}),                                                json!([]),                                               "the plan's own fields are not the version's, the form's are nobody's"),
            ("components.3.metric_id=m&components.3.tiers.7.type=free&components.3.tiers.7.range_start=0&components.3.tiers.9.type=flat",
                json!({"components": [{"metric_id": "m", "tiers": [{"type": "free", "range_start": "0"}, {"type": "flat"}]}]}),                                      json!([]),                                               "rows without holes"),
            ("components.0.metric_id=&components.0.quantity=5",                       json!({"components": [{}]}),                                                    json!([]),                                               "a quantity of nothing is left out"),
            ("components.0.metric_id=&components.1.metric_id=m&components.1.quantity=5", json!({"components": [{}, {"metric_id": "m"}]}),                             json!([{"metric_id": "m", "quantity": "5"}]),            "a quantity is no field of a version"),
            ("recurring_charges.0.name=a&recurring_charges.0.reset_interval_unit=month&recurring_charges.0.reset_interval_count=2",
                json!({"recurring_charges": [{"name": "a", "reset_interval_unit": "month", "reset_interval_count": 2}]}),                                            json!([]),                                               "a whole number"),
            ("recurring_charges.0.reset_interval_count=2.5",                          json!({"recurring_charges": [{"reset_interval_count": "2.5"}]}),                json!([]),                                               "none: the API says so"),
            ("components.0.prepaid_charge.units=&components.0.prepaid_charge.charge_behavior=", json!({"components": [{}]}),                                          json!([]),                                               "nothing is prepaid"),
            ("components.0.prepaid_charge.units=7&components.0.prepaid_charge.charge_behavior=full",
                json!({"components": [{"prepaid_charge": {"units": "7", "charge_behavior": "full"}}]}),                                                              json!([]),                                               "something is"),
            ("features.0=f&features.1=g&target_customers.0=c",                        json!({"features": ["f", "g"], "target_customers": ["c"]}),                     json!([]),                                               "what is carried over"),
            ("active_from=2031-01-02T03:04",                                          json!({"active_from": "2031-01-02T03:04:00Z"}),                                 json!([]),                                               "an instant"),
        ];
        for (text, version, usage, why) in cases {
            let trial = sent(text).trial(&ViewerZone::default()).expect("a trial");
            assert_eq!((Value::Object(trial.version), Value::Array(trial.usage)), (version, usage), "{text}: {why}");
        }
        assert_eq!(
            Value::Object(sent("plan_name=A&plan_duration=&currency_code=USD").plan()),
            json!({"plan_name": "A"})
        );
        let unread = sent("active_from=soon").trial(&ViewerZone::default()).map(|trial| trial.rows);
        assert_eq!(unread.map_err(|failure| failure.faults[0].0.clone()), Err("active_from".to_owned()));
    }

    #[test]
    fn faults_stand_at_the_fields_they_are_of() {
        #[rustfmt::skip]
        let cases = [
            // the API's,                                                field,                                why
            ("plan_name",                                                "plan_name",                          "of the plan"),
            ("initial_version.components.0.tiers.1.range_start",         "components.0.tiers.1.range_start",   "of its version"),
            ("plan.initial_version.components.0.tiers.1.range_start",    "components.0.tiers.1.range_start",   "of one that is tried"),
            ("plan.plan_name",                                           "plan_name",                          "of a plan that is tried"),
            ("components.2.metric_id",                                   "components.2.metric_id",             "of a version by itself"),
            ("usage.1.quantity",                                         "components.4.quantity",              "in the row that it was typed into"),
            ("usage.9.quantity",                                         "usage.9.quantity",                   "of no row"),
        ];
        for (at, field, why) in cases {
            let found = faults(&Failure::new(400, "invalid", "wrong").at(at), &[0, 4]);
            assert_eq!(found.into_iter().collect::<Vec<_>>(), [(field.to_owned(), "wrong".to_owned())], "{at}: {why}");
        }
    }

    #[test]
    fn a_version_that_is_shown_comes_to_the_same_body() {
        let shown = json!({
            "currency": {"code": "EUR"}, "description": "the plan's", "localized_name": "Anfang",
            "recurring_charges": [{"name": "base", "amount": 9.5, "charge_timing": "in_arrears", "charge_behavior": "full",
                "invoicing_interval_unit": null, "reset_interval_unit": "week", "reset_interval_count": 2}],
            "components": [{"billable_metric": {"metric_id": "m"}, "bulk_pricing_enabled": true, "prepaid_charge": {"units": 3, "charge_behavior": "full"},
                "tiers": [{"type": "flat", "range_start": 0, "range_end": null, "cost_per_batch": 0.0137, "batch_rounding_type": null}]}],
            "features": [{"feature_id": "f"}], "target_customers": [{"customer_id": "c"}],
            "price_adjustment": {"price_adjustment_name": "off", "price_adjustment_type": "fixed", "price_adjustment_amount": -1},
        });
        let form = PlanForm::of_version(&shown, &json!({"plan_description": "the plan's"}));
        let expected = json!({
            "currency_code": "EUR", "localized_name": "Anfang",
            "recurring_charges": [{"name": "base", "amount": "9.5", "charge_timing": "in_arrears", "charge_behavior": "full",
                "reset_interval_unit": "week", "reset_interval_count": 2}],
            "components": [{"metric_id": "m", "bulk_pricing_enabled": "true", "prepaid_charge": {"units": "3", "charge_behavior": "full"},
                "tiers": [{"type": "flat", "range_start": "0", "cost_per_batch": "0.0137"}]}],
            "features": ["f"], "target_customers": ["c"],
            "price_adjustment": {"price_adjustment_name": "off", "price_adjustment_type": "fixed", "price_adjustment_amount": "-1"},
        });
        let trial = form.trial(&ViewerZone::default()).expect("a trial");
        assert_eq!(Value::Object(trial.version), expected);
    }
}
