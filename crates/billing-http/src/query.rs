//! Query strings, with every spelling of lists and filters that clients use.

use std::collections::BTreeMap;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::{FieldCode, FieldError, FieldErrors};
use serde_json::Value;

use crate::body;
use crate::error::{ApiError, codes};
use crate::wire::FromJson;

/// Most parameters of one query.
const PARAMETERS_MAX: usize = 100;
const FILTERS: &str = "subscription_filters";

/// A query parameter, for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it may be given many times, and in every spelling of a list.
    pub is_list: bool,
}

impl Parameter {
    /// One that may be left out.
    pub const fn optional(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, required: false, is_list: false }
    }

    /// One that must be given.
    pub const fn required(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, required: true, is_list: false }
    }

    /// A list, which may be left out.
    pub const fn list(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, required: false, is_list: true }
    }
}

/// The parameters of a request, being read one by one; faults are gathered.
pub struct Query {
    pairs: Vec<(String, String)>,
    errors: FieldErrors,
}

impl FromRequest for Query {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::parse(request.query_string()))
    }
}

/// What a call asks, readable out of its query string.
pub trait FromQuery: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// Everything that is wrong with the parameters.
    fn from_query(query: Query) -> Result<Self, ApiError>;
}

/// The query string of a call, read as `T`; a bad one is refused with everything that is wrong with it.
pub struct ApiQuery<T>(pub T);

impl<T: FromQuery> FromRequest for ApiQuery<T> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Query::parse(request.query_string()).and_then(T::from_query).map(Self))
    }
}

impl Query {
    /// Takes a query string apart.
    ///
    /// # Errors
    /// [`codes::INVALID_ENCODING`] when it is not UTF-8 or holds a NUL; too many parameters.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let pairs: Option<Vec<_>> = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decoded(name)?, decoded(value)?))
            })
            .collect();
        let pairs = pairs.ok_or_else(|| ApiError::plain(&codes::INVALID_ENCODING))?;
        if pairs.len() > PARAMETERS_MAX {
            let detail = format!("At most {PARAMETERS_MAX} parameters are allowed.");
            return Err(ApiError::field("", FieldCode::ListTooLong, detail));
        }
        Ok(Self { pairs, errors: FieldErrors::default() })
    }

    /// A parameter that must be there.
    pub fn required<T: FromJson>(&mut self, name: &str) -> Option<T> {
        match self.optional(name) {
            Some(Some(value)) => Some(value),
            Some(None) => {
                self.errors.push(name, FieldCode::Required, "This field is required.");
                None
            }
            None => None,
        }
    }

    /// A parameter that may be missing or empty. The outer `None`: it was bad, and that is noted.
    pub fn optional<T: FromJson>(&mut self, name: &str) -> Option<Option<T>> {
        let mut values = self.pairs.iter().filter(|(given, _)| given == name).map(|(_, value)| value.clone());
        let value = match (values.next(), values.next()) {
            (None, _) => return Some(None),
            (Some(_), Some(_)) => {
                self.errors.push(name, FieldCode::Invalid, "This parameter is given more than once.");
                return None;
            }
            (Some(value), None) => value,
        };
        if value.is_empty() {
            return Some(None);
        }
        self.errors.keep_all(name, T::from_json(Value::String(value))).map(Some)
    }

    /// A list: `x`, `x[]`, `x[0]`, repeated, comma-separated. `None`: an element was bad, and that is noted under the
    /// parameter's name alone, since a place in so many spellings says nothing.
    pub fn list<T: FromJson>(&mut self, name: &str) -> Option<Vec<T>> {
        let values =
            self.pairs.iter().filter(|(given, _)| names_list(given, name)).flat_map(|(_, value)| value.split(','));
        let values: Vec<_> =
            values.map(str::trim).filter(|text| !text.is_empty()).map(|text| Value::String(text.to_owned())).collect();
        let read = values.into_iter().map(|value| self.errors.keep_all(name, T::from_json(value)));
        read.collect::<Vec<_>>().into_iter().collect()
    }

    /// Properties, each as `name=value`: `x`, `x[]`, `x[0]`, repeated. `None`: one was bad, and that is noted.
    pub fn properties(&mut self, name: &str) -> Option<SubscriptionFilters> {
        let values = self.pairs.iter().filter(|(given, value)| names_list(given, name) && !value.is_empty());
        let pairs: Option<Vec<_>> = values
            .map(|(_, value)| value.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect();
        let unreadable = || FieldError::new("", FieldCode::Invalid, "Expected the form name=value.");
        let read = pairs.ok_or_else(unreadable).and_then(SubscriptionFilters::new);
        // A place in so many spellings says nothing.
        let read = read.map_err(|fault| FieldError { attr: String::new(), ..fault });
        self.errors.keep(name, read)
    }

    /// The names of all parameters, as they were sent.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(name, _)| name.as_str())
    }

    /// Subscription filters: a JSON list, JSON objects repeated with or without `[]`, or one parameter for each
    /// part (`[0]property_name`, `[0][property_name]`, `[0].property_name`). `None`: they were bad, and that is noted.
    pub fn filters(&mut self) -> Option<SubscriptionFilters> {
        let read = self.filter_values().and_then(|values| SubscriptionFilters::from_json(Value::Array(values)));
        self.errors.keep_all(FILTERS, read)
    }

    fn filter_values(&self) -> Result<Vec<Value>, FieldErrors> {
        if self.has_lost_filters() {
            return Ok(Vec::new());
        }
        let mut values = Vec::new();
        let mut parts: BTreeMap<u32, serde_json::Map<String, Value>> = BTreeMap::new();
        for (name, value) in &self.pairs {
            let Some(rest) = name.strip_prefix(FILTERS) else { continue };
            if let Some((index, part)) = indexed_part(rest) {
                parts.entry(index).or_default().insert(part.to_owned(), Value::String(value.clone()));
            } else if rest.is_empty() || rest == "[]" || indexed(rest).is_some_and(|(_, rest)| rest.is_empty()) {
                if value.is_empty() {
                    continue;
                }
                match body::parse(value) {
                    Ok(Value::Array(list)) => values.extend(list),
                    Ok(value @ Value::Object(_)) => values.push(value),
                    _ => return Err(invalid_filters()),
                }
            }
        }
        values.extend(parts.into_values().map(Value::Object));
        Ok(values)
    }

    /// Whether only the names of the two parts of a filter are left, as many times as there were filters: a known
    /// client encodes them so. What it meant never left it, and it has always been answered without filters.
    fn has_lost_filters(&self) -> bool {
        let parts = self.pairs.iter().filter(|(name, _)| name.starts_with(FILTERS));
        let parts: Vec<_> = parts.map(|(name, value)| (name == FILTERS).then_some(value.as_str())).collect();
        !parts.is_empty() && parts.chunks(2).all(|pair| pair == [Some("property_name"), Some("value")])
    }

    /// Notes a fault of several parameters together.
    pub fn refuse(&mut self, fault: FieldError) {
        self.errors.0.push(fault);
    }

    /// All that was noted.
    pub fn into_errors(self) -> FieldErrors {
        self.errors
    }

    /// The values read, or everything that was wrong with the parameters.
    ///
    /// # Errors
    /// All that was noted.
    pub fn finish<T>(self, values: Option<T>) -> Result<T, ApiError> {
        match values {
            Some(values) if self.errors.is_empty() => Ok(values),
            _ => Err(self.errors.into()),
        }
    }
}

/// Whether `given` is a spelling of the list `name`: `x`, `x[]` or `x[0]`.
fn names_list(given: &str, name: &str) -> bool {
    given.strip_prefix(name).is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
                .is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Whether `given` is a spelling of `parameter` that is read.
pub fn is_spelling_of(given: &str, parameter: &Parameter) -> bool {
    let is_part_of_filters =
        || parameter.name == FILTERS && given.strip_prefix(FILTERS).is_some_and(|rest| indexed_part(rest).is_some());
    given == parameter.name || parameter.is_list && (names_list(given, parameter.name) || is_part_of_filters())
}

fn invalid_filters() -> FieldErrors {
    let detail = "Expected a JSON list of objects with property_name and value.";
    FieldErrors(vec![FieldError::new("", FieldCode::Invalid, detail)])
}

/// `[7]rest` as 7 and `rest`.
fn indexed(text: &str) -> Option<(u32, &str)> {
    let (index, rest) = text.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest))
}

/// `[7]part`, `[7][part]` or `[7].part` as 7 and `part`.
fn indexed_part(text: &str) -> Option<(u32, &str)> {
    let (index, rest) = indexed(text)?;
    let bracketed = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let part = bracketed.or_else(|| rest.strip_prefix('.')).unwrap_or(rest);
    matches!(part, "property_name" | "value").then_some((index, part))
}

/// Percent-decoding, with `+` for a space; `None` when the result is not UTF-8 or holds a NUL.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        bytes.push(match (byte, tail) {
            (b'+', _) => b' ',
            (b'%', [high, low, tail @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = tail;
                let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(high)? * 16 + digit(low)?
            }
            (byte, _) => *byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use billing_domain::subscription::SubscriptionStatus;

    use super::*;

    #[test]
    fn reads_every_spelling_of_a_list() {
        use SubscriptionStatus::{Active, Ended};
        #[rustfmt::skip]
        let cases = [
            // query,                                  read,                  why
            ("",                                       vec![],                "missing"),
            ("status=",                                vec![],                "empty"),
            ("status=active",                          vec![Active],          "one"),
            ("status=active&status=ended",             vec![Active, Ended],   "repeated"),
            ("status[]=active&status[]=ended",         vec![Active, Ended],   "with brackets"),
            ("status%5B%5D=active",                    vec![Active],          "with escaped brackets"),
            ("status[0]=active&status[1]=ended",       vec![Active, Ended],   "with positions"),
            ("status=active,ended",                    vec![Active, Ended],   "comma-separated"),
            ("status=active%2C+ended",                 vec![Active, Ended],   "escaped, with a space"),
            ("statuses=active&x=1",                    vec![],                "another parameter"),
        ];
        for (text, expected, why) in cases {
            let mut query = Query::parse(text).expect(text);
            let read = query.list::<SubscriptionStatus>("status");
            assert_eq!(query.finish(read).expect(text), expected, "{text}: {why}");
        }
        let mut query = Query::parse("status=active,nope").expect("parsed");
        assert!(query.list::<SubscriptionStatus>("status").is_none());
        assert_eq!((query.errors.0[0].attr.as_str(), query.errors.0[0].code), ("status", FieldCode::InvalidChoice));
    }

    #[test]
    fn reads_every_spelling_of_filters() {
        #[rustfmt::skip]
        let cases = [
            // query,                                                                    read,                            why
            ("",                                                                         "{}",                            "missing"),
            (r#"subscription_filters=[{"property_name":"env","value":"prod"}]"#,         r#"{"env":"prod"}"#,             "a JSON list"),
            ("subscription_filters=%5B%7B%22property_name%22:%22env%22,%22value%22:%22prod%22%7D%5D",
                                                                                         r#"{"env":"prod"}"#,             "the same, escaped"),
            (r#"subscription_filters[]={"property_name":"env","value":"prod"}"#,         r#"{"env":"prod"}"#,             "an object with brackets"),
            (r#"subscription_filters={"property_name":"env","value":"prod"}&subscription_filters={"property_name":"az","value":"1"}"#,
                                                                                         r#"{"az":"1","env":"prod"}"#,    "objects repeated"),
            (r#"subscription_filters[0]={"property_name":"env","value":"prod"}"#,        r#"{"env":"prod"}"#,             "an object at a position"),
            ("subscription_filters[0]property_name=env&subscription_filters[0]value=prod", r#"{"env":"prod"}"#,           "parts at a position"),
            ("subscription_filters[0][property_name]=env&subscription_filters[0][value]=a&subscription_filters[1][property_name]=az&subscription_filters[1][value]=1",
                                                                                         r#"{"az":"1","env":"a"}"#,       "parts in brackets"),
            ("subscription_filters[0].property_name=env&subscription_filters[0].value=a", r#"{"env":"a"}"#,               "parts behind a dot"),
            ("subscription_filters=",                                                    "{}",                            "empty"),
            ("subscription_filters=property_name&subscription_filters=value",            "{}",                            "lost by the client"),
        ];
        for (text, expected, why) in cases {
            let mut query = Query::parse(text).expect(text);
            let read = query.filters();
            assert_eq!(query.finish(read).expect(text).canonical(), expected, "{text}: {why}");
        }
        #[rustfmt::skip]
        let faults = [
            // query,                                              attr,                                      why
            ("subscription_filters=nonsense",                      "subscription_filters",                    "not JSON"),
            ("subscription_filters=value",                         "subscription_filters",                    "a word that no client leaves"),
            ("subscription_filters=[1]",                           "subscription_filters.0",                  "not an object"),
            (r#"subscription_filters=[{"property_name":"a"}]"#,    "subscription_filters.0.value",            "half a pair"),
            ("subscription_filters[0]value=a",                     "subscription_filters.0.property_name",    "half a pair"),
        ];
        for (text, attr, why) in faults {
            let mut query = Query::parse(text).expect(text);
            assert!(query.filters().is_none(), "{text}: {why}");
            assert_eq!(query.errors.0[0].attr, attr, "{text}: {why}");
        }
    }

    #[test]
    fn a_single_parameter_is_given_once() {
        let mut query = Query::parse("a=1&a=2&b=%41+b%").expect("parsed");
        assert_eq!(query.optional::<String>("a"), None);
        assert_eq!(query.optional::<String>("b"), Some(Some("A b%".to_owned())));
        assert_eq!(query.required::<String>("c"), None);
        assert_eq!(query.errors.0.len(), 2);
        assert!(Query::parse("a=%00").is_err() && Query::parse("a=%ff").is_err());
    }
}
