//! From the parser's syntax tree to a [`Program`]: names become places, every value gets a type, and whatever the
//! language does not have is refused where it stands.

mod aggregate;
mod call;
mod clauses;
mod expression;
mod literal;
mod name;
mod operator;
mod scope;
mod type_rule;

use sqlparser::ast::{Expr, Query, SetExpr, Spanned, With};

use self::clauses::{only_query, only_select};
use self::scope::{Column, Scope};
use super::program::{EVENT_COLUMNS, Expression, Program, Select, Source, Type};
use super::refusal::{CustomSqlError, Position};
use super::size::{self, Sizes};
use crate::error::WRITTEN_OUT_MAX;

/// Most expressions of a program.
pub const NODES_MAX: usize = 500;
/// How deep expressions and queries may be nested.
pub const DEPTH_MAX: usize = 32;

/// The name that the result must have.
const RESULT: &str = "usage_qty";

/// What a query means, and whether it is small enough to be taken.
pub(super) struct Compiled {
    pub program: Program,
    /// How many parts it has with every name replaced by what it stands for.
    pub written_out: u64,
    /// Where it passes [`WRITTEN_OUT_MAX`], if it does.
    pub size: Result<(), CustomSqlError>,
}

/// Compiles one query.
pub(super) fn compile(query: &Query) -> Result<Compiled, CustomSqlError> {
    let mut compiler = Compiler::default();
    let position = Position::of(query.span());
    let CompiledSelect { select: body, columns, sizes } = compiler.query(query, position)?;
    match &columns[..] {
        [Column { name: Some(name), of: Type::Number }] if name == RESULT => {}
        [Column { name: Some(name), .. }] if name == RESULT => {
            return Err(CustomSqlError::new(position, format!("{RESULT} must be a number.")));
        }
        _ => {
            let message = format!("The query must have exactly one column, called {RESULT}: add AS {RESULT}.");
            return Err(CustomSqlError::new(position, message));
        }
    }
    let program = Program { named: compiler.named, scalars: compiler.scalars, body };
    Ok(Compiled { program, written_out: sizes.whole, size: compiler.too_large.map_or(Ok(()), Err) })
}

/// A query that was compiled.
struct CompiledSelect {
    select: Select,
    columns: Vec<Column>,
    sizes: Sizes,
}

/// A query that has a name.
struct Visible {
    name: String,
    /// Its place in [`Program::named`].
    place: usize,
    columns: Vec<Column>,
    sizes: Sizes,
}

/// What has been compiled so far.
#[derive(Default)]
struct Compiler {
    named: Vec<Select>,
    scalars: Vec<Select>,
    /// How large each of them is, written out.
    scalar_sizes: Vec<u64>,
    /// Queries that can be used here by their names, the latest last.
    visible: Vec<Visible>,
    /// Where the query becomes too large.
    too_large: Option<CustomSqlError>,
    nodes: usize,
    depth: usize,
}

impl Compiler {
    /// Counts one more part of the program, one level further in.
    fn enter(&mut self, position: Option<Position>) -> Result<(), CustomSqlError> {
        self.nodes += 1;
        self.depth += 1;
        if self.nodes > NODES_MAX {
            return Err(CustomSqlError::new(position, format!("A query has at most {NODES_MAX} parts.")));
        }
        if self.depth > DEPTH_MAX {
            return Err(CustomSqlError::new(position, format!("Parts of a query may be nested {DEPTH_MAX} deep.")));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// A query and the columns that come out of it.
    fn query(&mut self, query: &Query, position: Option<Position>) -> Result<CompiledSelect, CustomSqlError> {
        self.enter(position)?;
        let visible_before = self.visible.len();
        let (with, body) = only_query(query, position)?;
        if let Some(with) = with {
            self.with(with)?;
        }
        let compiled = match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(inner) => self.query(inner, position),
            _ => Err(CustomSqlError::new(
                position,
                "Only a single SELECT is allowed here: no UNION, no VALUES, no change.",
            )),
        }?;
        self.visible.truncate(visible_before);
        self.leave();
        Ok(compiled)
    }

    fn with(&mut self, with: &With) -> Result<(), CustomSqlError> {
        for (name, query, position) in clauses::only_with(with)? {
            if name == scope::EVENTS || self.visible.iter().any(|other| other.name == name) {
                return Err(CustomSqlError::new(position, format!("{name} has two meanings; choose another name.")));
            }
            let CompiledSelect { select, columns, sizes } = self.query(query, position)?;
            self.visible.push(Visible { name, place: self.named.len(), columns, sizes });
            self.named.push(select);
        }
        Ok(())
    }

    fn select(&mut self, select: &sqlparser::ast::Select) -> Result<CompiledSelect, CustomSqlError> {
        let clauses = only_select(select)?;
        let (source, scope, source_sizes) = self.source(clauses.from)?;
        let filter = clauses.filter.map(|filter| self.condition(&mut Stage::rows(&scope), filter)).transpose()?;
        let outputs = scope.expand(&clauses.outputs)?;
        let is_grouped = !clauses.group_by.is_empty()
            || clauses.having.is_some()
            || outputs.iter().any(|output| output.expression.is_some_and(aggregate::has_aggregate));
        let mut grouping = is_grouped.then(|| self.grouping(&scope, clauses.group_by, &outputs)).transpose()?;
        let mut windows = Vec::new();
        let mut compiled = Vec::new();
        let mut columns = Vec::new();
        for output in &outputs {
            let mut stage = Stage { scope: &scope, grouping: grouping.as_mut(), windows: Some(&mut windows) };
            let typed = match output.expression {
                Some(expression) => self.expression(&mut stage, expression, clauses.position)?.settled(),
                None => scope.column(output.place),
            };
            columns.push(Column { name: output.name.clone(), of: typed.1 });
            compiled.push(typed.0);
        }
        if let Some(having) = clauses.having {
            let mut stage = Stage { scope: &scope, grouping: grouping.as_mut(), windows: None };
            let having = self.condition(&mut stage, having)?;
            if let Some(grouping) = &mut grouping {
                grouping.group.having = Some(having);
            }
        }
        let group = grouping.map(|grouping| grouping.group);
        let select = Select { source, filter, group, windows, outputs: compiled };
        let sizes = size::of_select(&select, &source_sizes, &self.scalar_sizes);
        self.note_size(&sizes, &outputs, clauses.position);
        Ok(CompiledSelect { select, columns, sizes })
    }

    /// Remembers the first place at which the query is too large: a column if it is for that, otherwise the query around.
    fn note_size(&mut self, sizes: &Sizes, outputs: &[scope::Output<'_>], position: Option<Position>) {
        if self.too_large.is_some() || sizes.whole <= WRITTEN_OUT_MAX {
            return;
        }
        let column = sizes.columns.iter().zip(outputs).find(|(size, _)| **size > WRITTEN_OUT_MAX);
        let written = column.and_then(|(_, output)| Position::of(output.expression?.span()));
        let message = format!(
            "From here on the query has more than {WRITTEN_OUT_MAX} parts, counted with what each name stands for in place of the \
             name. A column that is computed from others counts in full wherever it is used."
        );
        self.too_large = Some(CustomSqlError::new(written.or(position), message));
    }

    fn condition(&mut self, stage: &mut Stage<'_>, condition: &Expr) -> Result<Expression, CustomSqlError> {
        let position = Position::of(condition.span());
        self.expression(stage, condition, position)?.expect(Type::Bool, position)
    }

    fn source(&mut self, from: clauses::From<'_>) -> Result<(Source, Scope, Sizes), CustomSqlError> {
        match from {
            clauses::From::Table { name, alias, position } => {
                let alias = alias.unwrap_or_else(|| name.clone());
                if name == scope::EVENTS {
                    return Ok((Source::Events, Scope::of_events(alias), Sizes::plain(EVENT_COLUMNS.len())));
                }
                match self.visible.iter().find(|known| known.name == name) {
                    Some(Visible { place, columns, sizes, .. }) => {
                        Ok((Source::Named(*place), Scope::new(alias, columns.clone()), sizes.clone()))
                    }
                    None => {
                        let name = super::refusal::excerpt(&name);
                        let message =
                            format!("There is no {name}: queries can read events and what WITH names before.");
                        Err(CustomSqlError::new(position, message))
                    }
                }
            }
            clauses::From::Query { query, alias, position } => {
                let CompiledSelect { select, columns, sizes } = self.query(query, position)?;
                Ok((Source::Derived(Box::new(select)), Scope::new(alias.unwrap_or_default(), columns), sizes))
            }
        }
    }
}

/// What an expression can see.
struct Stage<'s> {
    /// The columns of the source.
    scope: &'s Scope,
    /// There when the expression is about groups of rows.
    grouping: Option<&'s mut Grouping>,
    /// There where windows may be used.
    windows: Option<&'s mut Vec<super::program::Window>>,
}

impl<'s> Stage<'s> {
    /// Rows of the source, one by one.
    fn rows(scope: &'s Scope) -> Self {
        Self { scope, grouping: None, windows: None }
    }
}

/// The groups of a query at work.
struct Grouping {
    /// The keys as they were written.
    written: Vec<Expr>,
    /// The types of the keys.
    types: Vec<Type>,
    /// The same compiled, and the aggregates found so far.
    group: super::program::Group,
}
