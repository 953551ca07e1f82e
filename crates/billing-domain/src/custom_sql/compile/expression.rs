//! Expressions: each becomes a typed one, or is refused where it stands.

use sqlparser::ast::{CaseWhen, CastKind, Expr, Spanned, UnaryOperator, Value};

use super::literal::{self, Typed};
use super::name::name_of;
use super::type_rule::{refuse_properties, refuse_uncomparable};
use super::{CompiledSelect, Compiler, Grouping, Stage, scope};
use crate::custom_sql::program::{Conversion, Expression, Group, Type};
use crate::custom_sql::refusal::{CustomSqlError, Position, excerpt};

const ALLOWED: &str = "Allowed are columns, properties ->> 'name', literals, + - * /, comparisons, AND, OR, NOT, IN, BETWEEN, \
     LIKE, IS NULL, CASE, COALESCE, CAST, date_trunc, COUNT, SUM, MIN, MAX, AVG, OVER, and queries in brackets.";

impl Compiler {
    /// An expression; `outer` is where what holds it stands.
    pub(super) fn expression(
        &mut self,
        stage: &mut Stage<'_>,
        expression: &Expr,
        outer: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let position = Position::of(expression.span()).or(outer);
        self.enter(position)?;
        let compiled = match key_of(stage, expression) {
            Some(key) => key,
            None => self.inner(stage, expression, position)?,
        };
        self.leave();
        Ok(compiled)
    }

    fn inner(
        &mut self,
        stage: &mut Stage<'_>,
        expression: &Expr,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        match expression {
            Expr::Nested(inner) => self.expression(stage, inner, position),
            Expr::Identifier(name) => column(stage, std::slice::from_ref(name), position),
            Expr::CompoundIdentifier(names) => column(stage, names, position),
            Expr::Value(value) => literal::literal(&value.value, position),
            Expr::TypedString(typed) if !typed.uses_odbc_syntax => {
                let of = literal::cast_type(&typed.data_type, position)?;
                let text = literal::literal(&typed.value.value, position)?;
                Ok(Typed::new(text.expect(of, position)?, of))
            }
            Expr::UnaryOp { op, expr } => self.unary(stage, *op, expr, position),
            Expr::BinaryOp { left, op, right } => self.binary(stage, left, op, right, position),
            Expr::IsNull(inner) => self.is_null(stage, inner, position),
            Expr::IsNotNull(inner) => Ok(not(self.is_null(stage, inner, position)?.expression)),
            Expr::InList { expr, list, negated } => {
                self.in_list(stage, expr, list, position).map(|it| flip(it, *negated))
            }
            Expr::Between { expr, negated, low, high } => {
                self.between(stage, [expr, low, high], position).map(|it| flip(it, *negated))
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(stage, expr, pattern, position).map(|it| flip(it, *negated))
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(stage, operand.as_deref(), conditions, else_result.as_deref(), position)
            }
            Expr::Cast { kind, expr, data_type, format: None } => {
                let to = literal::cast_type(data_type, position)?;
                let value = self.expression(stage, expr, position)?;
                cast(value, to, matches!(kind, CastKind::TryCast), position)
            }
            Expr::Function(function) => self.call(stage, function, position),
            Expr::Subquery(query) => self.scalar(query, position),
            Expr::InSubquery { .. } | Expr::Exists { .. } => {
                Err(CustomSqlError::new(position, format!("IN and EXISTS take no query. {ALLOWED}")))
            }
            _ => Err(CustomSqlError::new(position, format!("This expression is not allowed. {ALLOWED}"))),
        }
    }

    fn unary(
        &mut self,
        stage: &mut Stage<'_>,
        operator: UnaryOperator,
        operand: &Expr,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let operand = self.expression(stage, operand, position)?;
        match operator {
            UnaryOperator::Not => Ok(not(operand.expect(Type::Bool, position)?)),
            UnaryOperator::Minus => {
                let negated = Expression::Negate(Box::new(operand.expect(Type::Number, position)?));
                Ok(Typed::new(negated, Type::Number))
            }
            UnaryOperator::Plus => Ok(Typed::new(operand.expect(Type::Number, position)?, Type::Number)),
            _ => Err(CustomSqlError::new(position, format!("This sign is not allowed here. {ALLOWED}"))),
        }
    }

    fn is_null(
        &mut self,
        stage: &mut Stage<'_>,
        inner: &Expr,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let (inner, of) = self.expression(stage, inner, position)?.settled();
        refuse_properties(of, position)?;
        Ok(Typed::new(Expression::IsNull(Box::new(inner)), Type::Bool))
    }

    fn in_list(
        &mut self,
        stage: &mut Stage<'_>,
        needle: &Expr,
        list: &[Expr],
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let (of, mut all) = self.alike(stage, std::iter::once(needle).chain(list), position)?;
        refuse_uncomparable(of, position)?;
        let needle = all.remove(0);
        Ok(Typed::new(Expression::In(of, Box::new(needle), all), Type::Bool))
    }

    fn between(
        &mut self,
        stage: &mut Stage<'_>,
        parts: [&Expr; 3],
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let (of, all) = self.alike(stage, parts.into_iter(), position)?;
        refuse_uncomparable(of, position)?;
        let parts: [Expression; 3] =
            all.try_into().map_err(|_| CustomSqlError::new(position, "BETWEEN takes three values."))?;
        Ok(Typed::new(Expression::Between(of, Box::new(parts)), Type::Bool))
    }

    fn like(
        &mut self,
        stage: &mut Stage<'_>,
        text: &Expr,
        pattern: &Expr,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        const CHARACTERS_MAX: usize = 200;
        let text = self.expression(stage, text, position)?.expect(Type::Text, position)?;
        let pattern = match pattern {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(pattern) => pattern,
                _ => return Err(CustomSqlError::new(position, "LIKE takes a 'text' as its form.")),
            },
            _ => return Err(CustomSqlError::new(position, "LIKE takes a 'text' as its form.")),
        };
        let backslashes = pattern.chars().rev().take_while(|character| *character == '\\').count();
        if backslashes % 2 == 1 || pattern.chars().count() > CHARACTERS_MAX {
            let message =
                format!("A form has at most {CHARACTERS_MAX} characters, and none after its last \\ is missing.");
            return Err(CustomSqlError::new(position, message));
        }
        Ok(Typed::new(Expression::Like(Box::new(text), pattern.clone()), Type::Bool))
    }

    fn case(
        &mut self,
        stage: &mut Stage<'_>,
        operand: Option<&Expr>,
        branches: &[CaseWhen],
        otherwise: Option<&Expr>,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let results = branches.iter().map(|branch| &branch.result).chain(otherwise);
        let (of, mut results) = self.alike(stage, results, position)?;
        refuse_properties(of, position)?;
        let otherwise = match otherwise {
            Some(_) => results.pop().unwrap_or(Expression::Null(of)),
            None => Expression::Null(of),
        };
        let conditions = branches.iter().map(|branch| &branch.condition);
        let expression = match operand {
            None => {
                let conditions = conditions
                    .map(|condition| self.expression(stage, condition, position)?.expect(Type::Bool, position))
                    .collect::<Result<Vec<_>, _>>()?;
                Expression::Case(conditions.into_iter().zip(results).collect(), Box::new(otherwise))
            }
            Some(operand) => {
                let (compared, mut values) = self.alike(stage, std::iter::once(operand).chain(conditions), position)?;
                refuse_uncomparable(compared, position)?;
                let operand = Box::new(values.remove(0));
                Expression::CaseOf(compared, operand, values.into_iter().zip(results).collect(), Box::new(otherwise))
            }
        };
        Ok(Typed::new(expression, of))
    }

    /// Expressions that must have one type; those without any take on that of the others, or are texts.
    pub(super) fn alike<'e>(
        &mut self,
        stage: &mut Stage<'_>,
        expressions: impl Iterator<Item = &'e Expr>,
        position: Option<Position>,
    ) -> Result<(Type, Vec<Expression>), CustomSqlError> {
        let typed = expressions.map(|each| self.expression(stage, each, position)).collect::<Result<Vec<_>, _>>()?;
        let of = typed.iter().find_map(|each| each.of).unwrap_or(Type::Text);
        let expressions = typed.into_iter().map(|each| each.expect(of, position)).collect::<Result<_, _>>()?;
        Ok((of, expressions))
    }

    /// A query in brackets that is one value.
    fn scalar(&mut self, query: &sqlparser::ast::Query, position: Option<Position>) -> Result<Typed, CustomSqlError> {
        let CompiledSelect { select, columns, sizes } = self.query(query, position)?;
        let is_one_row = select.group.as_ref().is_some_and(|group| group.keys.is_empty());
        let ([column], true) = (&columns[..], is_one_row) else {
            let message = "A query in brackets has one column and one row: an aggregate without GROUP BY.";
            return Err(CustomSqlError::new(position, message));
        };
        refuse_properties(column.of, position)?;
        self.scalars.push(select);
        self.scalar_sizes.push(sizes.whole);
        Ok(Typed::new(Expression::Scalar(self.scalars.len() - 1), column.of))
    }

    /// The keys of GROUP BY, each of which may be a column of the output by name or number.
    pub(super) fn grouping(
        &mut self,
        scope: &scope::Scope,
        group_by: &[Expr],
        outputs: &[scope::Output<'_>],
    ) -> Result<Grouping, CustomSqlError> {
        let group = Group { keys: Vec::new(), aggregates: Vec::new(), having: None };
        let mut grouping = Grouping { written: Vec::new(), types: Vec::new(), group };
        for key in group_by {
            let position = Position::of(key.span());
            let key = bare(written_key(scope, key, outputs));
            let (expression, of) = self.expression(&mut Stage::rows(scope), key, position)?.settled();
            refuse_properties(of, position)?;
            grouping.written.push(key.clone());
            grouping.types.push(of);
            grouping.group.keys.push(expression);
        }
        Ok(grouping)
    }
}

/// What a key of GROUP BY stands for.
fn written_key<'q>(scope: &scope::Scope, key: &'q Expr, outputs: &[scope::Output<'q>]) -> &'q Expr {
    let found = match key {
        Expr::Value(value) => match &value.value {
            Value::Number(number, false) => {
                number.parse::<usize>().ok().and_then(|number| outputs.get(number.checked_sub(1)?))
            }
            _ => None,
        },
        Expr::Identifier(name) if !scope.has(&name_of(name)) => {
            outputs.iter().find(|output| output.name == Some(name_of(name)))
        }
        _ => None,
    };
    found.and_then(|output| output.expression).unwrap_or(key)
}

/// An expression without the brackets around it.
fn bare(mut expression: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    expression
}

/// The key of the group that an expression is.
fn key_of(stage: &Stage<'_>, expression: &Expr) -> Option<Typed> {
    let grouping = stage.grouping.as_ref()?;
    let place = match bare(expression) {
        Expr::Identifier(name) => {
            let column = stage.scope.find(std::slice::from_ref(name), None).ok()?.0;
            grouping.group.keys.iter().position(|key| *key == column)
        }
        Expr::CompoundIdentifier(names) => {
            let column = stage.scope.find(names, None).ok()?.0;
            grouping.group.keys.iter().position(|key| *key == column)
        }
        written => grouping.written.iter().position(|key| key == written),
    }?;
    Some(Typed::new(Expression::Column(place), grouping.types[place]))
}

fn column(
    stage: &Stage<'_>,
    names: &[sqlparser::ast::Ident],
    position: Option<Position>,
) -> Result<Typed, CustomSqlError> {
    let (expression, of) = stage.scope.find(names, position)?;
    if stage.grouping.is_some() {
        let name = names.last().map(|name| excerpt(&name.value)).unwrap_or_default();
        let message = format!("{name} must be in GROUP BY or inside an aggregate.");
        return Err(CustomSqlError::new(position, message));
    }
    Ok(Typed::new(expression, of))
}

fn cast(
    value: Typed,
    to: Type,
    is_null_when_unreadable: bool,
    position: Option<Position>,
) -> Result<Typed, CustomSqlError> {
    let conversion = match (value.of, to) {
        (None, _) if is_null_when_unreadable => {
            return Ok(Typed::new(value.expect(to, position).unwrap_or(Expression::Null(to)), to));
        }
        (None, _) => return Ok(Typed::new(value.expect(to, position)?, to)),
        (Some(of), to) if of == to => return Ok(value),
        (Some(Type::Text), Type::Number) if is_null_when_unreadable => Conversion::TextToNumberOrNull,
        (Some(Type::Text), Type::Number) => Conversion::TextToNumber,
        (Some(Type::Text), Type::Time) => Conversion::TextToTime,
        (Some(Type::Number), Type::Text) => Conversion::NumberToText,
        (Some(Type::Time), Type::Text) => Conversion::TimeToText,
        (Some(of), to) => {
            let (of, to) = (literal::name_of(of), literal::name_of(to));
            return Err(CustomSqlError::new(position, format!("{of} cannot be made into {to}.")));
        }
    };
    Ok(Typed::new(Expression::Cast(conversion, Box::new(value.expression)), to))
}

fn not(condition: Expression) -> Typed {
    Typed::new(Expression::Not(Box::new(condition)), Type::Bool)
}

fn flip(condition: Typed, negated: bool) -> Typed {
    if negated { not(condition.expression) } else { condition }
}
