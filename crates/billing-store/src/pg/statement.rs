//! SQL text that is prepared once per connection.
//!
//! Diesel never keeps the plan of an `sql_query`, an update, an insert of several rows or anything with a piece of SQL
//! in it; a query of a type of its own it does.

use std::marker::PhantomData;

use diesel::expression::{
    AppearsOnTable, Expression, SelectableExpression, TypedExpressionType, ValidGrouping, is_aggregate,
};
use diesel::pg::{Pg, PgConnection};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::SqlType;
use diesel::{QueryResult, RunQueryDsl};

/// Rows of one prepared insert: there is a text for each number of rows up to this.
pub(crate) const ROWS_PER_INSERT: usize = 16;

/// A query whose text is one of few, whatever its parameters, so that it is prepared once per connection and text. It
/// has to be loaded: what is executed Diesel sees by a reference, which does not say so. What writes returns its rows.
#[derive(Clone, Debug)]
pub(crate) struct Prepared<Q>(pub(crate) Q);

impl<Q> QueryId for Prepared<Q> {
    type QueryId = ();
    // Diesel then finds the prepared statement by its text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: Query> Query for Prepared<Q> {
    type SqlType = Q::SqlType;
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for Prepared<Q> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _: &Pg) -> QueryResult<bool> {
        Ok(true)
    }
}

impl<Q> RunQueryDsl<PgConnection> for Prepared<Q> {}

/// Two statements sent as one, whose text is one of few: `aside` writes something, and the result is that of `main`. Neither sees what
/// the other writes.
pub(crate) struct Beside<A, M> {
    pub(crate) aside: A,
    pub(crate) main: M,
}

impl<A, M> QueryId for Beside<A, M> {
    type QueryId = ();
    // Diesel then finds the prepared statement by its text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<A, M: Query> Query for Beside<A, M> {
    type SqlType = M::SqlType;
}

impl<A: QueryFragment<Pg>, M: QueryFragment<Pg>> QueryFragment<Pg> for Beside<A, M> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH aside AS (");
        self.aside.walk_ast(out.reborrow())?;
        out.push_sql(") ");
        self.main.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _: &Pg) -> QueryResult<bool> {
        Ok(true)
    }
}

impl<A, M> RunQueryDsl<PgConnection> for Beside<A, M> {}

/// Declares a statement: its result, and its text with a typed parameter between every two pieces. Texts that several
/// statements share stand in brackets, with a piece before and behind each.
macro_rules! statement {
    (
        $(#[$doc:meta])*
        $name:ident -> $result:ty {
            $first:literal
            $([$shared:expr] $second:literal)*
            $($field:ident: $rust:ty as $sql:ty; $rest:literal $([$later:expr] $after:literal)*)*
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
                    out.push_sql($shared);
                    out.push_sql($second);
                )*
                $(
                    out.push_bind_param::<$sql, _>(&self.$field)?;
                    out.push_sql($rest);
                    $(
                        out.push_sql($later);
                        out.push_sql($after);
                    )*
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
            pub(crate) month: crate::pg::month::Month,
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

/// An expression in SQL whose text never changes. Diesel's own `sql` makes Postgres parse and plan the statement around
/// it every time, because there it could.
pub(crate) struct Fixed<T> {
    text: &'static str,
    of_type: PhantomData<T>,
}

/// The expression `text`, of a type.
pub(crate) fn fixed<T>(text: &'static str) -> Fixed<T> {
    Fixed { text, of_type: PhantomData }
}

impl<T> QueryId for Fixed<T> {
    type QueryId = ();
    // Diesel then finds the prepared statement by its text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<T> QueryFragment<Pg> for Fixed<T> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(self.text);
        Ok(())
    }
}

impl<T: SqlType + TypedExpressionType> Expression for Fixed<T> {
    type SqlType = T;
}

impl<T, Table> AppearsOnTable<Table> for Fixed<T> where Self: Expression {}
impl<T, Table> SelectableExpression<Table> for Fixed<T> where Self: Expression {}
impl<T, GroupBy> ValidGrouping<GroupBy> for Fixed<T> {
    type IsAggregate = is_aggregate::Never;
}

/// The changes of an upsert that sets these columns of a table to what was to be inserted.
macro_rules! as_inserted {
    ($table:ident: $($column:ident),+ $(,)?) => {
        ($($table::$column.eq(diesel::upsert::excluded($table::$column)),)+)
    };
}

pub(crate) use {as_inserted, partition_statement, statement};
