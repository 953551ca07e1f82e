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

/// As [`statement!`], about the events of one month: `@` stands in the text where the name of their table goes.
/// Prepared once per month and connection.
macro_rules! partition_statement {
    (
        $(#[$doc:meta])*
        $name:ident -> $result:ty {
            $first:literal
            $($field:ident: $rust:ty as $sql:ty; $rest:literal)*
            @ $after:literal
            $($later:ident: $later_rust:ty as $later_sql:ty; $later_rest:literal)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            pub(crate) month: crate::partition::Month,
            $(pub(crate) $field: $rust,)*
            $(pub(crate) $later: $later_rust,)*
        }

        impl diesel::query_builder::QueryId for $name {
            type QueryId = ();
            // The text depends on the month; Diesel then finds the prepared statement by its text.
            const HAS_STATIC_QUERY_ID: bool = false;
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
                out.push_identifier(&self.month.table())?;
                out.push_sql($after);
                $(
                    out.push_bind_param::<$later_sql, _>(&self.$later)?;
                    out.push_sql($later_rest);
                )*
                Ok(())
            }
        }

        impl diesel::RunQueryDsl<diesel::PgConnection> for $name {}
    };
}

pub(crate) use {partition_statement, statement};
