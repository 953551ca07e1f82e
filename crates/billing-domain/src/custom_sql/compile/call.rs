//! Functions: three for values, five aggregates, and windows.

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByExpr, OrderByOptions,
    OrderBySort, Spanned, Value, WindowSpec, WindowType,
};

use super::literal::Typed;
use super::name::single_name;
use super::type_rule::{refuse_properties, refuse_uncomparable};
use super::{Compiler, Stage};
use crate::custom_sql::program::{
    Aggregate, AggregateFunction, DateUnit, Expression, ID_COLUMN, Order, TIME_COLUMN, Type, Window, WindowFunction,
};
use crate::custom_sql::refusal::{CustomSqlError, Position, excerpt};

const FUNCTIONS: &str = "Allowed are COUNT, SUM, MIN, MAX, AVG, COALESCE and date_trunc, and over a window RANK, DENSE_RANK and ROW_NUMBER.";

/// What stands between the brackets of a call.
struct Arguments<'q> {
    values: Vec<&'q Expr>,
    is_star: bool,
    is_distinct: bool,
}

fn arguments(function: &Function, position: Option<Position>) -> Result<Arguments<'_>, CustomSqlError> {
    let Function { name: _, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over: _ } =
        function;
    let refused =
        || CustomSqlError::new(position, "A call has values between its brackets, and COUNT may have DISTINCT.");
    let is_plain = !uses_odbc_syntax
        && *parameters == FunctionArguments::None
        && within_group.is_empty()
        && filter.is_none()
        && null_treatment.is_none();
    let FunctionArguments::List(list) = args else { return Err(refused()) };
    if !is_plain || !list.clauses.is_empty() {
        return Err(refused());
    }
    let mut read = Arguments { values: Vec::new(), is_star: false, is_distinct: false };
    read.is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => read.values.push(expression),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => read.is_star = true,
            _ => return Err(refused()),
        }
    }
    if read.is_star && (read.is_distinct || list.args.len() > 1) {
        return Err(refused());
    }
    Ok(read)
}

impl Compiler {
    /// A call of a function.
    pub(super) fn call(
        &mut self,
        stage: &mut Stage<'_>,
        function: &Function,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let name = single_name(&function.name);
        let Some(name) = name.filter(|name| is_known(name)) else {
            let message = format!("{} is not allowed. {FUNCTIONS}", excerpt(&function.name.to_string()));
            return Err(CustomSqlError::new(position, message));
        };
        let arguments = arguments(function, position)?;
        if let Some(over) = &function.over {
            return self.window(stage, &name, &arguments, over, position);
        }
        match (&*name, &arguments.values[..], arguments.is_star || arguments.is_distinct) {
            ("coalesce", values @ [_, ..], false) => {
                let (of, values) = self.alike(stage, values.iter().copied(), position)?;
                refuse_properties(of, position)?;
                Ok(Typed::new(Expression::Coalesce(values), of))
            }
            ("date_trunc", [unit, time], false) => self.date_trunc(stage, unit, time, position),
            ("count" | "sum" | "min" | "max" | "avg", ..) => {
                let aggregate = self.aggregate_of_rows(stage, &name, &arguments, position)?;
                let of = aggregate.result();
                let Some(grouping) = &mut stage.grouping else {
                    let message =
                        "An aggregate is not allowed here: not in WHERE or GROUP BY, and not inside another one.";
                    return Err(CustomSqlError::new(position, message));
                };
                let known = grouping.group.aggregates.iter().position(|known| *known == aggregate);
                let place = known.unwrap_or_else(|| {
                    grouping.group.aggregates.push(aggregate);
                    grouping.group.aggregates.len() - 1
                });
                Ok(Typed::new(Expression::Column(grouping.group.keys.len() + place), of))
            }
            ("rank" | "dense_rank" | "row_number", ..) => {
                Err(CustomSqlError::new(position, format!("{name} needs OVER (..).")))
            }
            _ => Err(CustomSqlError::new(position, format!("{name} takes other values. {FUNCTIONS}"))),
        }
    }

    fn date_trunc(
        &mut self,
        stage: &mut Stage<'_>,
        unit: &Expr,
        time: &Expr,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        let unit = match unit {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(unit) => {
                    DateUnit::ALL.iter().find(|known| unit.eq_ignore_ascii_case(known.as_str()))
                }
                _ => None,
            },
            _ => None,
        };
        let Some(unit) = unit else {
            let message = "The unit is 'second', 'minute', 'hour', 'day', 'week', 'month', 'quarter' or 'year'.";
            return Err(CustomSqlError::new(position, message));
        };
        let time = self.expression(stage, time, position)?.expect(Type::Time, position)?;
        Ok(Typed::new(Expression::DateTrunc(*unit, Box::new(time)), Type::Time))
    }

    /// An aggregate whose argument is about the rows of the source.
    fn aggregate_of_rows(
        &mut self,
        stage: &Stage<'_>,
        name: &str,
        arguments: &Arguments<'_>,
        position: Option<Position>,
    ) -> Result<Aggregate, CustomSqlError> {
        self.aggregate(&mut Stage::rows(stage.scope), name, arguments, position)
    }

    fn aggregate(
        &mut self,
        stage: &mut Stage<'_>,
        name: &str,
        arguments: &Arguments<'_>,
        position: Option<Position>,
    ) -> Result<Aggregate, CustomSqlError> {
        let function = match (name, arguments.is_distinct) {
            ("count", false) => AggregateFunction::Count,
            ("count", true) => AggregateFunction::CountDistinct,
            ("sum", false) => AggregateFunction::Sum,
            ("avg", false) => AggregateFunction::Average,
            ("min", _) => AggregateFunction::Min,
            ("max", _) => AggregateFunction::Max,
            _ => return Err(CustomSqlError::new(position, "DISTINCT is for COUNT alone.")),
        };
        let argument = match (&arguments.values[..], arguments.is_star) {
            ([], true) if function == AggregateFunction::Count => {
                return Ok(Aggregate { function, argument: None, of: Type::Bool });
            }
            ([argument], false) => *argument,
            _ => return Err(CustomSqlError::new(position, format!("{name} takes one value, and COUNT also *."))),
        };
        let typed = self.expression(stage, argument, position)?;
        let (argument, of) = match function {
            AggregateFunction::Sum | AggregateFunction::Average => {
                (typed.expect(Type::Number, position)?, Type::Number)
            }
            _ => typed.settled(),
        };
        match function {
            AggregateFunction::Count => refuse_properties(of, position)?,
            _ => refuse_uncomparable(of, position)?,
        }
        Ok(Aggregate { function, argument: Some(argument), of })
    }

    fn window(
        &mut self,
        stage: &mut Stage<'_>,
        name: &str,
        arguments: &Arguments<'_>,
        over: &WindowType,
        position: Option<Position>,
    ) -> Result<Typed, CustomSqlError> {
        if stage.windows.is_none() {
            return Err(not_here(position));
        }
        let WindowType::WindowSpec(WindowSpec { window_name: None, partition_by, order_by, window_frame: None }) = over
        else {
            let message = "OVER (..) has PARTITION BY and ORDER BY; windows with a name and frames are not allowed.";
            return Err(CustomSqlError::new(position, message));
        };
        // What is inside sees what the query sees, but no other window.
        let mut inside = Stage { scope: stage.scope, grouping: stage.grouping.as_deref_mut(), windows: None };
        let is_bare = arguments.values.is_empty() && !arguments.is_star && !arguments.is_distinct;
        let function = match name {
            "rank" if is_bare => WindowFunction::Rank,
            "dense_rank" if is_bare => WindowFunction::DenseRank,
            "row_number" if is_bare => WindowFunction::RowNumber,
            "count" | "sum" | "min" | "max" | "avg" if !arguments.is_distinct => {
                WindowFunction::Aggregate(self.aggregate(&mut inside, name, arguments, position)?)
            }
            _ => {
                return Err(CustomSqlError::new(position, format!("{name} is not allowed over a window. {FUNCTIONS}")));
            }
        };
        let mut partition = Vec::new();
        for key in partition_by {
            let (key, of) = self.expression(&mut inside, key, position)?.settled();
            refuse_uncomparable(of, position)?;
            partition.push(key);
        }
        let mut order = order_by
            .iter()
            .map(|order| self.order(&mut inside, order, position))
            .collect::<Result<Vec<_>, CustomSqlError>>()?;
        if function == WindowFunction::RowNumber {
            if !stage.scope.is_events || stage.grouping.is_some() {
                let message = "ROW_NUMBER counts events: use it in a query FROM events without GROUP BY, or use RANK.";
                return Err(CustomSqlError::new(position, message));
            }
            order.extend([(TIME_COLUMN, Type::Time), (ID_COLUMN, Type::Text)].map(|(column, of)| Order {
                by: Expression::Column(column),
                of,
                descending: false,
                nulls_first: false,
            }));
        }
        let of = match &function {
            WindowFunction::Aggregate(aggregate) => aggregate.result(),
            _ => Type::Number,
        };
        let Some(windows) = &mut stage.windows else { return Err(not_here(position)) };
        windows.push(Window { function, partition, order });
        Ok(Typed::new(Expression::Windowed(windows.len() - 1), of))
    }

    fn order(
        &mut self,
        stage: &mut Stage<'_>,
        order: &OrderByExpr,
        outer: Option<Position>,
    ) -> Result<Order, CustomSqlError> {
        let OrderByExpr { expr, options: OrderByOptions { sort, nulls_first }, with_fill } = order;
        let position = Position::of(order.span()).or(outer);
        let descending = match sort {
            None | Some(OrderBySort::Asc) => false,
            Some(OrderBySort::Desc) => true,
            Some(OrderBySort::Using(_)) => return Err(CustomSqlError::new(position, "ORDER BY takes ASC or DESC.")),
        };
        if with_fill.is_some() {
            return Err(CustomSqlError::new(position, "WITH FILL is not allowed."));
        }
        let (by, of) = self.expression(stage, expr, position)?.settled();
        refuse_uncomparable(of, position)?;
        // Null is greater than everything else.
        Ok(Order { by, of, descending, nulls_first: nulls_first.unwrap_or(descending) })
    }
}

fn not_here(position: Option<Position>) -> CustomSqlError {
    CustomSqlError::new(position, "OVER is allowed in the columns of SELECT alone, and not inside another OVER.")
}

fn is_known(name: &str) -> bool {
    const NAMES: [&str; 10] =
        ["avg", "coalesce", "count", "date_trunc", "dense_rank", "max", "min", "rank", "row_number", "sum"];
    NAMES.contains(&name)
}
