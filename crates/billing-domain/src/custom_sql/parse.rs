//! From text to the syntax tree of one SELECT, past three walls: length, kinds of token, and nesting.

use sqlparser::ast::{Query, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

use super::refusal::{CustomSqlError, Position, excerpt};

/// Longest text of a custom query, in bytes.
pub const BYTES_MAX: usize = 4_096;
/// Most tokens of a custom query: words, numbers, strings, signs.
pub const TOKENS_MAX: usize = 600;
/// How deep brackets may be nested.
pub const NESTING_MAX: usize = 16;

/// How far the parser goes into a query: its steps take a lot of stack, so this is as much as queries need.
const RECURSION_MAX: usize = 20;

/// The one query that `text` is.
pub(super) fn parse(text: &str) -> Result<Query, CustomSqlError> {
    if text.len() > BYTES_MAX {
        return Err(CustomSqlError::whole(format!("A query has at most {BYTES_MAX} bytes.")));
    }
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text)
        .tokenize_with_location()
        .map_err(|error| CustomSqlError::new(Position::at(error.location), "This cannot be read as SQL."))?;
    check_tokens(&tokens)?;
    let mut parser = Parser::new(&dialect).with_recursion_limit(RECURSION_MAX).with_tokens_with_locations(tokens);
    let mut statements = parser.parse_statements().map_err(unreadable)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => Ok(*query),
        (Some(_), true) => Err(CustomSqlError::whole("Only a SELECT is allowed, or WITH and a SELECT.")),
        (None, _) => Err(CustomSqlError::whole("There is no query.")),
        (Some(_), false) => Err(CustomSqlError::whole("Only one statement is allowed.")),
    }
}

fn unreadable(error: ParserError) -> CustomSqlError {
    CustomSqlError::whole(match error {
        ParserError::RecursionLimitExceeded => "The query is nested too deep.".to_owned(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
            format!("This cannot be read as a SELECT: {}", excerpt_of_message(&message))
        }
    })
}

/// The parser's message, which quotes the text it stumbled over.
fn excerpt_of_message(message: &str) -> String {
    message.chars().take(200).flat_map(char::escape_debug).collect()
}

fn check_tokens(tokens: &[TokenWithSpan]) -> Result<(), CustomSqlError> {
    let (mut count, mut depth) = (0, 0_usize);
    let last = tokens.iter().rposition(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    for (i, TokenWithSpan { token, span }) in tokens.iter().enumerate() {
        let refuse = |message: String| Err(CustomSqlError::new(Position::of(*span), message));
        count += usize::from(!matches!(token, Token::Whitespace(_)));
        if count > TOKENS_MAX {
            return refuse(format!("A query has at most {TOKENS_MAX} words, numbers, strings and signs."));
        }
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::SemiColon if Some(i) == last => {}
            Token::SemiColon => return refuse("Only one statement is allowed.".to_owned()),
            Token::Whitespace(Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)) => {
                return refuse("Comments are not allowed.".to_owned());
            }
            Token::Word(word) if word.keyword == Keyword::JOIN && word.quote_style.is_none() => {
                return refuse("JOIN is not allowed: there is one relation, events.".to_owned());
            }
            other if is_allowed(other) => {}
            other => return refuse(format!("{} is not allowed. {SIGNS_ALLOWED}", excerpt(&other.to_string()))),
        }
        if depth > NESTING_MAX {
            return refuse(format!("Brackets may be nested {NESTING_MAX} deep."));
        }
    }
    Ok(())
}

const SIGNS_ALLOWED: &str =
    "Allowed are words, numbers, strings in plain single quotes, ( ) , . + - * / = <> != < <= > >= :: and ->>.";

fn is_allowed(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            matches!(word.quote_style, None | Some('"')) && word.value.chars().all(|c| c.is_alphanumeric() || c == '_')
        }
        // No null character ever reaches a store.
        Token::SingleQuotedString(text) => !text.contains('\0'),
        Token::Number(..) | Token::Comma | Token::Period | Token::DoubleColon | Token::LongArrow => true,
        Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => true,
        Token::Plus | Token::Minus | Token::Mul | Token::Div => true,
        Token::EOF | Token::Whitespace(Whitespace::Space | Whitespace::Newline | Whitespace::Tab) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::custom_sql::CustomSql;

    #[test]
    fn nesting_is_refused_before_it_costs_anything() {
        #[rustfmt::skip]
        let cases = [
            // prefix,               open,                         close,          suffix
            ("SELECT 1 FROM ",       "(",                          ")",            ""),
            ("SELECT ",              "(",                          ")",            " FROM events"),
            ("SELECT ",              "coalesce(",                  ")",            " FROM events"),
            ("SELECT ",              "cast(",                      " as numeric)", " FROM events"),
            ("SELECT ",              "sum(1) over (order by (",    "))",           " FROM events"),
            ("SELECT ",              "case when a then ",          " end",         " FROM events"),
            ("SELECT ",              "not ",                       "",             " FROM events"),
            ("SELECT ",              "- ",                         "",             " FROM events"),
            ("SELECT 1 FROM events WHERE a IN ", "(",              ")",            ""),
            ("",                     "(",                          ")",            ""),
            ("",                     "with a as (",                ")",            ""),
        ];
        for (prefix, open, close, suffix) in cases {
            for depth in [5, 24, 60, 250, 1_000] {
                let text = format!("{prefix}{}1{}{suffix}", open.repeat(depth), close.repeat(depth));
                let refused = parse(&text).is_err();
                assert!(refused || depth < 100, "{depth} x {open}");
            }
        }
    }

    /// A quarter of what a thread of a server has, though nothing is optimized here.
    const STACK_BYTES: usize = 512 << 10;

    /// Reads a text and, where that can be, runs it.
    fn survive(text: &str) {
        if let Ok(sql) = CustomSql::parse(text) {
            drop(sql.check());
        }
    }

    #[test]
    fn nothing_runs_out_of_stack() {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(survive_all);
        thread.expect("a thread").join().expect("nothing fails");
    }

    fn survive_all() {
        #[rustfmt::skip]
        let fronts = [
            "", "SELECT ", "SELECT 1 AS usage_qty FROM events WHERE ", "SELECT 1 AS usage_qty FROM ", "WITH a AS (",
            "SELECT 1 FROM events GROUP BY ", "SELECT 1 FROM events LIMIT ", "EXPLAIN ", "INSERT INTO a ", "DELETE FROM a WHERE ",
            "UPDATE a SET b = ", "SELECT SUM(", "SELECT a AS usage_qty FROM (SELECT MIN(",
        ];
        #[rustfmt::skip]
        let nests = [
            ("(select ", ")"), ("select (select ", ")"), ("select 1 from (", ")"), ("(select 1 from (", "))"), ("exists (select ", ")"),
            ("case when ", " then 1 end"), ("case (select ", ") when 1 then 2 end"), ("coalesce((select ", "))"), ("a in (select ", ")"),
            ("sum(1) over (partition by ", ")"), ("cast(", " as numeric)"), ("try_cast(", " as numeric)"), ("not (", ")"), ("(- (", "))"),
            ("interval ", ""), ("(with x as (select ", ") select 1)"), ("lateral (select 1 from ", ") a"), ("(a join ", ")"),
            ("(a cross join ", ")"), ("array(select ", ")"), ("f(x => ", ")"), ("extract(day from ", ")"), ("(values (", "))"),
            ("(table (", "))"), ("unnest(", ")"), ("json_table(", ")"), ("(select sum(case when (", ") then 1 end) over (order by 1))"),
            ("(", ")::numeric"), ("case when 1 in (", ", 2) then 1 end"), ("case 1 when 1 then ", " end"), ("coalesce(", ", 1)"),
        ];
        for (front, (open, close)) in fronts.iter().flat_map(|front| nests.iter().map(move |nest| (front, nest))) {
            for depth in [3, 6, 9, 12, NESTING_MAX] {
                let (open, close) = (open.repeat(depth), close.repeat(depth));
                survive(&format!("{front}{open}1{close}"));
                survive(&format!("SELECT SUM({open}1{close}) AS usage_qty FROM events"));
                survive(&format!("SELECT usage_qty FROM (SELECT MAX({open}1{close}) AS usage_qty FROM events) AS r"));
            }
        }
        let signs = [
            "+",
            "and",
            "or",
            "::numeric ::",
            "->> 'a' ->>",
            "= 1 =",
            "is null and",
            "in (1) and",
            "union select",
            ",",
        ];
        for (front, sign) in fronts.iter().flat_map(|front| signs.iter().map(move |sign| (front, sign))) {
            survive(&format!("{front}{}", ["1"; TOKENS_MAX / 2 - 10].join(&format!(" {sign} "))));
        }
    }
}
