//! The known name that was most likely meant by an unknown one.

/// Longest name that is compared, in characters: nothing known is longer.
const NAME_CHARACTERS_MAX: usize = 64;

/// The known name that takes the fewest changes of one character, if few enough that it is likely to be meant: one for
/// every three characters, and at least one.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let name: Vec<char> = name.chars().take(NAME_CHARACTERS_MAX + 1).collect();
    if name.len() > NAME_CHARACTERS_MAX {
        return None;
    }
    let changes_max = (name.len() / 3).max(1);
    let changes = known.map(|candidate| (changes(&name, &candidate.chars().collect::<Vec<_>>()), candidate));
    changes.filter(|(changes, _)| *changes <= changes_max).min().map(|(_, candidate)| candidate)
}

/// How many characters must be put in, taken out, replaced or swapped with their neighbour to make `b` of `a`.
fn changes(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(from != to);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_where_one_is_near() {
        #[rustfmt::skip]
        let cases = [
            // unknown,             nearest,                   why
            ("agregation_type",     Some("aggregation_type"),  "a letter is missing"),
            ("metric_tpye",         Some("metric_type"),       "two letters are swapped"),
            ("MetricType",          Some("metric_type"),       "another way to write it: two letters and a line"),
            ("event_names",         Some("event_name"),        "one too many"),
            ("nmae",                Some("name"),              "a short name, two swapped"),
            ("scopes",              None,                      "nothing is near"),
            ("flat_rate",           None,                      "nothing is near"),
            ("",                    None,                      "no name at all"),
            (&"a".repeat(65),       None,                      "longer than any"),
        ];
        let known = ["aggregation_type", "event_name", "metric_type", "name"];
        for (name, expected, why) in cases {
            assert_eq!(nearest(name, known.into_iter()), expected, "{name}: {why}");
        }
    }

    #[test]
    fn changes_are_counted() {
        let count = |a: &str, b: &str| changes(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        let cases = [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 1), ("abc", "abc", 0)];
        for (a, b, expected) in cases {
            assert_eq!((count(a, b), count(b, a)), (expected, expected), "{a} {b}");
        }
    }
}
