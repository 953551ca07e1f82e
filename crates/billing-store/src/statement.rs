//! SQL text that is prepared once per connection.
//!
//! Diesel never keeps the plan of an `sql_query`; a query of a type of its own it does.

/// Declares a statement: its result, and its text with a typed parameter between every two pieces.
macro_rules! statement {
    (
        $(#[$doc:meta])*
        $name:ident -> $result:ty {
            $first:literal
            $($field:ident: $rust:ty as $sql:ty; $rest:literal)*
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
                out.push_sql($first);
                $(
                    out.push_bind_param::<$sql, _>(&self.$field)?;
                    out.push_sql($rest);
                )*
                Ok(())
            }
        }

        impl diesel::RunQueryDsl<diesel::PgConnection> for $name {}
    };
}

pub(crate) use statement;
