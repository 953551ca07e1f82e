//! Signs between two expressions.

use sqlparser::ast::{BinaryOperator, Expr, Value};

use super::literal::{self, Typed};
use super::type_rule::refuse_uncomparable;
use super::{Compiler, Stage};
use crate::custom_sql::program::{Arithmetic, Comparison, Expression, Type};
use crate::custom_sql::refusal::{CustomSqlError, Position};

impl Compiler {
    pub(super) fn binary(
        &mut self,
        stage: &mut Stage<'_>,
        left: &Expr,
        operator: &BinaryOperator,
        right: &Expr,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let compared = match operator {
            BinaryOperator::Eq => Some(Comparison::Equal),
            BinaryOperator::NotEq => Some(Comparison::NotEqual),
            BinaryOperator::Lt => Some(Comparison::Less),
            BinaryOperator::LtEq => Some(Comparison::LessOrEqual),
            BinaryOperator::Gt => Some(Comparison::Greater),
            BinaryOperator::GtEq => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        if let Some(comparison) = compared {
            let (of, mut sides) = self.alike(stage, [left, right].into_iter(), position)?;
            refuse_uncomparable(of, position)?;
            let (Some(right), Some(left)) = (sides.pop(), sides.pop()) else {
                return Err(CustomSqlError::new(position, "A comparison has two sides."));
            };
            return Ok(Typed::new(Expression::Compare(comparison, of, Box::new(left), Box::new(right)), Type::Bool));
        }
        match operator {
            BinaryOperator::And => self.all_of(stage, left, right, BinaryOperator::And, position).map(Expression::And),
            BinaryOperator::Or => self.all_of(stage, left, right, BinaryOperator::Or, position).map(Expression::Or),
            BinaryOperator::Plus => return self.add(stage, left, right, 1, position),
            BinaryOperator::Minus => return self.add(stage, left, right, -1, position),
            BinaryOperator::Multiply => return self.arithmetic(stage, left, Arithmetic::Multiply, right, position),
            BinaryOperator::Divide => return self.arithmetic(stage, left, Arithmetic::Divide, right, position),
            BinaryOperator::LongArrow => return self.property(stage, left, right, position),
            _ => Err(CustomSqlError::new(
                position,
                "Allowed between two values are + - * / = <> < <= > >= AND, OR and ->>.",
            )),
        }
        .map(|condition| Typed::new(condition, Type::Bool))
    }

    /// The conditions that one AND or OR after another connects.
    fn all_of(
        &mut self,
        stage: &mut Stage<'_>,
        left: &Expr,
        right: &Expr,
        connective: BinaryOperator,
        position: Option<Position>,
    ) -> Result<Vec<Expression>, CustomSqlError> {
        let mut conditions = vec![right];
        let mut rest = left;
        while let Expr::BinaryOp { left, op, right } = rest
            && *op == connective
        {
            conditions.push(right);
            rest = left;
        }
        conditions.push(rest);
        let compiled = conditions
            .into_iter()
            .rev()
            .map(|condition| self.expression(stage, condition, position)?.expect(Type::Bool, position));
        compiled.collect()
    }

    /// Two numbers added or subtracted, or a time moved by an interval.
    fn add(
        &mut self,
        stage: &mut Stage<'_>,
        left: &Expr,
        right: &Expr,
        sign: i64,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let (time, interval) = match (left, right) {
            (time, Expr::Interval(interval)) => (time, interval),
            (Expr::Interval(interval), time) if sign == 1 => (time, interval),
            _ => {
                let operator = if sign == 1 { Arithmetic::Add } else { Arithmetic::Subtract };
                return self.arithmetic(stage, left, operator, right, position);
            }
        };
        let time = self.expression(stage, time, position)?.expect(Type::Time, position)?;
        let microseconds = sign * literal::interval(interval, position)?;
        Ok(Typed::new(Expression::Shift(Box::new(time), microseconds), Type::Time))
    }

    fn arithmetic(
        &mut self,
        stage: &mut Stage<'_>,
        left: &Expr,
        operator: Arithmetic,
        right: &Expr,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let left = self.expression(stage, left, position)?.expect(Type::Number, position)?;
        let right = self.expression(stage, right, position)?.expect(Type::Number, position)?;
        Ok(Typed::new(Expression::Arithmetic(operator, Box::new(left), Box::new(right)), Type::Number))
    }

    fn property(
        &mut self,
        stage: &mut Stage<'_>,
        properties: &Expr,
        name: &Expr,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let name = match name {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(name) => Some(name.clone()),
                _ => None,
            },
            _ => None,
        };
        let properties = self.expression(stage, properties, position)?;
        match (properties, name) {
            (Typed { expression: Expression::Column(column), of: Some(Type::Properties) }, Some(name)) => {
                Ok(Typed::new(Expression::Property { column, name }, Type::Text))
            }
            _ => Err(CustomSqlError::new(position, "->> is written properties ->> 'name', with the name as a 'text'.")),
        }
    }
}
