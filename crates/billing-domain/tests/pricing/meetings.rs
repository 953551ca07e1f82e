//! The examples of lives in which one feature meets another: plans, and what becomes of a subscription to them.

use bigdecimal::Zero;
use billing_domain::BigDecimal;
use billing_domain::id::{MetricId, SubscriptionId};
use billing_domain::invoice::{Invoice, LineItem, PaymentStatus};
use billing_domain::metric::{Aggregation, MetricFilters};
use billing_domain::period::PlanDuration;
use billing_domain::plan::{ChargeBehavior, ChargeTiming, PriceAdjustment, PriceAdjustmentKind};
use billing_domain::subscription::{
    Cancellation, FlatFeeBehavior, InvoicingBehavior, SwitchUsageBehavior, UsageBehavior,
};
use billing_domain::testing::world::{World, component, fee, prepaid_component, subscription, tiers, version};
use billing_domain::workflow::{
    CancelSubscription, ChangePrepaidUnits, CreateMetric, NewPlanVersion, OrganizationPatch, SwitchPlan, VersionChoice,
    cancel_subscription, change_prepaid_units, create_metric, switch_plan, void_invoice,
};

use super::{instant, interval, number, shown, table};

const LIVES: &str = "| plan | then | from | what happens | until | invoices | paid |";
pub const TABLES: [&str; 1] = [LIVES];

/// A subscription that is followed over switches.
struct Life {
    world: World,
    calls: MetricId,
    id: SubscriptionId,
    then: String,
}

/// The duration, when the plan begins with one, and what it charges: `fee 30 in_advance, prepaid 10 x 1 full`.
fn plan(text: &str, calls: MetricId) -> (PlanDuration, NewPlanVersion) {
    let mut plan = version(Vec::new(), Vec::new());
    let mut duration = PlanDuration::Monthly;
    for part in text.split(", ") {
        let words: Vec<&str> = part.split(' ').collect();
        let has = |word| words.contains(&word);
        let behind = |word| words.iter().position(|other| *other == word).map(|at| words[at + 1..at + 3].join(" "));
        let behavior = if has("full") { ChargeBehavior::Full } else { ChargeBehavior::Prorate };
        let (every, invoiced) = (behind("every").and_then(|text| interval(&text)), behind("invoiced"));
        match words[0] {
            "fee" => {
                let timing = if has("in_arrears") { ChargeTiming::InArrears } else { ChargeTiming::InAdvance };
                let mut fee = fee(words[1], timing);
                (fee.behavior, fee.reset_interval) = (behavior, every);
                fee.invoicing_interval = invoiced.and_then(|text| interval(&text));
                plan.recurring_charges.push(fee);
            }
            "calls" => {
                let free = words.iter().position(|word| *word == "beyond").map_or("0", |at| words[at + 1]);
                let rows = [("0", free, "free"), (free, "", words[1])];
                let mut component = component(calls, tiers(if free == "0" { &rows[1..] } else { &rows }));
                component.reset_interval = every;
                component.invoicing_interval = invoiced.and_then(|text| interval(&text));
                plan.components.push(component);
            }
            "prepaid" => {
                let mut component = prepaid_component(calls, tiers(&[("0", "", words[3])]), words[1], behavior);
                component.reset_interval = every;
                plan.components.push(component);
            }
            "day" => plan.anchors.day = Some(words[1].parse().expect("a day")),
            "monthly" | "quarterly" | "yearly" => duration = words[0].parse().expect("a duration"),
            kind => {
                let kind =
                    PriceAdjustmentKind::ALL.iter().find(|known| known.as_str() == kind).expect("a part of a plan");
                let amount = number(words[1]);
                plan.price_adjustment =
                    Some(PriceAdjustment { name: "deal".to_owned(), description: None, kind: *kind, amount });
            }
        }
    }
    (duration, plan)
}

impl Life {
    fn begin(row: &[String]) -> Self {
        let start = instant(&row[2]);
        let world = World::at(start);
        let is_level = row[3].contains("level");
        let measure = if is_level {
            Aggregation::Latest { property_name: "n".to_owned() }
        } else {
            Aggregation::Sum { property_name: "n".to_owned() }
        };
        let command = CreateMetric {
            name: None,
            event_name: "call".to_owned(),
            measure: measure.into(),
            filters: MetricFilters::default(),
            is_cost_metric: false,
        };
        let calls = world.catalog(|tx, now| create_metric(tx, &command, now)).expect("a metric").id;
        let (duration, first) = plan(&row[0], calls);
        let first = world.plan(Some(duration), first);
        world.customer("acme");
        let id = world.subscribe(&subscription("acme", first, start)).expect("subscribed").id;
        Self { world, calls, id, then: row[1].clone() }
    }

    /// One thing that happens: `2024-04-16 cancel refund`.
    fn happen(&mut self, text: &str) {
        let (at, what) = text.split_once(' ').expect("an instant, and what happens");
        self.world.advance("acme", instant(at));
        let words: Vec<&str> = what.split(' ').collect();
        let has = |word| words.contains(&word);
        let customer = self.world.key("acme");
        let invoicing = if has("later") { InvoicingBehavior::AddToNextInvoice } else { InvoicingBehavior::InvoiceNow };
        let renewed =
            self.world.subscriptions("acme").into_iter().rfind(|subscription| subscription.replaced_by.is_none());
        self.id = renewed.map_or(self.id, |subscription| subscription.id);
        match words[0] {
            "calls" | "level" => {
                let amount: serde_json::Value = serde_json::from_str(words[1]).expect("a number");
                self.world.track("acme", "call", instant(at), &serde_json::json!({ "n": amount }));
            }
            "tax" => {
                let tax_rate = Some(Some(number(words[1])));
                self.world.set(&OrganizationPatch { tax_rate, ..OrganizationPatch::default() });
            }
            "units" => {
                let (subscription, metric, units) = (self.id, self.calls, number(words[1]));
                let command = ChangePrepaidUnits { customer, subscription, metric, units, invoice_now: true };
                self.world.on("acme", |tx, now| change_prepaid_units(tx, &command, now)).expect("changed");
            }
            "switch" => {
                let then = if self.then.is_empty() { panic!("no plan to switch to") } else { self.then.clone() };
                let (duration, next) = plan(&then, self.calls);
                let usage_behavior = if has("keep_separate") {
                    SwitchUsageBehavior::KeepSeparate
                } else {
                    SwitchUsageBehavior::TransferToNewSubscription
                };
                let command = SwitchPlan {
                    customer,
                    subscription: self.id,
                    version: VersionChoice::Plan(self.world.plan(Some(duration), next)),
                    invoicing_behavior: invoicing,
                    usage_behavior,
                    prepaid_units: Vec::new(),
                };
                self.id = self.world.on("acme", |tx, now| switch_plan(tx, &command, now)).expect("switched").id;
            }
            "cancel" => {
                let said = |behavior: &FlatFeeBehavior| has(behavior.as_str());
                let flat_fee_behavior = FlatFeeBehavior::ALL.iter().copied().find(said);
                let usage_behavior = if has("bill_none") { UsageBehavior::BillNone } else { UsageBehavior::BillFull };
                let command = CancelSubscription {
                    customer,
                    subscriptions: vec![self.id],
                    cancellation: Cancellation { flat_fee_behavior, usage_behavior },
                    invoicing_behavior: invoicing,
                };
                self.world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
            }
            "void" => {
                let nth: usize = words[1].parse().expect("which invoice");
                let invoice = self.invoices().remove(nth - 1);
                let voided = self.world.on("acme", |tx, now| void_invoice(tx, customer, invoice.id, now));
                assert_eq!(voided.is_err(), has("refused"), "{text}: {voided:?}");
            }
            other => panic!("{other} does not happen"),
        }
    }

    /// Those that charge or take back anything, oldest first.
    fn invoices(&self) -> Vec<Invoice> {
        let mut invoices = self.world.invoices("acme");
        invoices.retain(|invoice| invoice.lines.iter().any(|line| !line.amount.is_zero()));
        invoices
    }
}

/// What the charges of an invoice come to, before credits.
fn charged(invoice: &Invoice) -> BigDecimal {
    invoice.lines.iter().filter(|line| line.subscription.is_some()).map(|line| &line.amount).sum()
}

/// The charges of a life in which a full fee and usage are switched, and a part of the usage was voided.
pub fn lines_of_a_switch() -> Vec<LineItem> {
    let [plan, then] = ["fee 30 in_advance full, calls 1 invoiced 1 week", "fee 60 in_advance full, calls 2"];
    let row = [plan, then, "2024-04-01", "", "", "", ""].map(str::to_owned);
    let mut life = Life::begin(&row);
    for what in ["02 calls 10", "09 void 2", "09 calls 5", "16 switch"] {
        life.happen(&format!("2024-04-{what}"));
    }
    life.world.advance("acme", instant("2024-05-02"));
    let lines = life.invoices().into_iter().flat_map(|invoice| invoice.lines);
    lines.filter(|line| line.period.start() < instant("2024-05-01")).collect()
}

#[test]
fn features_meet_as_they_should() {
    for row in table(LIVES) {
        let mut life = Life::begin(&row);
        row[3].split("; ").filter(|text| !text.is_empty()).for_each(|text| life.happen(text));
        life.world.advance("acme", instant(&row[4]));
        let is_voided = |invoice: &&Invoice| invoice.payment_status == PaymentStatus::Voided;
        let show = |invoice: &Invoice| {
            let sum = shown(&[charged(invoice)]);
            if is_voided(&invoice) { format!("({sum})") } else { sum }
        };
        let invoices: Vec<_> = life.invoices().iter().map(show).collect();
        let paid: BigDecimal = life.invoices().iter().filter(|invoice| !is_voided(invoice)).map(charged).sum();
        assert_eq!((invoices.join(", "), shown(&[paid])), (row[5].clone(), row[6].clone()), "{row:?}");
    }
}
