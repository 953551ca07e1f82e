use super::*;
use crate::metric::Granularity::{Days, Hours, Months, Total};

/// `type [aggregation] [p] [event_type] [granularity [proration]]`, `-` for what is missing.
fn fields(text: &str) -> MeasureFields {
    fn one_of<T: Copy>(all: &[T], as_str: impl Fn(T) -> &'static str, text: Option<&str>) -> Option<T> {
        let text = text.filter(|text| *text != "-")?;
        Some(*all.iter().find(|one| as_str(**one) == text).unwrap_or_else(|| panic!("{text} is no choice")))
    }
    let mut words = text.split_whitespace();
    MeasureFields {
        metric_type: one_of(MetricType::ALL, MetricType::as_str, words.next()).expect("a type"),
        aggregation_type: one_of(AggregationKind::ALL, AggregationKind::as_str, words.next()),
        property_name: words.next().filter(|text| *text != "-").map(str::to_owned),
        event_type: one_of(GaugeEventType::ALL, GaugeEventType::as_str, words.next()),
        granularity: one_of(Granularity::ALL, Granularity::as_str, words.next()),
        proration: one_of(Granularity::ALL, Granularity::as_str, words.next()),
        custom_sql: None,
    }
}

#[test]
fn every_field_that_does_not_fit_is_named() {
    #[rustfmt::skip]
    let cases: [(&str, &[&str], &str); 28] = [
        // fields,                              at fault,                          why
        ("counter",                             &[],                               "a count"),
        ("counter count p",                     &["property_name"],                "a count looks at no property"),
        ("counter - p",                         &["property_name"],                "the same, unless it was forgotten what of it"),
        ("rate count p - minutes",              &["property_name"],                "nor does a count in each window"),
        ("counter sum",                         &["property_name"],                "a sum of nothing"),
        ("counter latest p",                    &[],                               "every aggregation counts"),
        ("counter sum p total",                 &["event_type"],                   "gauges have one"),
        ("counter sum p - days hours",          &["granularity", "proration"],     "gauges have them"),
        ("counter sum p - total total",         &[],                               "that is what a counter is"),
        ("gauge - p total months",              &[],                               "the least there is to say"),
        ("gauge max p delta months days",       &[],                               "everything"),
        ("gauge",                               &["property_name", "event_type", "granularity"], "nothing said"),
        ("gauge sum p total months",            &["aggregation_type"],             "a gauge takes its peak"),
        ("gauge latest p total months",         &["aggregation_type"],             "a gauge takes its peak"),
        ("gauge max - total months",            &["property_name"],                "no level"),
        ("gauge max p - months",                &["event_type"],                   "level or move?"),
        ("gauge max p total - days",            &["granularity"],                  "per what?"),
        ("gauge max p total days months",       &["proration"],                    "longer than the unit"),
        ("gauge max p total total years",       &[],                               "a plan may last for years"),
        ("gauge max p total years total",       &[],                               "no proration"),
        ("rate count - - minutes",              &[],                               "calls a minute"),
        ("rate - - - minutes",                  &[],                               "the same"),
        ("rate average p - months",             &[],                               "a month is a window"),
        ("rate max - - minutes",                &["property_name"],                "the maximum of nothing"),
        ("rate count",                          &["granularity"],                  "how long a window?"),
        ("rate count - - total",                &["granularity"],                  "no window"),
        ("rate latest p delta minutes hours",   &["event_type", "proration", "aggregation_type"], "of a gauge and of a counter"),
        ("rate min p - -",                      &["granularity", "aggregation_type"], "two faults at once"),
    ];
    for (text, faults, why) in cases {
        let made = fields(text).measure();
        let found: Vec<String> = match &made {
            Ok(_) => Vec::new(),
            Err(errors) => errors.0.iter().map(|error| error.attr.clone()).collect(),
        };
        assert_eq!(found, faults, "{text}: {why}");
        if let Ok(measure) = made {
            assert_eq!(measure.fields().measure(), Ok(measure.clone()), "{text}: comes back as it was said");
        }
    }
}

#[test]
fn a_proration_by_the_whole_is_none() {
    #[rustfmt::skip]
    let cases = [
        // fields,                          shown as,                       why
        ("gauge - p total months months",   (Some(Months), Some(Total)),    "one bucket a unit"),
        ("gauge - p total months",          (Some(Months), Some(Total)),    "not said"),
        ("gauge - p total total days",      (Some(Total),  Some(Days)),     "by day"),
        ("rate - - - hours",                (Some(Hours),  None),           "a rate has none"),
        ("counter - - - total total",       (None,         None),           "a counter neither"),
    ];
    for (text, shown, why) in cases {
        let made = fields(text).measure().expect(text).fields();
        assert_eq!((made.granularity, made.proration), shown, "{text}: {why}");
    }
}
