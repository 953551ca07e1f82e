//! The known names that were most likely meant by an unknown one.

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

/// Most names that are told to be near.
pub const NEAR_MAX: usize = 3;

/// Those of `known` that were most likely meant by `text`, the likeliest first, at most [`NEAR_MAX`]: that which is written so but
/// for capitals and what parts its words; else those that have it in them; else those that take few changes of one character.
///
/// `known` are pairs of what is told and what it is compared by.
pub fn near<T: Clone>(text: &str, known: impl Iterator<Item = (T, String)>) -> Vec<T> {
    let text = plain(text);
    let length = text.chars().count();
    if text.is_empty() || length > NAME_CHARACTERS_MAX {
        return Vec::new();
    }
    let characters: Vec<char> = text.chars().collect();
    let mut ranked: Vec<(usize, T)> = Vec::new();
    for (told, name) in known {
        let name = plain(&name);
        if name == text {
            return vec![told];
        }
        let changes = changes(&characters, &name.chars().collect::<Vec<_>>());
        // What is contained comes before what is alike, and the shorter name before the longer.
        let rank = match name.find(&text) {
            Some(0) if length > 2 => Some(name.len()),
            Some(_) if length > 2 => Some(1_000 + name.len()),
            _ if changes <= (length / 3).max(1) => Some(10_000 + changes),
            _ => None,
        };
        ranked.extend(rank.map(|rank| (rank, told)));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(NEAR_MAX).map(|(_, told)| told).collect()
}

/// Without capitals, and with one sign between words.
fn plain(text: &str) -> String {
    text.trim().to_lowercase().replace(['_', ' '], "-")
}

/// Asks whether one of a few was meant, behind a sentence; nothing where there are none.
pub fn question(few: &[String]) -> String {
    match few {
        [] => String::new(),
        [only] => format!(" Did you mean {only}?"),
        [first @ .., last] => format!(" Did you mean {} or {last}?", first.join(", ")),
    }
}

/// A caller's text between backticks, short and without control characters.
pub fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(NAME_CHARACTERS_MAX).map(|c| if c.is_control() { '?' } else { c }).collect();
    let more = if text.chars().count() > NAME_CHARACTERS_MAX { "..." } else { "" };
    format!("`{shown}{more}`")
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
