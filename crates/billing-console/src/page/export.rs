//! A list as a table that spreadsheets open: what its filters keep, from its beginning.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{csv, show, text};

/// Most rows of a table. Whoever wants more reads the API.
const ROWS_MAX: usize = 10_000;
/// A table that is longer than so many bytes gets no more rows.
const BYTES_MAX: usize = 32 << 20;

/// A list of the API, and how a table of it looks.
pub(super) struct Export<'e, const COLUMNS: usize> {
    /// How the file is called, but for its ending.
    pub name: &'static str,
    /// The list, with its filters.
    pub list: &'e str,
    /// How many are asked for at once.
    pub at_once: u32,
    /// The names of the columns.
    pub columns: [&'static str; COLUMNS],
    /// A row of the table.
    pub row: fn(&Value) -> [String; COLUMNS],
}

/// Whether a list is asked for as a table.
pub(super) fn is_wanted(visit: &Visit<'_>) -> bool {
    visit.query.get("format") == Some("csv")
}

/// The way to a list as a table. `path` has its filters.
pub(super) fn link(path: &str) -> Markup {
    let joint = if path.contains('?') { '&' } else { '?' };
    html! { p.links { a href={ (path) (joint) "format=csv" } { (text::AS_CSV) } } }
}

/// The fields of something that is shown, as they come.
pub(super) fn fields<const COLUMNS: usize>(shown: &Value, names: [&str; COLUMNS]) -> [String; COLUMNS] {
    names.map(|name| show::plain(&shown[name]))
}

impl<const COLUMNS: usize> Export<'_, COLUMNS> {
    /// The table. The name of its file says how many rows it has where the list has more.
    ///
    /// # Errors
    /// Those of the list.
    pub(super) async fn table(&self, visit: &Visit<'_>) -> Result<Outcome, Failure> {
        let joint = if self.list.contains('?') { '&' } else { '?' };
        let first = format!("{}{joint}limit={}", self.list, self.at_once);
        let (mut rows, mut bytes, mut path) = (Vec::new(), 0, Some(first.clone()));
        while let Some(next) = path.take() {
            let list = visit.list(next).await?;
            let read = show::items(&list.value).iter().map(self.row);
            for row in read {
                bytes += row.iter().map(String::len).sum::<usize>();
                rows.push(row);
            }
            path = list.next.map(|cursor| format!("{first}&cursor={}", escaped(&cursor)));
            if rows.len() >= ROWS_MAX || bytes >= BYTES_MAX {
                break;
            }
        }
        let ending = if path.is_some() { format!("-first-{}", rows.len()) } else { String::new() };
        Ok(Outcome::Csv(format!("{}{ending}.csv", self.name), csv::text(self.columns, rows.into_iter())))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use billing_domain::user::Role;
    use serde_json::json;

    use super::*;
    use crate::api::{Answer, Api, Asking, Verb};
    use crate::visit::{Fields, Viewer};
    use crate::zone::ViewerZone;

    /// A list of so many numbers.
    struct Numbers {
        count: usize,
        read: Cell<usize>,
    }

    impl Api for Numbers {
        fn get(&self, path: String) -> Asking<'_> {
            Box::pin(async move {
                let fields = Fields::parse(path.split('?').nth(1).unwrap_or_default());
                let number = |name: &str| fields.get(name).and_then(|number| number.parse::<usize>().ok());
                let begin = number("cursor").unwrap_or(0);
                let end = self.count.min(begin + number("limit").unwrap_or(1));
                self.read.set(self.read.get() + 1);
                let items: Vec<Value> = (begin..end).map(|n| json!({"n": n, "kept": fields.get("kept")})).collect();
                Ok(Answer { value: items.into(), next: (end < self.count).then(|| end.to_string()) })
            })
        }

        fn send(&self, _: Verb, _: String, _: Value, _: String) -> Asking<'_> {
            Box::pin(async { Err(Failure::forbidden()) })
        }
    }

    /// The name, the lines and the number of calls of a table of so many numbers.
    fn exported(count: usize) -> (String, Vec<String>, usize) {
        let api = Numbers { count, read: Cell::new(0) };
        let viewer = Viewer {
            email: String::new(),
            role: Role::Reader,
            organization_name: String::new(),
            has_others: false,
            zone: ViewerZone::default(),
            form_token: String::new(),
        };
        let none = String::new;
        let (query, form) = (Fields::default(), Fields::default());
        let visit = Visit {
            api: &api,
            viewer: &viewer,
            id: none(),
            path: none(),
            query,
            form,
            once: none(),
            asked: RefCell::default(),
        };
        let columns = ["n", "kept"];
        let row = |shown: &Value| fields(shown, ["n", "kept"]);
        let export = Export { name: "numbers", list: "/api/numbers/?kept=yes", at_once: 100, columns, row };
        let table = pin!(export.table(&visit)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(Outcome::Csv(name, text))) = table else { panic!("no table") };
        (name, text.lines().map(str::to_owned).collect(), api.read.get())
    }

    #[test]
    fn a_table_has_the_whole_list_or_says_how_much() {
        let (name, lines, calls) = exported(250);
        assert_eq!((&*name, lines.len(), calls), ("numbers.csv", 251, 3), "page by page, with a line of names");
        assert_eq!([&lines[0], &lines[1], &lines[250]], ["n,kept", "0,yes", "249,yes"], "in order, with its filters");
        let (name, lines, calls) = exported(10_001);
        assert_eq!((&*name, lines.len(), calls), ("numbers-first-10000.csv", 10_001, 100), "there is an end");
        assert_eq!(exported(10_000).0, "numbers.csv", "all of them");
        assert_eq!(exported(0).1, ["n,kept"], "none of them");
    }
}
