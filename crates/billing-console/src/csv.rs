//! Tables that spreadsheets open.

/// A table as CSV (RFC 4180): the names of its columns, and a line for each row.
pub fn text<const COLUMNS: usize>(names: [&str; COLUMNS], rows: impl Iterator<Item = [String; COLUMNS]>) -> String {
    let mut text = names.join(",") + "\r\n";
    for row in rows {
        text.push_str(&row.map(|cell| escaped(&cell)).join(","));
        text.push_str("\r\n");
    }
    text
}

/// A cell. What a spreadsheet would take for a formula gets an apostrophe in front: names are others' text.
fn escaped(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let cell = if is_formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_text() {
        #[rustfmt::skip]
        let cases = [
            // given,               shown,                       why
            ("plain",               "plain",                     "as it is"),
            ("a,b",                 "\"a,b\"",                   "a comma ends a cell"),
            ("say \"hi\"",          "\"say \"\"hi\"\"\"",        "a quote is doubled"),
            ("two\nlines",          "\"two\nlines\"",            "a line ends a row"),
            ("=1+1",                "'=1+1",                     "a formula"),
            ("+49 30",              "'+49 30",                   "so is this, to a spreadsheet"),
            ("-1",                  "'-1",                       "and this"),
            ("@SUM(A1)",            "'@SUM(A1)",                 "and this"),
            ("\t=1",                "'\t=1",                     "space in front is skipped"),
            ("=A1,\"x\"",           "\"'=A1,\"\"x\"\"\"",        "both"),
            ("a=b",                 "a=b",                       "only in front"),
        ];
        for (given, shown, why) in cases {
            assert_eq!(escaped(given), shown, "{why}");
        }
    }
}
