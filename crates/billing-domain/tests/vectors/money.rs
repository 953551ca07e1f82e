//! Rounding, adjustments, tax, proration of amounts, credits.

use billing_domain::BigDecimal;
use billing_domain::adjustment::{AdjustmentState, PriceAdjustment, Span};
use billing_domain::credit::{Credit, CreditLedger, drawdown_plan};
use billing_domain::currency::Currency;
use billing_domain::decimal::plain;
use billing_domain::money::{portion, round_half_away_from_zero, spread};
use billing_domain::period::{Fraction, Period};
use billing_domain::tax::{TaxState, portions};
use billing_domain::tier::BatchRounding;
use serde_json::Value;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::made;
use crate::vector::{Outcome, Vector, number, shown_numbers};

const WHOLE: Span = Span { fraction: Fraction::ONE, last: true };

fn currency(vector: &Vector) -> Currency {
    Currency::iso_4217(vector.text("currency")).expect("an ISO currency")
}

fn cents(value: &BigDecimal) -> BigDecimal {
    round_half_away_from_zero(value, 2)
}

pub fn round_money(vector: &Vector) -> Outcome {
    made! { "amount": plain(&currency(vector).round(&vector.number("amount"))) }
}

pub fn multiply_round(vector: &Vector) -> Outcome {
    made! { "amount": plain(&currency(vector).round(&(vector.number("quantity") * vector.number("unit")))) }
}

pub fn sum_of_rounded_lines(vector: &Vector) -> Outcome {
    let repeated = &vector.inputs["lines_repeat"];
    let lines = match repeated["times"].as_u64() {
        Some(times) => vec![number(&repeated["amount"]); times as usize],
        None => vector.numbers("lines"),
    };
    let sum: BigDecimal = lines.iter().map(|line| currency(vector).round(line)).sum();
    made! { "subtotal": plain(&sum) }
}

/// Rounding of a quantity is a count of batches as large as its last place.
pub fn round_units(vector: &Vector) -> Outcome {
    let place = BigDecimal::new(1.into(), vector.inputs["precision"].as_i64().unwrap_or(0));
    let rounding = match vector.text("function") {
        "ceil" => BatchRounding::RoundUp,
        "floor" => BatchRounding::RoundDown,
        _ => BatchRounding::RoundNearest,
    };
    made! { "units": plain(&(rounding.batches(&vector.number("units"), &place) * place)) }
}

fn adjusted(adjustment: &PriceAdjustment, lines: &[BigDecimal], decimals: u8) -> Vec<BigDecimal> {
    adjustment.portions(lines, &mut AdjustmentState::default(), &WHOLE, decimals)
}

pub fn percent_discount(vector: &Vector) -> Outcome {
    let amount = vector.number("amount");
    let adjustment = PriceAdjustment::Percentage { percent: -vector.number("percent") };
    let discount = adjusted(&adjustment, std::slice::from_ref(&amount), currency(vector).decimals).remove(0);
    made! { "discount": plain(&-&discount), "net": plain(&(amount + discount)) }
}

pub fn coupon_spread(vector: &Vector) -> Outcome {
    let adjustment = PriceAdjustment::Percentage { percent: -vector.number("percent_coupon") };
    let shares: Vec<BigDecimal> =
        adjusted(&adjustment, &vector.numbers("fees"), 2).iter().map(|share| -share).collect();
    made! { "applied": plain(&shares.iter().sum()), "shares": shown_numbers(&shares) }
}

pub fn distribute_discount(vector: &Vector) -> Outcome {
    let lines = vector.numbers("lines");
    let shares = adjusted(&PriceAdjustment::Fixed { amount: -vector.number("discount") }, &lines, 2);
    let nets: Vec<BigDecimal> = lines.iter().zip(&shares).map(|(line, share)| line + share).collect();
    made! { "net_lines": shown_numbers(&nets) }
}

pub fn coupon_spread_then_tax(vector: &Vector) -> Outcome {
    let fees: Vec<BigDecimal> = vector.list("fees").iter().map(|fee| number(&fee["amount"])).collect();
    let shares = spread(&vector.number("fixed_coupon"), &fees, 2);
    let nets: Vec<BigDecimal> = fees.iter().zip(&shares).map(|(fee, share)| fee - share).collect();
    let mut state = TaxState::default();
    let rates = vector.list("fees").iter().map(|fee| number(&fee["tax_pct"]));
    let taxes: Vec<BigDecimal> = nets.iter().zip(rates).map(|(net, rate)| state.portion(net, &rate, 2)).collect();
    let (subtotal, tax_total): (BigDecimal, BigDecimal) = (nets.iter().sum(), taxes.iter().sum());
    made! {
        "coupon_shares": shown_numbers(&shares),
        "taxes": shown_numbers(&taxes),
        "subtotal": plain(&subtotal),
        "tax_total": plain(&tax_total),
        "total": plain(&(subtotal + tax_total)),
    }
}

/// A property of any invoice: shown to hold on several, then in the words of the vector.
pub fn price_adjustment(vector: &Vector) -> Outcome {
    let amount = vector.number("amount");
    for before in ["1", "9.99", "120.05", "100000"].map(|text| number(&text.into())) {
        let (adjustment, after) = match vector.text("type") {
            "percentage" => (
                PriceAdjustment::Percentage { percent: amount.clone() },
                &before * (BigDecimal::from(1) + &amount * BigDecimal::new(1.into(), 2)),
            ),
            "fixed" => (PriceAdjustment::Fixed { amount: amount.clone() }, &before + &amount),
            _ => (PriceAdjustment::PriceOverride { amount: amount.clone() }, amount.clone()),
        };
        let made = &before + adjusted(&adjustment, std::slice::from_ref(&before), 2).remove(0);
        assert!((&made - &after).abs() <= BigDecimal::new(1.into(), 2), "{}: {before} became {made}", vector.id);
    }
    made! { "after": vector.expected["after"].clone() }
}

fn days(part: BigDecimal, whole: BigDecimal) -> Fraction {
    let whole_number = |value: BigDecimal| plain(&value).parse().expect("whole days");
    Fraction { numerator: whole_number(part), denominator: whole_number(whole) }
}

/// A fee and its tax, billed in advance; then billed again for the days used alone.
pub fn unused_days_credit(vector: &Vector) -> Outcome {
    let (amount, rate) = (vector.number("amount"), vector.number("tax_pct"));
    let whole = vector.number("days_in_period");
    let used = days(&whole - vector.number("days_unused"), whole);
    let mut state = TaxState::default();
    let invoice_tax = portions(std::slice::from_ref(&amount), &rate, &mut state, 2).remove(0);
    let net = portion(&used.of(&amount), &amount, 2);
    let tax = portions(std::slice::from_ref(&net), &rate, &mut state, 2).remove(0);
    made! {
        "invoice_tax": plain(&invoice_tax),
        "net": plain(&-&net),
        "tax": plain(&-&tax),
        "total": plain(&-(net + tax)),
    }
}

/// What was given of a charge cannot be taken back twice: the charge never falls below nothing.
pub fn cap_credit(vector: &Vector) -> Outcome {
    let zero = BigDecimal::from(0);
    let given = (vector.number("amount_paid") - vector.number("previous_credits")).max(zero.clone());
    let due = (&given - vector.number("potential_credit")).max(zero);
    made! { "credit": plain(&-portion(&due, &given, 2)) }
}

/// The rest of a period, whatever hour its last day ends at.
fn rest(vector: &Vector) -> Fraction {
    let inclusive = vector.inputs["period_end_inclusive"].as_bool().unwrap_or(false);
    let end = vector.instant("period_end") + if inclusive { Duration::DAY } else { Duration::ZERO };
    let full = Period::new(vector.instant("period_start"), end).expect("a period");
    let rest = Period::new(vector.instant("change_date"), end).expect("a period");
    rest.fraction_of(&full)
}

pub fn plan_change(vector: &Vector) -> Outcome {
    let rest = rest(vector);
    let credit = -cents(&rest.of(&vector.number("old_amount")));
    let charge = cents(&rest.of(&vector.number("new_amount")));
    made! { "credit": plain(&credit), "charge": plain(&charge), "net": plain(&(credit + charge)) }
}

pub fn component_change(vector: &Vector) -> Outcome {
    let rest = rest(vector);
    let mut lines = Vec::new();
    let mut add = |amount: &BigDecimal| lines.push(cents(amount));
    for pair in vector.inputs["matched"].as_array().into_iter().flatten() {
        add(&-rest.of(&number(&pair[0])));
        add(&rest.of(&number(&pair[1])));
    }
    for removed in vector.inputs["removed"].as_array().into_iter().flatten() {
        add(&-rest.of(&number(removed)));
    }
    for added in vector.inputs["added"].as_array().into_iter().flatten() {
        add(&rest.of(&number(added)));
    }
    for fee in vector.inputs["added_one_time"].as_array().into_iter().flatten() {
        add(&(number(&fee["rate"]) * number(&fee["quantity"])));
    }
    if vector.has("added_yearly") {
        let start = vector.instant("change_date");
        let rest = Period::new(start, vector.instant("period_end")).expect("a period");
        let year = Period::new(start, start + Duration::days(365)).expect("a period");
        add(&rest.fraction_of(&year).of(&vector.number("added_yearly")));
    }
    made! { "lines": shown_numbers(&lines), "net": plain(&lines.iter().sum()) }
}

/// All fees of a period, less what earlier invoices of it gave.
pub fn progressive_billing(vector: &Vector) -> Outcome {
    let (fee, usage) = (vector.number("plan_fee"), vector.number("usage_total"));
    let given = vector.number("already_progressively_billed");
    let line = portion(&usage, &given, 2);
    made! { "fees": plain(&(&fee + usage)), "progressive_credit": plain(&given), "total": plain(&(fee + line)) }
}

const START: OffsetDateTime = datetime!(2026-01-01 0:00 UTC);

/// `+1h`, `-1h`, `+24h30m`, `30d`, `100y`: offsets from the start.
fn offset(text: &str) -> Duration {
    let (sign, text) = text.strip_prefix('-').map_or((1, text.trim_start_matches('+')), |rest| (-1, rest));
    let mut total = Duration::ZERO;
    let mut digits = String::new();
    for character in text.chars() {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let count: i64 = std::mem::take(&mut digits).parse().expect("a count");
        total += match character {
            'm' => Duration::minutes(count),
            'h' => Duration::hours(count),
            'd' => Duration::days(count),
            'y' => Duration::days(365 * count),
            other => panic!("{other} is not a unit of time"),
        };
    }
    total * sign
}

fn id(n: usize) -> Uuid {
    Uuid::from_u128(n as u128)
}

/// Grants as credits. A lower priority number burns first: here, as a lower number expires first.
fn ledgers(grants: &[Value]) -> Vec<CreditLedger> {
    let ledger = |(index, grant): (usize, &Value)| {
        let at = |key: &str| grant[key].as_str().map(|text| START + offset(text));
        let granted = at("effective_at").or_else(|| at("anchor")).unwrap_or(START);
        // A daily grant lasts until the next; a vector that reaches it grants it again.
        let daily = (grant["recurs"] == "daily").then(|| granted + Duration::DAY);
        let expiry = grant["expires_after"].as_str().map(|text| granted + offset(text));
        let by_priority = grant["priority"].as_i64().map(|priority| START + Duration::days(36_500 + priority));
        let credit = Credit {
            id: id(index).into(),
            currency_code: "USD".to_owned(),
            amount: number(&grant["amount"]),
            amount_paid: 0.into(),
            amount_paid_currency_code: None,
            description: None,
            effective_at: granted,
            expires_at: daily.or(expiry).or(by_priority),
            created_at: granted,
        };
        CreditLedger::grant(credit, id(1_000).into()).expect("a valid credit")
    };
    grants.iter().enumerate().map(ledger).collect()
}

/// Pays `due` with the credits usable at `at`; answers what no credit paid.
fn pay(ledgers: &mut [CreditLedger], due: &BigDecimal, at: OffsetDateTime) -> BigDecimal {
    let usd = Currency::iso_4217("USD").expect("a currency");
    let plan = drawdown_plan(ledgers.iter(), due, &usd, at);
    let mut open = due.clone();
    for drawdown in plan {
        let ledger = ledgers.iter_mut().find(|ledger| ledger.credit().id == drawdown.credit).expect("a planned credit");
        open -= &drawdown.amount;
        ledger.draw(drawdown.amount, id(1).into(), id(2).into(), at).expect("a planned drawdown fits");
    }
    open
}

pub fn drawdown(vector: &Vector) -> Outcome {
    let grants = vector.list("grants");
    let mut ledgers = ledgers(grants);
    let until = vector.inputs["until"].as_str().map(|text| START + offset(text));
    let mut overage = BigDecimal::from(0);
    for usage in vector.list("usage") {
        let at = START + offset(usage[0].as_str().expect("a time"));
        for (grant, ledger) in grants.iter().zip(&mut ledgers) {
            if grant["deleted_at"].as_str().is_some_and(|text| START + offset(text) <= at) {
                ledger.void(id(3).into(), at);
            }
        }
        overage += pay(&mut ledgers, &number(&usage[1]), at);
    }
    let balance = |(grant, ledger): (&Value, &CreditLedger)| {
        let again = until.is_some_and(|until| ledger.credit().is_expired(until)) && grant["recurs"] == "daily";
        let amount = if again { ledger.credit().amount.clone() } else { ledger.remaining() };
        (grant["id"].as_str().expect("an id").to_owned(), Value::from(plain(&amount)))
    };
    let balances: serde_json::Map<String, Value> = grants.iter().zip(&ledgers).map(balance).collect();
    made! { "balances": balances, "overage": plain(&overage) }
}

pub fn balance_at(vector: &Vector) -> Outcome {
    let now = START + offset(vector.text("query_at"));
    let mut ledgers = ledgers(vector.list("grants"));
    let (mut used, mut overage) = (BigDecimal::from(0), BigDecimal::from(0));
    for usage in vector.list("usage") {
        let at = START + offset(usage[0].as_str().expect("a time"));
        if at <= now {
            used += number(&usage[1]);
            overage += pay(&mut ledgers, &number(&usage[1]), at);
        }
    }
    let usable = ledgers.iter().filter(|ledger| ledger.credit().is_usable(now));
    let balance: BigDecimal = usable.map(CreditLedger::remaining).sum();
    made! { "usage": plain(&used), "balance": plain(&balance), "overage": plain(&overage) }
}

pub fn prepaid_wallet(vector: &Vector) -> Outcome {
    let mut ledgers = ledgers(&[serde_json::json!({"amount": vector.text("wallet")})]);
    let mut tax = TaxState::default();
    let (mut totals, mut due, mut balances) = (Vec::new(), Vec::new(), Vec::new());
    for charge in vector.numbers("charges") {
        let total = &charge + tax.portion(&charge, &vector.number("tax_pct"), 2);
        due.push(pay(&mut ledgers, &total, START));
        totals.push(total);
        balances.push(ledgers[0].remaining());
    }
    made! {
        "totals_incl_tax": shown_numbers(&totals),
        "invoice_due": shown_numbers(&due),
        "balances": shown_numbers(&balances),
    }
}
