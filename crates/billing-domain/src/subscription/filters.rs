//! Which events a subscription counts.

use std::collections::BTreeMap;

use crate::error::{FieldCode, FieldError};
use crate::event::Properties;
use crate::text;

/// Most filters on one subscription.
pub const FILTERS_MAX: usize = 10;

/// Property names and values that an event must have to count; order does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct SubscriptionFilters(BTreeMap<String, String>);

impl SubscriptionFilters {
    /// No filters: every event counts.
    pub fn none() -> Self {
        Self::default()
    }

    /// The filters `pairs` of property name and value.
    ///
    /// # Errors
    /// More than [`FILTERS_MAX`], a bad name or value, or a name given twice; `attr` is relative to the list.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, FieldError> {
        let mut filters = BTreeMap::new();
        for (i, (name, value)) in pairs.into_iter().enumerate() {
            if i == FILTERS_MAX {
                let detail = format!("At most {FILTERS_MAX} filters are allowed.");
                return Err(FieldError::new("", FieldCode::ListTooLong, detail));
            }
            text::check_id(&name).map_err(|error| error.under(&format!("{i}.property_name")))?;
            text::check_id(&value).map_err(|error| error.under(&format!("{i}.value")))?;
            if filters.insert(name, value).is_some() {
                let detail = "This property is filtered on twice.";
                return Err(FieldError::new(format!("{i}.property_name"), FieldCode::Unique, detail));
            }
        }
        Ok(Self(filters))
    }

    /// The pairs, ordered by property name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every pair of `self` is also in `other`.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().all(|(name, value)| other.0.get(name) == Some(value))
    }

    /// Whether an event with `properties` counts.
    pub fn matches(&self, properties: &Properties) -> bool {
        self.0.iter().all(|(name, value)| properties.text(name).as_deref() == Some(value))
    }

    /// One text for one set of filters: a JSON object with its names in order.
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(pairs: &[(&str, &str)]) -> SubscriptionFilters {
        let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        SubscriptionFilters::new(owned).expect("valid filters")
    }

    #[test]
    fn one_set_of_filters_has_one_text() {
        let (a, b) = (filters(&[("env", "prod"), ("az", "1")]), filters(&[("az", "1"), ("env", "prod")]));
        assert_eq!(a, b);
        assert_eq!(a.canonical(), r#"{"az":"1","env":"prod"}"#);
        assert_eq!(SubscriptionFilters::none().canonical(), "{}");
    }

    #[test]
    fn filters_select_events_that_have_every_pair() {
        let selected = filters(&[("env", "prod"), ("tier", "2")]);
        #[rustfmt::skip]
        let cases = [
            // properties,                               counts, why
            (r#"{"env":"prod","tier":"2","x":1}"#,       true,  "both pairs, more besides"),
            (r#"{"env":"prod","tier":2}"#,               true,  "a number is compared by its text"),
            (r#"{"env":"prod"}"#,                        false, "a pair is missing"),
            (r#"{"env":"PROD","tier":"2"}"#,             false, "case matters"),
        ];
        for (json, counts, why) in cases {
            let properties: Properties = serde_json::from_str(json).expect("json");
            assert_eq!(selected.matches(&properties), counts, "{json}: {why}");
        }
    }

    #[test]
    fn a_subset_of_filters_is_the_wider_subscription() {
        let (all, prod, prod_eu) =
            (filters(&[]), filters(&[("env", "prod")]), filters(&[("env", "prod"), ("region", "eu")]));
        assert!(all.is_subset_of(&prod) && prod.is_subset_of(&prod_eu) && prod.is_subset_of(&prod));
        assert!(!prod_eu.is_subset_of(&prod) && !prod.is_subset_of(&filters(&[("env", "test")])));
    }

    #[test]
    fn a_property_is_filtered_on_once() {
        let twice = [("env".to_owned(), "a".to_owned()), ("env".to_owned(), "b".to_owned())];
        let error = SubscriptionFilters::new(twice).expect_err("refused");
        assert_eq!((error.attr.as_str(), error.code), ("1.property_name", FieldCode::Unique));
    }
}
