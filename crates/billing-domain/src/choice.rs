//! Choices: values that are written as one word of a fixed set.
//!
//! Such a set is declared once, by [`choices!`](crate::choices): what is printed, parsed, kept as JSON, listed in an error and
//! described in an interface all come from that one table.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// A value that is written as one word of a fixed set.
pub trait Choice: Copy + FromStr<Err = UnknownChoice> + 'static {
    /// Every choice.
    const ALL: &'static [Self];
    /// How each is written, in the same order.
    const TEXTS: &'static [&'static str];

    /// How it is written.
    fn as_str(self) -> &'static str;
}

/// A text is none of the choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownChoice {
    /// The texts that would have been.
    pub choices: &'static [&'static str],
}

impl fmt::Display for UnknownChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a valid choice. Choices: {}.", self.choices.join(", "))
    }
}

impl std::error::Error for UnknownChoice {}

/// The choice that is written as `text`.
///
/// # Errors
/// [`UnknownChoice`], which lists those there are. Case counts.
pub fn parse<T: Choice>(text: &str) -> Result<T, UnknownChoice> {
    T::ALL.iter().copied().find(|choice| choice.as_str() == text).ok_or(UnknownChoice { choices: T::TEXTS })
}

/// Writes a choice as its text.
///
/// # Errors
/// What `serializer` says.
pub fn serialize<T: Choice, S: Serializer>(choice: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(choice.as_str())
}

/// Reads a choice from its text.
///
/// # Errors
/// What is not a text, or is none of the choices.
pub fn deserialize<'de, T: Choice, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_str(Texts(PhantomData))
}

struct Texts<T>(PhantomData<T>);

impl<T: Choice> Visitor<'_> for Texts<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", T::TEXTS.join(", "))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        parse(text).map_err(|_| E::unknown_variant(text, T::TEXTS))
    }
}

/// Declares an enum whose values are written as words: `ALL`, `as_str`, `Display`, `FromStr`, serde and
/// [`Choice`](crate::choice::Choice), out of one table.
///
/// ```
/// billing_domain::choices! {
///     /// The state of the traffic light.
///     #[derive(Default)]
///     pub Light {
///         /// Stop.
///         #[default]
///         Red = "red",
///         /// Go.
///         Green = "green",
///     }
/// }
///
/// assert_eq!("green".parse(), Ok(Light::Green));
/// assert_eq!(Light::default().to_string(), "red");
/// let error = "blue".parse::<Light>().unwrap_err();
/// assert_eq!(error.to_string(), "not a valid choice. Choices: red, green.");
/// ```
///
/// The crate that declares one has serde among its dependencies.
#[macro_export]
macro_rules! choices {
    ($(#[$meta:meta])* $vis:vis $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$variant_meta])* $variant,)* }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The text on the wire and in the store.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl $crate::choice::Choice for $name {
            const ALL: &'static [Self] = Self::ALL;
            const TEXTS: &'static [&'static str] = &[$($text,)*];

            fn as_str(self) -> &'static str {
                self.as_str()
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::choice::UnknownChoice;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::choice::parse(text)
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::choice::serialize(self, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::choice::deserialize(deserializer)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::UnknownChoice;

    choices! {
        /// Three of them, one with a word of its own.
        #[derive(Default)]
        Size {
            /// Small.
            #[default]
            Small = "s",
            /// Middle.
            Middle = "middle",
            /// Large.
            Large = "large",
        }
    }

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        for size in Size::ALL {
            assert_eq!(size.as_str().parse(), Ok(*size));
            let json = serde_json::to_string(size).expect("JSON");
            assert_eq!(json, format!("\"{size}\""));
            assert_eq!(serde_json::from_str::<Size>(&json).ok(), Some(*size));
        }
        assert_eq!(Size::default(), Size::Small);
    }

    #[test]
    fn what_is_none_of_them_is_told_with_all_of_them() {
        let choices = ["s", "middle", "large"].as_slice();
        for (text, why) in [("small", "the variant's name"), ("Large", "another case"), ("", "nothing")] {
            assert_eq!(text.parse::<Size>(), Err(UnknownChoice { choices }), "{why}");
            let error = serde_json::from_str::<Size>(&format!("\"{text}\"")).expect_err(why).to_string();
            assert!(error.contains("expected one of `s`, `middle`, `large`"), "{why}: {error}");
        }
        assert!(serde_json::from_str::<Size>("1").is_err(), "not a text");
    }
}
