//! Where aggregates stand.

use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, WindowType};

use super::name::single_name;

/// Whether an expression has an aggregate outside of the queries in it.
pub(super) fn has_aggregate(expression: &Expr) -> bool {
    let any = |all: &[&Expr]| all.iter().any(|each| has_aggregate(each));
    match expression {
        Expr::Function(function) => is_aggregate(function) || parts(function).into_iter().any(has_aggregate),
        Expr::Nested(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) => has_aggregate(inner),
        Expr::UnaryOp { expr, .. } | Expr::Cast { expr, .. } | Expr::Like { expr, .. } => has_aggregate(expr),
        Expr::BinaryOp { left, right, .. } => any(&[left, right]),
        Expr::Between { expr, low, high, .. } => any(&[expr, low, high]),
        Expr::InList { expr, list, .. } => has_aggregate(expr) || list.iter().any(has_aggregate),
        Expr::Case { operand, conditions, else_result, .. } => {
            operand.iter().chain(else_result).any(|each| has_aggregate(each))
                || conditions.iter().any(|branch| any(&[&branch.condition, &branch.result]))
        }
        _ => false,
    }
}

/// Whether a call is an aggregate of the query it stands in.
fn is_aggregate(function: &Function) -> bool {
    let name = single_name(&function.name).unwrap_or_default();
    function.over.is_none() && matches!(&*name, "count" | "sum" | "min" | "max" | "avg")
}

/// The expressions inside a call.
fn parts(function: &Function) -> Vec<&Expr> {
    let mut parts = Vec::new();
    if let FunctionArguments::List(list) = &function.args {
        for argument in &list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) = argument {
                parts.push(expression);
            }
        }
    }
    if let Some(WindowType::WindowSpec(window)) = &function.over {
        parts.extend(&window.partition_by);
        parts.extend(window.order_by.iter().map(|order| &order.expr));
    }
    parts
}
