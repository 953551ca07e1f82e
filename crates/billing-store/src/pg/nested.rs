//! Rows within rows: what belongs to a row, read by the same statement.

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::dsl::SqlTypeOf;
use diesel::pg::{Pg, PgQueryBuilder, PgValue};
use diesel::query_builder::{QueryBuilder, QueryFragment};
use diesel::sql_types::{Array, Record};
use diesel::{Queryable, Selectable};

/// What the columns of `R` are in SQL.
pub(crate) type SqlOf<R> = SqlTypeOf<<R as Selectable<Pg>>::SelectExpression>;

/// What a [`Nested`] is in SQL: `ARRAY(SELECT ROW(..) ..)` of [`columns_of`] its rows.
pub(crate) type NestedSql<R> = Array<Record<SqlOf<R>>>;

/// Rows in one column of another row.
#[derive(Debug, FromSqlRow)]
pub(crate) struct Nested<R>(pub(crate) Vec<R>);

impl<R> FromSql<NestedSql<R>, Pg> for Nested<R>
where
    R: Selectable<Pg> + Queryable<SqlOf<R>, Pg>,
    Vec<R::Row>: FromSql<NestedSql<R>, Pg>,
{
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        let rows = Vec::<R::Row>::from_sql(value)?;
        rows.into_iter().map(R::build).collect::<deserialize::Result<_>>().map(Self)
    }
}

/// The columns of `R` as they stand in a statement, in its order.
///
/// # Panics
/// Never: no parameter stands among columns.
pub(crate) fn columns_of<R>() -> String
where
    R: Selectable<Pg>,
    R::SelectExpression: QueryFragment<Pg>,
{
    let mut text = PgQueryBuilder::default();
    match R::construct_selection().to_sql(&mut text, &Pg) {
        Ok(()) => text.finish(),
        Err(error) => unreachable!("columns have no parameters: {error}"),
    }
}
