//! Which events of a metric's name count: by numbers and by texts in their properties.

use bigdecimal::BigDecimal;
use serde::{Deserialize, Serialize};

use crate::decimal;
use crate::error::{FieldCode, FieldErrors};
use crate::event::Properties;
use crate::text;

/// Most filters of one kind that a metric has.
pub const FILTERS_MAX: usize = 20;
/// Most texts that one filter compares with.
pub const TEXTS_MAX: usize = 100;

/// The filters of a metric: an event counts when it passes every one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricFilters {
    /// Those that compare numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numeric_filters: Vec<NumericFilter>,
    /// Those that compare texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categorical_filters: Vec<CategoricalFilter>,
}

/// Compares the number in a property with another. A property that is missing or no usable number does not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumericFilter {
    /// The property.
    pub property_name: String,
    /// How it must compare.
    pub operator: NumericOperator,
    /// With what.
    #[serde(with = "decimal::number")]
    pub comparison_value: BigDecimal,
}

/// Looks for the text of a property among others. A property that is missing or has no text is among none: it passes
/// [`CategoricalOperator::IsNotIn`] alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoricalFilter {
    /// The property.
    pub property_name: String,
    /// Whether it must be among them.
    pub operator: CategoricalOperator,
    /// The texts.
    pub comparison_value: Vec<String>,
}

choices! {
    /// How a number must compare.
    pub NumericOperator {
        /// Greater or equal.
        Gte = "gte",
        /// Greater.
        Gt = "gt",
        /// Equal, however many zeros either is written with.
        Eq = "eq",
        /// Less.
        Lt = "lt",
        /// Less or equal.
        Lte = "lte",
    }
}

impl NumericOperator {
    fn holds(self, left: &BigDecimal, right: &BigDecimal) -> bool {
        match self {
            Self::Gte => left >= right,
            Self::Gt => left > right,
            Self::Eq => left == right,
            Self::Lt => left < right,
            Self::Lte => left <= right,
        }
    }
}

choices! {
    /// Whether a text must be among others.
    pub CategoricalOperator {
        /// It must.
        IsIn = "isin",
        /// It must not.
        IsNotIn = "isnotin",
    }
}

impl MetricFilters {
    /// Whether every event passes.
    pub fn is_empty(&self) -> bool {
        self.numeric_filters.is_empty() && self.categorical_filters.is_empty()
    }

    /// Whether an event with these properties passes.
    pub fn matches(&self, properties: &Properties) -> bool {
        self.numeric_filters.iter().all(|filter| filter.matches(properties))
            && self.categorical_filters.iter().all(|filter| filter.matches(properties))
    }

    /// Checks how many there are, and their names and texts.
    ///
    /// # Errors
    /// Everything that is wrong, by the fields of this struct.
    pub fn check(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        for (attr, count) in
            [("numeric_filters", self.numeric_filters.len()), ("categorical_filters", self.categorical_filters.len())]
        {
            if count > FILTERS_MAX {
                errors.push(attr, FieldCode::ListTooLong, format!("At most {FILTERS_MAX} filters are allowed."));
            }
        }
        for (i, filter) in self.numeric_filters.iter().take(FILTERS_MAX).enumerate() {
            errors.keep(&format!("numeric_filters.{i}.property_name"), text::check_id(&filter.property_name));
        }
        for (i, filter) in self.categorical_filters.iter().take(FILTERS_MAX).enumerate() {
            let attr = format!("categorical_filters.{i}");
            errors.keep(&format!("{attr}.property_name"), text::check_id(&filter.property_name));
            let texts = &filter.comparison_value;
            let attr = format!("{attr}.comparison_value");
            match texts.len() {
                0 => errors.push(&attr, FieldCode::Empty, "This list may not be empty."),
                1..=TEXTS_MAX => {}
                _ => errors.push(&attr, FieldCode::ListTooLong, format!("At most {TEXTS_MAX} texts are allowed.")),
            }
            for (j, value) in texts.iter().take(TEXTS_MAX).enumerate() {
                errors.keep(&format!("{attr}.{j}"), text::check_length(value, text::ID_CHARACTERS_MAX));
            }
        }
        errors.finish(())
    }
}

impl NumericFilter {
    /// Whether an event with these properties passes.
    pub fn matches(&self, properties: &Properties) -> bool {
        properties
            .number(&self.property_name)
            .is_some_and(|number| self.operator.holds(&number, &self.comparison_value))
    }
}

impl CategoricalFilter {
    /// Whether an event with these properties passes.
    pub fn matches(&self, properties: &Properties) -> bool {
        let found = properties
            .text(&self.property_name)
            .is_some_and(|text| self.comparison_value.iter().any(|wanted| *wanted == text));
        match self.operator {
            CategoricalOperator::IsIn => found,
            CategoricalOperator::IsNotIn => !found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::build::properties;
    use crate::testing::world::decimal;

    #[test]
    fn numbers_compare_exactly() {
        use NumericOperator::{Eq, Gt, Gte, Lt, Lte};
        #[rustfmt::skip]
        let cases = [
            // properties,                                 operator, value,  passes, why
            (r#"{"n": 10}"#,                               Gt,       "10",   false,  "equal is not greater"),
            (r#"{"n": 10}"#,                               Gte,      "10",   true,   "but greater or equal"),
            (r#"{"n": "10.000"}"#,                         Eq,       "10",   true,   "zeros make no difference, nor do quotes"),
            (r#"{"n": 10.0000000000000000000000000001}"#,  Eq,       "10",   false,  "every digit counts"),
            (r#"{"n": 10.0000000000000000000000000001}"#,  Lte,      "10",   false,  "every digit counts"),
            (r#"{"n": -11}"#,                              Lt,       "-10",  true,   "below zero"),
            (r#"{"n": 10}"#,                               Lt,       "10",   false,  "equal is not less"),
            (r#"{"n": "ten"}"#,                            Lt,       "99",   false,  "not a number"),
            (r#"{"n": true}"#,                             Gte,      "0",    false,  "not a number"),
            (r#"{}"#,                                      Lt,       "99",   false,  "missing"),
            (r#"{"n": null}"#,                             Lte,      "0",    false,  "null is as good as missing"),
        ];
        for (json, operator, value, passes, why) in cases {
            let filter = NumericFilter { property_name: "n".to_owned(), operator, comparison_value: decimal(value) };
            assert_eq!(filter.matches(&properties(json)), passes, "{json} {operator:?} {value}: {why}");
        }
    }

    #[test]
    fn what_is_missing_is_among_nothing() {
        #[rustfmt::skip]
        let cases = [
            // properties,      is in,  why
            (r#"{"p": "a"}"#,   true,   "among them"),
            (r#"{"p": "A"}"#,   false,  "another text"),
            (r#"{"p": 1}"#,     true,   "a number by its digits"),
            (r#"{"p": 1.0}"#,   false,  "other digits"),
            (r#"{"p": ""}"#,    true,   "an empty text is a text"),
            (r#"{}"#,           false,  "missing, which is not the empty text"),
            (r#"{"p": null}"#,  false,  "null is as good as missing"),
            (r#"{"p": ["a"]}"#, false,  "a list has no text"),
        ];
        for (json, is_in, why) in cases {
            for (operator, passes) in [(CategoricalOperator::IsIn, is_in), (CategoricalOperator::IsNotIn, !is_in)] {
                let comparison_value = ["a", "1", ""].map(str::to_owned).to_vec();
                let filter = CategoricalFilter { property_name: "p".to_owned(), operator, comparison_value };
                assert_eq!(filter.matches(&properties(json)), passes, "{json} {operator:?}: {why}");
            }
        }
    }

    #[test]
    fn operators_are_spelled_the_same_everywhere() {
        for operator in NumericOperator::ALL {
            assert_eq!(serde_json::to_value(operator).expect("json"), operator.as_str());
        }
        for operator in CategoricalOperator::ALL {
            assert_eq!(serde_json::to_value(operator).expect("json"), operator.as_str());
        }
    }
}
