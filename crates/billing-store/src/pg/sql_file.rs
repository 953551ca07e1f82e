//! Prepared SQL whose text is a file of its own, with the parameters as `$1`, `$2` and so on: it can be pasted into psql.

/// Declares a statement: its result, its file, and its parameters in the order of their numbers.
macro_rules! sql_file {
    (
        $(#[$doc:meta])*
        $name:ident -> $result:ty = $file:literal {
            $($field:ident: $rust:ty as $sql:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $(pub(crate) $field: $rust,)*
        }

        impl diesel::query_builder::QueryId for $name {
            type QueryId = Self;
            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl diesel::query_builder::Query for $name {
            type SqlType = $result;
        }

        impl diesel::query_builder::QueryFragment<diesel::pg::Pg> for $name {
            fn walk_ast<'b>(
                &'b self,
                mut out: diesel::query_builder::AstPass<'_, 'b, diesel::pg::Pg>,
            ) -> diesel::QueryResult<()> {
                static PIECES: std::sync::LazyLock<Vec<&'static str>> =
                    std::sync::LazyLock::new(|| crate::pg::sql_file::pieces(include_str!($file)));
                let mut pieces = PIECES.iter();
                out.push_sql(crate::pg::sql_file::piece(&mut pieces)?);
                $(
                    out.push_bind_param::<$sql, _>(&self.$field)?;
                    out.push_sql(crate::pg::sql_file::piece(&mut pieces)?);
                )*
                crate::pg::sql_file::expect_end(pieces)
            }
        }

        impl diesel::RunQueryDsl<diesel::PgConnection> for $name {}
    };
}

/// The text between the parameters, as far as those stand in the order of their numbers.
pub(crate) fn pieces(text: &'static str) -> Vec<&'static str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((piece, behind)) = rest.split_once(&format!("${}", pieces.len() + 1)) {
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}

/// The next piece of text.
pub(crate) fn piece(pieces: &mut std::slice::Iter<'_, &'static str>) -> diesel::QueryResult<&'static str> {
    pieces.next().copied().ok_or_else(|| fault("has more fields than parameters"))
}

/// Fails where there are parameters that no field is for.
pub(crate) fn expect_end(mut pieces: std::slice::Iter<'_, &'static str>) -> diesel::QueryResult<()> {
    pieces.next().map_or(Ok(()), |_| Err(fault("has more parameters than fields")))
}

fn fault(what: &str) -> diesel::result::Error {
    diesel::result::Error::QueryBuilderError(format!("a file of SQL {what}").into())
}

pub(crate) use sql_file;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_parameters() {
        #[rustfmt::skip]
        let cases: [(&str, &[&str], &str); 4] = [
            // text,                     pieces,                      why
            ("SELECT 1",                 &["SELECT 1"],               "none"),
            ("SELECT $1::int[], $2",     &["SELECT ", "::int[], ", ""], "in their order"),
            ("SELECT $2, $1",            &["SELECT $2, ", ""],        "out of order: the second has no field then, and the statement fails"),
            ("$1 $2 $3 $4 $5 $6 $7 $8 $9 $10", &["", " ", " ", " ", " ", " ", " ", " ", " ", " ", ""], "ten is not one and a nought"),
        ];
        for (text, expected, why) in cases {
            assert_eq!(pieces(text), expected, "{why}");
        }
    }
}
