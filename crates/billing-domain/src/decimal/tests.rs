use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

/// How often a law is tried: 10,000 times, or as often as `PROPTEST_CASES` says.
pub(crate) fn laws() -> ProptestConfig {
    let config = ProptestConfig::default();
    // 256 is what proptest takes when nobody asks for a number.
    let cases = if config.cases == 256 { 10_000 } else { config.cases };
    ProptestConfig { cases, failure_persistence: None, ..config }
}

/// A number for tests.
pub(crate) fn number_of(text: &str) -> BigDecimal {
    parse_property(text).unwrap_or_else(|| panic!("{text} is not a number"))
}

/// Any amount or quantity in the range of a request body, small and plain ones often.
pub(crate) fn any_number() -> impl Strategy<Value = BigDecimal> {
    let great = 10_i128.pow(34);
    let digits_and_scale = prop_oneof![
        4 => (-1_000..1_000_i128, 0..3_i64),
        2 => (-1_000_000_000..1_000_000_000_i128, 0..=15_i64),
        1 => (-great..great, Just(15_i64)),
    ];
    digits_and_scale.prop_map(|(digits, scale)| BigDecimal::new(digits.into(), scale))
}

/// As [`any_number`], at least 0.
pub(crate) fn any_quantity() -> impl Strategy<Value = BigDecimal> {
    any_number().prop_map(|number| number.abs())
}

#[test]
fn reads_numbers_of_bodies_within_bounds() {
    use DecimalError::{NotANumber, TooManyDecimals, TooManyIntegerDigits};
    #[rustfmt::skip]
    let cases: [(&str, Result<&str, DecimalError>, &str); 34] = [
        // text,                        number,                        why
        ("0",                           Ok("0"),                       "zero"),
        ("-0",                          Ok("0"),                       "there is one zero"),
        ("0.00",                        Ok("0"),                       "and it has no decimals"),
        ("12.50",                       Ok("12.5"),                    "a price"),
        ("-12.5",                       Ok("-12.5"),                   "a negative number"),
        ("+12.5",                       Ok("12.5"),                    "a plus sign, as numeric text may have"),
        (".5",                          Ok("0.5"),                     "nothing before the point"),
        ("5.",                          Ok("5"),                       "nothing behind the point"),
        ("1e3",                         Ok("1000"),                    "an exponent"),
        ("1E+3",                        Ok("1000"),                    "an exponent with capital and sign"),
        ("15e-1",                       Ok("1.5"),                     "a negative exponent"),
        ("0e999999999999999999999999",  Ok("0"),                       "zero however large its exponent"),
        ("99999999999999999999",        Ok("99999999999999999999"),    "20 integer digits"),
        ("100000000000000000000",       Err(TooManyIntegerDigits),     "21 integer digits"),
        ("00000000000000000000001",     Ok("1"),                       "leading zeros are not digits"),
        ("0.000000000000001",           Ok("0.000000000000001"),       "15 decimals"),
        ("0.0000000000000001",          Err(TooManyDecimals { given: 16 }), "16 decimals"),
        ("1.0000000000000000000",       Ok("1"),                       "trailing zeros are not decimals"),
        ("1e19",                        Ok("10000000000000000000"),    "20 digits by an exponent"),
        ("1e20",                        Err(TooManyIntegerDigits),     "21 digits by an exponent"),
        ("123e-15",                     Ok("0.000000000000123"),       "15 decimals by an exponent"),
        ("1e-16",                       Err(TooManyDecimals { given: 16 }), "16 decimals by an exponent"),
        ("0.30000000000000004",         Err(TooManyDecimals { given: 17 }), "0.1 + 0.2 as floats print it"),
        ("1e999999999",                 Err(TooManyIntegerDigits),     "a gigabyte of digits"),
        ("1e-999999999",                Err(TooManyDecimals { given: 999_999_999 }), "a gigabyte of decimals"),
        ("1e99999999999999999999",      Err(TooManyIntegerDigits),     "an exponent beyond 64 bits"),
        ("",                            Err(NotANumber),               "nothing"),
        ("-",                           Err(NotANumber),               "a sign alone"),
        (".",                           Err(NotANumber),               "a point alone"),
        ("1e",                          Err(NotANumber),               "an exponent without digits"),
        ("1_000",                       Err(NotANumber),               "digit separators"),
        ("NaN",                         Err(NotANumber),               "not a number by its own account"),
        ("1.2.3",                       Err(NotANumber),               "two points"),
        ("٣",                           Err(NotANumber),               "a digit of another script"),
    ];
    for (text, number, why) in cases {
        assert_eq!(parse(text).map(|number| plain(&number)), number.map(str::to_owned), "{text}: {why}");
    }
}

#[test]
fn reads_numbers_of_event_properties_exactly_or_not_at_all() {
    let sixty = format!("0.{}", "7".repeat(58));
    let sixty_one = format!("0.{}", "7".repeat(59));
    #[rustfmt::skip]
    let cases = [
        // text,              exact,                why
        ("3.50",              Some("3.50"),         "decimals as sent, the zero too"),
        ("1e30",              Some("1000000000000000000000000000000"), "the greatest exponent"),
        ("1e31",              None,                 "beyond it"),
        ("1e-30",             Some("0.000000000000000000000000000001"), "the least exponent"),
        ("1e-31",             None,                 "beyond it"),
        (sixty.as_str(),      Some(sixty.as_str()), "60 characters, every digit kept"),
        (sixty_one.as_str(),  None,                 "61 characters"),
        ("1e999999999",       None,                 "an exponent bomb"),
        ("abc",               None,                 "not a number"),
    ];
    for (text, exact, why) in cases {
        let number = parse_property(text).map(|number| number.to_plain_string());
        assert_eq!(number.as_deref(), exact, "{text}: {why}");
    }
}

#[test]
fn divides_once_and_says_where_it_stops() {
    let threes = format!("0.{}", "3".repeat(60));
    let sixes = format!("-0.{}7", "6".repeat(59));
    #[rustfmt::skip]
    let cases = [
        // dividend, divisor, quotient,          why
        ("1",        "8",     "0.125",           "a quotient that ends"),
        ("1",        "3",     threes.as_str(),   "one that does not is kept to 60 decimals"),
        ("-2",       "3",     sixes.as_str(),    "the last of them rounded half away from zero"),
        ("10",       "1",     "10",              "by one"),
        ("0",        "7",     "0",               "nothing"),
        ("7",        "0",     "0",               "no units, no price"),
        ("1e30",     "1e-30", "1000000000000000000000000000000000000000000000000000000000000", "a great quotient"),
    ];
    for (dividend, divisor, quotient, why) in cases {
        assert_eq!(plain(&divide(&number_of(dividend), &number_of(divisor))), quotient, "{dividend}/{divisor}: {why}");
    }
}

#[test]
fn divides_to_whole_numbers_on_the_exact_quotient() {
    #[rustfmt::skip]
    let cases = [
        // dividend, divisor,  up,   down, nearest, why
        ("968",      "100",    "10", "9",  "10",    "nine batches and more than half of one"),
        ("50",       "100",    "1",  "0",  "1",     "half a batch goes up"),
        ("49.9",     "100",    "1",  "0",  "0",     "less than half does not"),
        ("200",      "100",    "2",  "2",  "2",     "whole batches"),
        ("0",        "100",    "0",  "0",  "0",     "nothing"),
        ("-50",      "100",    "0",  "-1", "-1",    "below zero, up is towards zero"),
        ("0.3",      "0.1",    "3",  "3",  "3",     "no float, no 2.9999999999999996"),
        ("1",        "0",      "0",  "0",  "0",     "no units, no batches"),
    ];
    for (dividend, divisor, up, down, nearest, why) in cases {
        for (whole, expected) in [(Whole::Up, up), (Whole::Down, down), (Whole::Nearest, nearest)] {
            let quotient = divide_whole(&number_of(dividend), &number_of(divisor), whole);
            assert_eq!(plain(&quotient), expected, "{dividend}/{divisor} {whole:?}: {why}");
        }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Tagged {
    Sample {
        #[serde(with = "number")]
        exact: BigDecimal,
        #[serde(with = "optional_number", default)]
        maybe: Option<BigDecimal>,
        #[serde(with = "integer")]
        count: u64,
    },
}

fn sample(exact: &str, maybe: Option<&str>) -> Tagged {
    Tagged::Sample { exact: number_of(exact), maybe: maybe.map(number_of), count: 7 }
}

#[test]
fn json_keeps_every_digit_in_each_form_serde_has() {
    let exact = sample("12345678901234567890.123456789012345", Some("0.0000001"));
    let text = serde_json::to_string(&exact).expect("json");
    let expected = r#"{"kind":"sample","exact":12345678901234567890.123456789012345,"maybe":0.0000001,"count":7}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Tagged>(&text).expect("from text"), exact);
    let value = serde_json::to_value(&exact).expect("json");
    assert_eq!(serde_json::from_value::<Tagged>(value).expect("from a value"), exact);
    let null = serde_json::from_str::<Tagged>(r#"{"kind":"sample","exact":"1.5","maybe":null,"count":7}"#);
    assert_eq!(null.expect("numeric text, null"), sample("1.5", None));
}

#[test]
fn json_refuses_what_is_not_a_number_of_ours() {
    let long = json!("9".repeat(STORED_CHARACTERS_MAX + 1));
    for value in [json!(true), json!([1]), json!("1 "), json!(null), json!("1e1001"), long] {
        assert!(number::deserialize(value.clone()).is_err(), "{value}");
    }
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn text_and_number_are_the_same_thing(number in any_number()) {
        let text = plain(&number);
        prop_assert!(!text.contains(['e', 'E']), "{}", text);
        prop_assert!(!text.contains('.') || !text.ends_with('0'), "{}", text);
        prop_assert_eq!(parse(&text), Ok(number.clone()));
        let json = serde_json::to_value(sample(&text, Some(&text))).expect("json");
        prop_assert_eq!(serde_json::from_value::<Tagged>(json).expect("read back"), sample(&text, Some(&text)));
    }

    #[test]
    fn what_is_read_is_what_was_written(text in "[-+]?[0-9]{0,24}(\\.[0-9]{0,18})?([eE][-+]?[0-9]{1,2})?") {
        if let Ok(number) = parse(&text) {
            prop_assert_eq!(number, text.parse::<BigDecimal>().expect("the library reads it too"));
        }
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,40}") {
        let _ = (parse(&text), parse_property(&text));
    }

    #[test]
    fn a_quotient_is_off_by_half_its_last_digit_at_most(dividend in any_number(), divisor in any_number()) {
        prop_assume!(!divisor.is_zero());
        let rest = &dividend - divide(&dividend, &divisor) * &divisor;
        let bound = divisor.abs() * BigDecimal::new(5.into(), i64::from(QUOTIENT_DECIMALS) + 1);
        prop_assert!(rest.abs() <= bound, "{} / {}", dividend, divisor);
    }

    #[test]
    fn whole_quotients_enclose_the_exact_one(dividend in any_number(), divisor in any_number()) {
        prop_assume!(!divisor.is_zero());
        let times = |whole| divide_whole(&dividend, &divisor, whole) * divisor.abs();
        let exact = if divisor.sign() == Sign::Minus { -&dividend } else { dividend.clone() };
        let (up, down, nearest) = (times(Whole::Up), times(Whole::Down), times(Whole::Nearest));
        prop_assert!(down <= exact && exact <= up);
        let step = if up == exact { BigDecimal::zero() } else { divisor.abs() };
        prop_assert_eq!(&up - &down, step);
        prop_assert!((&nearest - &exact).abs() * 2 <= divisor.abs());
    }
}
