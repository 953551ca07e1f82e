use billing_domain::BigDecimal;
use billing_domain::adjustment::{AdjustmentState, PriceAdjustment, Span};
use billing_domain::credit::{Credit, CreditLedger, drawdown_plan};
use billing_domain::decimal::{divide, parse, parse_property, plain};
use billing_domain::money::{portion, spread};
use billing_domain::period::Fraction;
use billing_domain::tax::{TaxState, flat_rate, portions};
use uuid::Uuid;

use super::{Row, currency, instant, number, numbers, shown, table};

const DECIMALS: &str = "| text | in a body | in an event property |";
const QUOTIENTS: &str = "| dividend | divisor | quotient |";
const ROUNDING: &str = "| amount | currency | rounded |";
const PORTIONS: &str = "| exact so far | currency | portions |";
const SPREADING: &str = "| total | weights | currency | parts |";
const ADJUSTMENTS: &str = "| adjustment | period | invoice | lines | adjustments |";
const TAXES: &str = "| tax rate | taxable lines | currency | taxes |";
const RATES: &str = "| customer rate | organization rate | rate |";
const CREDITS: &str = "| credit | amount | currency | paid | effective | expires |";
const DRAWDOWNS: &str = "| amount due | currency | issued | credits drawn |";
const LEDGER: &str = "| what happens | on | remaining | drawn | restored | voided | expired |";
pub const TABLES: [&str; 11] =
    [DECIMALS, QUOTIENTS, ROUNDING, PORTIONS, SPREADING, ADJUSTMENTS, TAXES, RATES, CREDITS, DRAWDOWNS, LEDGER];

#[test]
fn numbers_are_read_within_bounds() {
    let read = |number: Option<BigDecimal>| number.map_or("refused".to_owned(), |number| plain(&number));
    for row in table(DECIMALS) {
        assert_eq!(read(parse(&row[0]).ok()), row[1], "{row:?}");
        assert_eq!(read(parse_property(&row[0])), row[2], "{row:?}");
    }
}

#[test]
fn quotients_have_sixty_decimals() {
    for row in table(QUOTIENTS) {
        assert_eq!(plain(&divide(&number(&row[0]), &number(&row[1]))), row[2], "{row:?}");
    }
}

#[test]
fn amounts_are_rounded_to_the_minor_unit() {
    for row in table(ROUNDING) {
        assert_eq!(plain(&currency(&row[1]).round(&number(&row[0]))), row[2], "{row:?}");
    }
}

#[test]
fn portions_are_rounded_as_a_running_sum() {
    let exact = |text: &str| match text.split_once('/') {
        Some((top, bottom)) => divide(&number(top), &number(bottom)),
        None => number(text),
    };
    for row in table(PORTIONS) {
        let mut given = BigDecimal::from(0);
        let mut next = |text: &str| {
            let part = portion(&exact(text), &given, currency(&row[1]).decimals);
            given += &part;
            part
        };
        let parts: Vec<BigDecimal> = row[0].split(", ").map(&mut next).collect();
        assert_eq!(shown(&parts), row[2], "{row:?}");
    }
}

#[test]
fn amounts_are_spread_over_lines() {
    for row in table(SPREADING) {
        let parts = spread(&number(&row[0]), &numbers(&row[1]), currency(&row[2]).decimals);
        assert_eq!(shown(&parts), row[3], "{row:?}");
    }
}

fn adjustment(text: &str) -> PriceAdjustment {
    let (kind, amount) = text.split_once(' ').expect("kind and amount");
    let amount = number(amount);
    match kind {
        "percentage" => PriceAdjustment::Percentage { percent: amount },
        "fixed" => PriceAdjustment::Fixed { amount },
        "price_override" => PriceAdjustment::PriceOverride { amount },
        other => panic!("{other} is not an adjustment"),
    }
}

#[test]
fn adjustments_follow_a_period_through_its_invoices() {
    let mut current = None;
    for row in table(ADJUSTMENTS) {
        if !row[0].is_empty() {
            current = Some((adjustment(&row[0]), AdjustmentState::default()));
        }
        let (adjustment, state) = current.as_mut().expect("the first row names an adjustment");
        let (used, full) = row[1].split_once('/').expect("a fraction");
        let fraction =
            Fraction { numerator: used.parse().expect("a number"), denominator: full.parse().expect("a number") };
        let span = Span { fraction, last: row[2] == "last" };
        assert_eq!(shown(&adjustment.portions(&numbers(&row[3]), state, &span, 2)), row[4], "{row:?}");
    }
}

#[test]
fn taxes_are_rounded_as_a_running_sum() {
    for row in table(TAXES) {
        let decimals = currency(&row[2]).decimals;
        let taxes = portions(&numbers(&row[1]), &number(&row[0]), &mut TaxState::default(), decimals);
        assert_eq!(shown(&taxes), row[3], "{row:?}");
    }
}

#[test]
fn tax_rates_are_the_customers_over_the_organizations() {
    let optional = |text: &str| (!text.is_empty()).then(|| number(text));
    for row in table(RATES) {
        let (customer, organization) = (optional(&row[0]), optional(&row[1]));
        assert_eq!(flat_rate(customer.as_ref(), organization.as_ref()), optional(&row[2]).as_ref(), "{row:?}");
    }
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn credit(row: &Row) -> CreditLedger {
    let credit = Credit {
        id: id(row[0].parse().expect("a number")).into(),
        currency_code: row[2].clone(),
        amount: number(&row[1]),
        amount_paid: number(&row[3]),
        amount_paid_currency_code: Some(row[2].clone()),
        description: None,
        effective_at: instant(&row[4]),
        expires_at: (!row[5].is_empty()).then(|| instant(&row[5])),
        created_at: instant(&row[4]),
    };
    CreditLedger::grant(credit, id(1_000).into()).expect("a valid credit")
}

#[test]
fn credits_are_drawn_in_order() {
    let credits = table(CREDITS);
    let ledgers: Vec<CreditLedger> = credits.iter().map(credit).collect();
    let name = |drawn| {
        let row = ledgers.iter().position(|ledger| ledger.credit().id == drawn).expect("a credit of the table");
        credits[row][0].clone()
    };
    for row in table(DRAWDOWNS) {
        let plan = drawdown_plan(&ledgers, &number(&row[0]), &currency(&row[1]), instant(&row[2]));
        let drawn: Vec<String> =
            plan.iter().map(|drawdown| format!("{}: {}", name(drawdown.credit), plain(&drawdown.amount))).collect();
        assert_eq!(drawn.join(", "), row[3], "{row:?}");
    }
}

#[test]
fn a_ledger_goes_through_its_life() {
    let new = ["1", "100", "EUR", "0", "2026-01-01", "2026-04-01"].map(str::to_owned).to_vec();
    let mut ledger = credit(&new);
    for row in table(LEDGER) {
        let at = instant(&row[1]);
        match row[0].split(' ').collect::<Vec<_>>()[..] {
            ["grant"] => {}
            ["invoice", n, "draws", amount] => {
                let invoice = id(n.parse().expect("a number"));
                ledger.draw(number(amount), invoice.into(), id(2).into(), at).expect("enough");
            }
            ["invoice", n, ..] => {
                let invoice = id(n.parse().expect("a number"));
                ledger.restore(invoice.into(), id(2).into(), at).expect("it drew");
            }
            ["it", "expires"] => drop(ledger.expire(id(2).into(), at)),
            ["it", "is", "voided"] => drop(ledger.void(id(2).into(), at)),
            _ => panic!("{row:?} is not known"),
        }
        let balance = ledger.balance();
        let parts = [&ledger.remaining(), &balance.drawn, &balance.restored, &balance.voided, &balance.expired];
        assert_eq!(parts.map(plain).to_vec(), row[2..], "{row:?}");
    }
}
