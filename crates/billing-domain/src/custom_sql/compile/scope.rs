//! What names mean: the columns of the one relation that a query reads.

use sqlparser::ast::{Expr, Ident, SelectItem, SelectItemQualifiedWildcardKind, Spanned};

use super::clauses;
use super::name::{name_of, single_name};
use crate::custom_sql::program::{EVENT_COLUMNS, Expression, Type};
use crate::custom_sql::refusal::{CustomSqlError, Position, excerpt};

/// The relation with the customer's events.
pub(super) const EVENTS: &str = "events";
/// Most columns of a query: as many as Postgres lets one have.
const COLUMNS_MAX: usize = 1_664;

/// A column that a query can name.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub name: Option<String>,
    pub of: Type,
}

/// The columns of a source.
pub(super) struct Scope {
    alias: String,
    columns: Vec<Column>,
    /// Whether the rows are events, so that they can be told apart.
    pub is_events: bool,
}

/// One column of a SELECT before it is compiled.
pub(super) struct Output<'q> {
    pub name: Option<String>,
    /// What was written; `None`: a column that `*` stands for.
    pub expression: Option<&'q Expr>,
    /// The place of that column.
    pub place: usize,
}

impl Scope {
    pub fn new(alias: String, columns: Vec<Column>) -> Self {
        Self { alias, columns, is_events: false }
    }

    pub fn of_events(alias: String) -> Self {
        let known = |(name, of, is_visible): &(&str, Type, bool)| Column {
            name: is_visible.then(|| (*name).to_owned()),
            of: *of,
        };
        Self { alias, columns: EVENT_COLUMNS.iter().map(known).collect(), is_events: true }
    }

    pub fn column(&self, place: usize) -> (Expression, Type) {
        (Expression::Column(place), self.columns[place].of)
    }

    /// Whether a name without a relation in front means a column.
    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name.as_deref() == Some(name))
    }

    /// The column that a name means.
    pub fn find(&self, names: &[Ident], position: Option<Position>) -> Result<(Expression, Type), CustomSqlError> {
        let (relation, name) = match names {
            [name] => (None, name_of(name)),
            [relation, name] => (Some(name_of(relation)), name_of(name)),
            _ => return Err(CustomSqlError::new(position, "A column is called by its name, or by relation.name.")),
        };
        if relation.is_some_and(|relation| relation != self.alias) {
            return Err(CustomSqlError::new(
                position,
                "The name before the point is not that of the relation in FROM.",
            ));
        }
        let mut places = (0..self.columns.len()).filter(|place| self.columns[*place].name.as_deref() == Some(&name));
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(self.column(place)),
            (Some(_), Some(_)) => {
                Err(CustomSqlError::new(position, format!("{} is the name of two columns.", excerpt(&name))))
            }
            (None, _) => Err(CustomSqlError::new(position, self.unknown(&name))),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.columns.iter().filter_map(|column| column.name.as_deref()).collect();
        format!("There is no column {} here; there are: {}.", excerpt(name), excerpt_list(&known))
    }

    /// The columns that come out, with `*` written out.
    pub fn expand<'q>(&self, items: &[&'q SelectItem]) -> Result<Vec<Output<'q>>, CustomSqlError> {
        let mut outputs = Vec::new();
        for item in items {
            let position = Position::of(item.span());
            match item {
                SelectItem::UnnamedExpr(expression) => {
                    let name = match expression {
                        Expr::Identifier(name) => Some(name_of(name)),
                        Expr::CompoundIdentifier(names) => names.last().map(name_of),
                        _ => None,
                    };
                    outputs.push(Output { name, expression: Some(expression), place: 0 });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    outputs.push(Output { name: Some(name_of(alias)), expression: Some(expr), place: 0 });
                }
                SelectItem::Wildcard(options) if clauses::is_plain(options) => outputs.extend(self.all()),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                    if clauses::is_plain(options) && single_name(name).as_ref() == Some(&self.alias) =>
                {
                    outputs.extend(self.all());
                }
                _ => {
                    return Err(CustomSqlError::new(
                        position,
                        "Only expressions, AS with one name, and * are allowed here.",
                    ));
                }
            }
            // `SELECT *, *` has twice as many as what it reads, and so may the next.
            if outputs.len() > COLUMNS_MAX {
                return Err(CustomSqlError::new(position, format!("A query has at most {COLUMNS_MAX} columns.")));
            }
        }
        Ok(outputs)
    }

    fn all<'q>(&self) -> impl Iterator<Item = Output<'q>> {
        let visible = self.columns.iter().enumerate().filter(|(_, column)| column.name.is_some());
        visible.map(|(place, column)| Output { name: column.name.clone(), expression: None, place })
    }
}

fn excerpt_list(names: &[&str]) -> String {
    const NAMES_MAX: usize = 12;
    names.iter().take(NAMES_MAX).map(|name| excerpt(name)).collect::<Vec<_>>().join(", ")
}
