//! Bad fields, each by its path and its code.

use std::fmt;

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Dotted path of the field, list positions as numbers: `components.0.tiers.1.range_end`.
    pub attr: String,
    /// Stable code.
    pub code: FieldCode,
    /// A sentence for people.
    pub detail: String,
}

impl FieldError {
    /// An error at `attr`.
    pub fn new(attr: impl Into<String>, code: FieldCode, detail: impl Into<String>) -> Self {
        Self { attr: attr.into(), code, detail: detail.into() }
    }

    /// That a list cannot go on behind what was given as its cursor.
    pub fn bad_cursor() -> Self {
        Self::new("cursor", FieldCode::Invalid, "This is not a cursor.")
    }

    /// The same error one level further out: `tiers` of `components.0` is `components.0.tiers`.
    #[must_use]
    pub fn under(mut self, outer: &str) -> Self {
        if self.attr.is_empty() {
            outer.clone_into(&mut self.attr);
        } else if !outer.is_empty() {
            self.attr = format!("{outer}.{}", self.attr);
        }
        self
    }
}

/// Every bad field of one input, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    /// Notes one more bad field.
    pub fn push(&mut self, attr: impl Into<String>, code: FieldCode, detail: impl Into<String>) {
        self.0.push(FieldError::new(attr, code, detail));
    }

    /// Keeps the value of `result`, or notes its error at `attr`.
    pub fn keep<T>(&mut self, attr: &str, result: Result<T, FieldError>) -> Option<T> {
        result.map_err(|error| self.0.push(error.under(attr))).ok()
    }

    /// Keeps the value of `result`, or notes all its errors below `attr`.
    pub fn keep_all<T>(&mut self, attr: &str, result: Result<T, Self>) -> Option<T> {
        result.map_err(|errors| self.0.extend(errors.0.into_iter().map(|error| error.under(attr)))).ok()
    }

    /// `value` if nothing was noted.
    ///
    /// # Errors
    /// All that was noted.
    pub fn finish<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// The same errors one level further out.
    #[must_use]
    pub fn under(self, outer: &str) -> Self {
        Self(self.0.into_iter().map(|error| error.under(outer)).collect())
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", error.attr, error.detail)?;
        }
        Ok(())
    }
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal, $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $(#[doc = $meaning] $variant,)* }

        impl $name {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable text of the code.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// When the code is given.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    /// What can be wrong with a field.
    FieldCode {
        Required = "required", "The field is missing.";
        Null = "null", "The field is null and may not be.";
        Blank = "blank", "The field is empty text and may not be.";
        Invalid = "invalid", "The value cannot be read as what the field holds.";
        InvalidChoice = "invalid_choice", "The value is not one of those allowed.";
        DoesNotExist = "does_not_exist", "The value names an object that does not exist in this organization.";
        IncorrectType = "incorrect_type", "The value has another JSON type than the field.";
        MinValue = "min_value", "The value is below the least allowed.";
        MaxValue = "max_value", "The value is above the greatest allowed.";
        MaxLength = "max_length", "The text is too long.";
        MaxDecimalPlaces = "max_decimal_places", "The number has too many decimals.";
        MaxWholeDigits = "max_whole_digits", "The number has too many digits before the point.";
        ListTooLong = "list_too_long", "The list has too many elements.";
        NotAList = "not_a_list", "The value should be a list.";
        Empty = "empty", "The list is empty and may not be.";
        Unique = "unique", "The value occurs twice where it must be unique.";
        NotAllowedTogether = "not_allowed_together", "Exactly one of several fields may be given.";
        UnknownField = "unknown_field", "The call knows no field or parameter of this name; the detail says the nearest one.";
        CustomSqlNotAllowed = "custom_sql_not_allowed", "The query is outside the language of custom metrics; the detail says where, and what is allowed.";
    }
}
