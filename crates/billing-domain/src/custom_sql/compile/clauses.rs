//! The clauses of a query, with every clause that the language does not have refused.
//!
//! The structures of the parser are taken apart completely: a clause that a later version of it learns does not compile
//! here until somebody has decided about it.

use sqlparser::ast::{
    Cte, Expr, GroupByExpr, Ident, Query, Select, SelectFlavor, SelectItem, SetExpr, Spanned, TableAlias, TableFactor,
    TableWithJoins, WildcardAdditionalOptions, With,
};

use super::name::{name_of, single_name};
use crate::custom_sql::refusal::{CustomSqlError, Position};

/// The clauses of a SELECT that the language has.
pub(super) struct Clauses<'q> {
    pub position: Option<Position>,
    pub outputs: Vec<&'q SelectItem>,
    pub from: From<'q>,
    pub filter: Option<&'q Expr>,
    pub group_by: &'q [Expr],
    pub having: Option<&'q Expr>,
}

/// What is read.
pub(super) enum From<'q> {
    Table { name: String, alias: Option<String>, position: Option<Position> },
    Query { query: &'q Query, alias: Option<String>, position: Option<Position> },
}

/// Refuses the clauses that are there.
fn refuse(found: &[(bool, &str)], position: Option<Position>) -> Result<(), CustomSqlError> {
    match found.iter().find(|(is_there, _)| *is_there) {
        Some((_, clause)) => {
            let message = format!("{clause} is not allowed. {CLAUSES_ALLOWED}");
            Err(CustomSqlError::new(position, message))
        }
        None => Ok(()),
    }
}

const CLAUSES_ALLOWED: &str = "A query has WITH, SELECT, FROM one relation, WHERE, GROUP BY and HAVING.";

/// WITH and the body of a query.
pub(super) fn only_query(
    query: &Query,
    position: Option<Position>,
) -> Result<(Option<&With>, &SetExpr), CustomSqlError> {
    let Query { with, body, order_by, limit_clause, fetch, locks, for_clause, settings, format_clause, pipe_operators } =
        query;
    refuse(
        &[
            (order_by.is_some(), "ORDER BY outside of a window"),
            (limit_clause.is_some(), "LIMIT"),
            (fetch.is_some(), "FETCH"),
            (!locks.is_empty(), "FOR UPDATE"),
            (for_clause.is_some(), "FOR"),
            (settings.is_some(), "SETTINGS"),
            (format_clause.is_some(), "FORMAT"),
            (!pipe_operators.is_empty(), "|>"),
        ],
        position,
    )?;
    Ok((with.as_ref(), body))
}

/// The names and queries of WITH.
pub(super) fn only_with(with: &With) -> Result<Vec<(String, &Query, Option<Position>)>, CustomSqlError> {
    let With { with_token: _, recursive, cte_tables } = with;
    let position = Position::of(with.span());
    refuse(&[(*recursive, "WITH RECURSIVE")], position)?;
    let mut named = Vec::new();
    for Cte { alias, query, from, materialized, closing_paren_token: _ } in cte_tables {
        let position = Position::of(alias.name.span).or(position);
        refuse(&[(from.is_some(), "FROM before WITH"), (materialized.is_some(), "MATERIALIZED")], position)?;
        named.push((only_alias(alias)?, query.as_ref(), position));
    }
    Ok(named)
}

/// The clauses of a SELECT.
pub(super) fn only_select(select: &Select) -> Result<Clauses<'_>, CustomSqlError> {
    let Select {
        select_token,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having,
        named_window,
        qualify,
        window_before_qualify,
        value_table_mode,
        flavor,
    } = select;
    let position = Position::of(select_token.0.span);
    refuse(
        &[
            (distinct.is_some(), "SELECT DISTINCT"),
            (into.is_some(), "INTO"),
            (!named_window.is_empty(), "WINDOW"),
            (top.is_some() || *top_before_distinct, "TOP"),
            (!optimizer_hints.is_empty() || select_modifiers.is_some(), "A hint"),
            (exclude.is_some(), "EXCLUDE"),
            (!lateral_views.is_empty(), "LATERAL VIEW"),
            (prewhere.is_some(), "PREWHERE"),
            (!connect_by.is_empty(), "CONNECT BY"),
            (!cluster_by.is_empty() || !distribute_by.is_empty() || !sort_by.is_empty(), "SORT BY"),
            (qualify.is_some() || *window_before_qualify, "QUALIFY"),
            (value_table_mode.is_some(), "SELECT AS"),
            (*flavor != SelectFlavor::Standard, "FROM before SELECT"),
        ],
        position,
    )?;
    let group_by: &[Expr] = match group_by {
        GroupByExpr::Expressions(expressions, modifiers) if modifiers.is_empty() => expressions,
        _ => return Err(CustomSqlError::new(position, "GROUP BY takes expressions and nothing else.")),
    };
    Ok(Clauses {
        position,
        outputs: projection.iter().collect(),
        from: only_from(from, position)?,
        filter: selection.as_ref(),
        group_by,
        having: having.as_ref(),
    })
}

fn only_from(from: &[TableWithJoins], position: Option<Position>) -> Result<From<'_>, CustomSqlError> {
    let [TableWithJoins { relation, joins }] = from else {
        return Err(CustomSqlError::new(
            position,
            "FROM names one relation: events, one of WITH, or a query in brackets.",
        ));
    };
    let position = match relation {
        TableFactor::Table { name, .. } => Position::of(name.span()).or(position),
        other => Position::of(other.span()).or(position),
    };
    refuse(&[(!joins.is_empty(), "JOIN")], position)?;
    match relation {
        TableFactor::Table {
            name,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            let is_plain = args.is_none()
                && with_hints.is_empty()
                && version.is_none()
                && !with_ordinality
                && partitions.is_empty()
                && json_path.is_none()
                && sample.is_none()
                && index_hints.is_empty();
            let name = single_name(name).filter(|_| is_plain).ok_or_else(|| {
                CustomSqlError::new(position, "FROM names events, one of WITH, or a query in brackets; nothing else.")
            })?;
            Ok(From::Table { name, alias: alias.as_ref().map(only_alias).transpose()?, position })
        }
        TableFactor::Derived { lateral, subquery, alias, sample } => {
            refuse(&[(*lateral, "LATERAL"), (sample.is_some(), "TABLESAMPLE")], position)?;
            Ok(From::Query { query: subquery, alias: alias.as_ref().map(only_alias).transpose()?, position })
        }
        _ => {
            Err(CustomSqlError::new(position, "FROM names events, one of WITH, or a query in brackets; nothing else."))
        }
    }
}

fn only_alias(alias: &TableAlias) -> Result<String, CustomSqlError> {
    let TableAlias { explicit: _, name, columns, at } = alias;
    let position = Position::of(name.span);
    refuse(&[(!columns.is_empty(), "A list of columns after a name"), (at.is_some(), "AT")], position)?;
    Ok(name_of(name))
}

/// Whether `*` stands alone.
pub(super) fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    let alias: &Option<Ident> = opt_alias;
    opt_ilike.is_none()
        && opt_exclude.is_none()
        && opt_except.is_none()
        && opt_replace.is_none()
        && opt_rename.is_none()
        && alias.is_none()
}
