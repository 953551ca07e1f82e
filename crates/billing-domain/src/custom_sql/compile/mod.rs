//! From the parser's syntax tree to a [`Program`]: names become places, every value gets a type, and whatever the
//! language does not have is refused where it stands.

mod call;
mod clauses;
mod expression;
mod literal;
mod operator;
mod scope;

use sqlparser::ast::{Expr, Query, SetExpr, Spanned, With};

use self::clauses::{only_query, only_select};
use self::scope::{Known, Scope};
use super::program::{Expression, Program, Select, Source, Type};
use super::refusal::{CustomSqlError, Position};

/// Most expressions of a program.
pub const NODES_MAX: usize = 500;
/// How deep expressions and queries may be nested.
pub const DEPTH_MAX: usize = 32;

/// The name that the result must have.
const RESULT: &str = "usage_qty";

/// Compiles one query.
pub(super) fn compile(query: &Query) -> Result<Program, CustomSqlError> {
    let mut compiler = Compiler::default();
    let position = Position::of(query.span());
    let (body, columns) = compiler.query(query, position)?;
    match &columns[..] {
        [Known { name: Some(name), of: Type::Number }] if name == RESULT => {}
        [Known { name: Some(name), .. }] if name == RESULT => {
            return Err(CustomSqlError::new(position, format!("{RESULT} must be a number.")));
        }
        _ => {
            let message = format!("The query must have exactly one column, called {RESULT}: add AS {RESULT}.");
            return Err(CustomSqlError::new(position, message));
        }
    }
    Ok(Program { named: compiler.named, scalars: compiler.scalars, body })
}

/// What has been compiled so far.
#[derive(Default)]
struct Compiler {
    named: Vec<Select>,
    scalars: Vec<Select>,
    /// Names of queries that can be used here, the latest last.
    visible: Vec<(String, usize, Vec<Known>)>,
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
    fn query(&mut self, query: &Query, position: Option<Position>) -> Result<(Select, Vec<Known>), CustomSqlError> {
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
            if name == scope::EVENTS || self.visible.iter().any(|(other, ..)| *other == name) {
                return Err(CustomSqlError::new(position, format!("{name} has two meanings; choose another name.")));
            }
            let (select, columns) = self.query(query, position)?;
            self.visible.push((name, self.named.len(), columns));
            self.named.push(select);
        }
        Ok(())
    }

    fn select(&mut self, select: &sqlparser::ast::Select) -> Result<(Select, Vec<Known>), CustomSqlError> {
        let clauses = only_select(select)?;
        let (source, scope) = self.source(clauses.from)?;
        let filter = clauses.filter.map(|filter| self.condition(&mut Stage::rows(&scope), filter)).transpose()?;
        let outputs = scope.expand(&clauses.outputs)?;
        let is_grouped = !clauses.group_by.is_empty()
            || clauses.having.is_some()
            || outputs.iter().any(|output| output.expression.is_some_and(call::has_aggregate));
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
            columns.push(Known { name: output.name.clone(), of: typed.1 });
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
        Ok((Select { source, filter, group, windows, outputs: compiled }, columns))
    }

    fn condition(&mut self, stage: &mut Stage<'_>, condition: &Expr) -> Result<Expression, CustomSqlError> {
        let position = Position::of(condition.span());
        self.expression(stage, condition, position)?.expect(Type::Bool, position)
    }

    fn source(&mut self, from: clauses::From<'_>) -> Result<(Source, Scope), CustomSqlError> {
        match from {
            clauses::From::Table { name, alias, position } => {
                let alias = alias.unwrap_or_else(|| name.clone());
                if name == scope::EVENTS {
                    return Ok((Source::Events, Scope::of_events(alias)));
                }
                match self.visible.iter().find(|(known, ..)| *known == name) {
                    Some((_, index, columns)) => Ok((Source::Named(*index), Scope::new(alias, columns.clone()))),
                    None => {
                        let name = super::refusal::excerpt(&name);
                        let message =
                            format!("There is no {name}: queries can read events and what WITH names before.");
                        Err(CustomSqlError::new(position, message))
                    }
                }
            }
            clauses::From::Query { query, alias, position } => {
                let (select, columns) = self.query(query, position)?;
                Ok((Source::Derived(Box::new(select)), Scope::new(alias.unwrap_or_default(), columns)))
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
