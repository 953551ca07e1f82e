//! The law of corrections: whatever is late, voided, amended, credited, withdrawn, issued anew, renewed, switched or cancelled, all documents
//! together come to the price of the true events, less what voids and credit notes waived and a cancellation dropped.
//!
//! Before tax it holds to the last minor unit, charge by charge, and at each rate of tax no more comes back of a charge than was billed at
//! it. Of tax, and of adjusted prices: [`corrected_taxes`](crate::corrected_taxes).

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Signed, Zero};
use billing_domain::charge::{BillingRecord, ChargeRef, UsageBilling};
use billing_domain::credit_note::{CreditNote, Settlement};
use billing_domain::error::Error;
use billing_domain::event::{Event, EventState};
use billing_domain::id::{BillingRecordId, OneOffLineId, PlanId, SubscriptionId};
use billing_domain::invoice::{Invoice, PaymentStatus, Trace};
use billing_domain::money::round_half_away_from_zero;
use billing_domain::period::PlanDuration;
use billing_domain::plan::{ChargeTiming, PriceAdjustment, PriceAdjustmentKind};
use billing_domain::store::{CreditNoteFilter, PageRequest, Transaction};
use billing_domain::subscription::{
    Cancellation, InvoicingBehavior, Subscription, SubscriptionStatus, SwitchUsageBehavior, UsageBehavior,
};
use billing_domain::testing::world::{World, component, decimal, fee, subscription, tiers, version};
use billing_domain::workflow::{
    CancelSubscription, CorrectEvents, CreateCreditNote, CreateOneOffLine, EventChange, NotePayment, OneOffPrice,
    OrganizationPatch, ReversePayment, Share, SwitchPlan, VersionChoice, WantedCorrection, cancel_subscription,
    correct_events, create_credit_note, create_one_off_line, note_payment, preview_corrections, reissue_invoice,
    remove_one_off_line, reverse_payment, switch_plan, void_credit_note, void_invoice,
};
use billing_domain::{FieldCode, Refusal};
use proptest::prelude::*;
use proptest::test_runner::Config;
use time::{Duration, OffsetDateTime};

use crate::corrected_taxes::{rates_of, tax_of, taxes_come_to_their_rates};
use crate::credit_notes::books_balance;
use crate::fewer_laws;
use crate::life::START;

/// What somebody does, to which of the events, invoices, notes or payments: counted around.
#[derive(Clone, Debug)]
enum Act {
    /// Days.
    Wait(i64),
    /// So many events of so many days ago.
    Track(u32, i64),
    VoidEvent(usize),
    /// To so many days ago.
    MoveEvent(usize, i64),
    /// What corrected events make too much.
    CreditCorrections(usize),
    /// Cents of the whole invoice.
    Credit(usize, i64),
    VoidNote(usize),
    Void(usize),
    Reissue(usize),
    /// Cents.
    Pay(usize, i64),
    Reverse(usize),
    /// In hundredths of a percent.
    Tax(i64),
    Switch(InvoicingBehavior),
    Cancel(UsageBehavior, InvoicingBehavior),
    /// Cents, once: with the next invoice or at once.
    Charge(i64, bool),
    /// Takes one of what was charged once away.
    Uncharge(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    let invoicing = || prop::sample::select(InvoicingBehavior::ALL.to_vec());
    let usage = prop::sample::select(UsageBehavior::ALL.to_vec());
    prop_oneof![
        6 => (3..40_i64).prop_map(Act::Wait),
        6 => (1..6_u32, 0..20_i64).prop_map(|(count, days)| Act::Track(count, days)),
        4 => (0..30_usize).prop_map(Act::VoidEvent),
        3 => (0..30_usize, 0..50_i64).prop_map(|(event, days)| Act::MoveEvent(event, days)),
        4 => (0..6_usize).prop_map(Act::CreditCorrections),
        2 => (0..6_usize, 1..3_000_i64).prop_map(|(invoice, cents)| Act::Credit(invoice, cents)),
        3 => (0..8_usize).prop_map(Act::VoidNote),
        2 => (0..6_usize).prop_map(Act::Void),
        5 => (0..6_usize).prop_map(Act::Reissue),
        2 => (0..6_usize, 1..5_000_i64).prop_map(|(invoice, cents)| Act::Pay(invoice, cents)),
        2 => (0..6_usize).prop_map(Act::Reverse),
        1 => (0..3_000_i64).prop_map(Act::Tax),
        1 => invoicing().prop_map(Act::Switch),
        1 => (usage, invoicing()).prop_map(|(usage, invoicing)| Act::Cancel(usage, invoicing)),
        3 => (1..4_000_i64, any::<bool>()).prop_map(|(cents, now)| Act::Charge(cents, now)),
        1 => (0..4_usize).prop_map(Act::Uncharge),
    ]
}

fn any_adjustment() -> impl Strategy<Value = Option<(PriceAdjustmentKind, i64)>> {
    let kind = prop::sample::select(PriceAdjustmentKind::ALL.to_vec());
    prop::option::of(kind.prop_flat_map(|kind| {
        let amount = match kind {
            PriceAdjustmentKind::Percentage => -60..60_i64,
            PriceAdjustmentKind::Fixed => -40..40_i64,
            PriceAdjustmentKind::PriceOverride => 0..80_i64,
        };
        amount.prop_map(move |amount| (kind, amount))
    }))
}

/// One customer, two plans, and every event that was ever sent, as it truly is.
struct Life {
    world: World,
    plans: [PlanId; 2],
    sent: u32,
    /// What was charged once and not taken away, before tax.
    charged: BTreeMap<OneOffLineId, BigDecimal>,
}

impl Life {
    /// Plan 0 has three calls free and then 0.333 a call, plan 1 0.5 a call; they cost 30 and 50 a month.
    fn begin(adjustments: [Option<(PriceAdjustmentKind, i64)>; 2]) -> Self {
        let world = World::at(START);
        world.customer("acme");
        let metric = world.metric("call", None).id;
        let priced = |price: &str, rows: &[(&str, &str, &str)], adjustment: Option<(PriceAdjustmentKind, i64)>| {
            let mut content = version(vec![fee(price, ChargeTiming::InAdvance)], vec![component(metric, tiers(rows))]);
            content.price_adjustment = adjustment.map(|(kind, amount)| PriceAdjustment {
                name: "deal".to_owned(),
                description: None,
                kind,
                amount: amount.into(),
            });
            world.plan(Some(PlanDuration::Monthly), content)
        };
        let [first, second] = adjustments;
        let plans =
            [priced("30", &[("0", "3", "free"), ("3", "", "0.333")], first), priced("50", &[("0", "", "0.5")], second)];
        world.subscribe(&subscription("acme", plans[0], START)).expect("subscribed");
        Self { world, plans, sent: 0, charged: BTreeMap::new() }
    }

    fn now(&self) -> OffsetDateTime {
        self.world.on("acme", |_, now| Ok(now)).expect("now")
    }

    fn wait(&self, days: i64) {
        self.world.advance("acme", self.now() + Duration::days(days));
    }

    fn notes(&self) -> Vec<CreditNote> {
        let filter = CreditNoteFilter { customer: Some(self.world.key("acme")), invoice: None };
        let (mut page, mut all) = (PageRequest::first(), Vec::new());
        loop {
            let list = |tx: &mut dyn Transaction, _| tx.invoices().list_credit_notes(&filter, &page);
            let found = self.world.on("acme", list).expect("credit notes");
            all.extend(found.items);
            page.after = found.next;
            if page.after.is_none() {
                return all;
            }
        }
    }

    fn correct(&self, place: usize, change: EventChange) -> Result<(), Error> {
        let idempotency_id = format!("event-{}", 1 + place % self.sent.max(1) as usize);
        let corrections = vec![WantedCorrection { idempotency_id, change, attr: "event".to_owned() }];
        let customer = self.world.key("acme");
        let command = CorrectEvents { customer, corrections, beyond_window: true, by: None, reason: None };
        self.world.on("acme", |tx, now| correct_events(tx, &command, now)).map(drop)
    }

    fn credit(&self, invoice: &Invoice, share: Option<Share>) -> Result<(), Error> {
        let command = CreateCreditNote {
            customer: self.world.key("acme"),
            invoice: invoice.id,
            lines: Vec::new(),
            corrections: share.is_none(),
            share,
            reason: "law".to_owned(),
            settlement: Settlement::Balance,
            reference: None,
        };
        self.world.on("acme", |tx, now| create_credit_note(tx, &command, now)).map(drop)
    }

    fn running(&self) -> Option<Subscription> {
        let now = self.now();
        let runs = |held: &Subscription| held.replaced_by.is_none() && held.status(now) == SubscriptionStatus::Active;
        self.world.subscriptions("acme").into_iter().find(runs)
    }

    fn act(&mut self, act: &Act) {
        match self.outcome(act) {
            Ok(()) | Err(Error::NotFound(_)) => {}
            Err(Error::Refused(
                Refusal::NothingToCredit
                | Refusal::CreditNoteVoided
                | Refusal::CreditNoteStands(_)
                | Refusal::CreditDrawn
                | Refusal::InvoiceVoided
                | Refusal::InvoiceNotUnpaid
                | Refusal::InvoiceHasPayments
                | Refusal::LinesTakenBack(_)
                | Refusal::PaymentReversed
                | Refusal::OneOffLineBilled(_),
            )) => {}
            Err(Error::Fields(errors)) if errors.0.iter().all(|error| is_fine(error.code)) => {}
            Err(error) => panic!("{act:?}: {error:?}"),
        }
    }

    fn outcome(&mut self, act: &Act) -> Result<(), Error> {
        let (customer, now, invoices) = (self.world.key("acme"), self.now(), self.world.invoices("acme"));
        let invoice = |place: usize| invoices[place % invoices.len()].clone();
        let cents = |cents: i64| BigDecimal::new(cents.into(), 2);
        let ago = |days: i64| (now - Duration::days(days)).max(START);
        match act {
            Act::Wait(days) => self.wait(*days),
            Act::Track(count, days) => {
                self.world.track_many("acme", "call", ago(*days), *count);
                self.sent += count;
            }
            Act::VoidEvent(place) => self.correct(*place, EventChange::Void)?,
            Act::MoveEvent(place, days) => {
                self.correct(*place, EventChange::Amend { time_created: Some(ago(*days)), properties: None })?;
            }
            Act::CreditCorrections(place) => self.credit(&invoice(*place), None)?,
            Act::Credit(place, amount) => self.credit(&invoice(*place), Some(Share::Amount(cents(*amount))))?,
            Act::VoidNote(place) => {
                let all = self.notes();
                let Some(note) = all.get(place % all.len().max(1)) else { return Ok(()) };
                self.world.on("acme", |tx, now| void_credit_note(tx, customer, note.id, now))?;
            }
            Act::Void(place) => {
                let id = invoice(*place).id;
                self.world.on("acme", |tx, now| void_invoice(tx, customer, id, now))?;
            }
            Act::Reissue(place) => self.reissue(&invoice(*place))?,
            Act::Pay(place, amount) => {
                let (invoice, amount) = (invoice(*place).id, cents(*amount));
                let command = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
                self.world.on("acme", |tx, now| note_payment(tx, &command, now))?;
            }
            Act::Reverse(place) => {
                let listed = self.world.on("acme", |tx, _| tx.invoices().list_payments(customer, None))?;
                let Some(payment) = listed.get(place % listed.len().max(1)) else { return Ok(()) };
                let (invoice, payment) = (payment.invoice, payment.id);
                let command = ReversePayment { customer, invoice, payment, at: None, reason: None };
                self.world.on("acme", |tx, now| reverse_payment(tx, &command, now))?;
            }
            Act::Tax(rate) => self.world.set(&OrganizationPatch {
                tax_rate: Some(Some(BigDecimal::new((*rate).into(), 2))),
                ..OrganizationPatch::default()
            }),
            Act::Switch(invoicing_behavior) => {
                let Some(old) = self.running() else { return Ok(()) };
                let other = if old.plan == self.plans[0] { self.plans[1] } else { self.plans[0] };
                let command = SwitchPlan {
                    customer,
                    subscription: old.id,
                    version: VersionChoice::Plan(other),
                    invoicing_behavior: *invoicing_behavior,
                    usage_behavior: SwitchUsageBehavior::TransferToNewSubscription,
                    prepaid_units: Vec::new(),
                };
                self.world.on("acme", |tx, now| switch_plan(tx, &command, now))?;
            }
            Act::Charge(amount, invoice_now) => self.charge(cents(*amount), *invoice_now)?,
            Act::Uncharge(place) => self.uncharge(*place)?,
            Act::Cancel(usage_behavior, invoicing_behavior) => {
                let Some(old) = self.running() else { return Ok(()) };
                let command = CancelSubscription {
                    customer,
                    subscriptions: vec![old.id],
                    cancellation: Cancellation { flat_fee_behavior: None, usage_behavior: *usage_behavior },
                    invoicing_behavior: *invoicing_behavior,
                };
                self.world.on("acme", |tx, now| cancel_subscription(tx, &command, now))?;
            }
        }
        Ok(())
    }

    fn charge(&mut self, amount: BigDecimal, invoice_now: bool) -> Result<(), Error> {
        let (customer, name) = (self.world.key("acme"), "once".to_owned());
        let price = OneOffPrice::Amount(amount);
        let command =
            CreateOneOffLine { customer, name, price, currency_code: None, is_taxed: true, time: None, invoice_now };
        let (line, billed_on) = self.world.on("acme", |tx, now| create_one_off_line(tx, &command, now))?;
        assert_eq!(billed_on.is_some(), invoice_now);
        self.charged.insert(line.id, line.amount);
        Ok(())
    }

    fn uncharge(&mut self, place: usize) -> Result<(), Error> {
        let customer = self.world.key("acme");
        let Some(id) = self.charged.keys().nth(place % self.charged.len().max(1)).copied() else { return Ok(()) };
        self.world.on("acme", |tx, now| remove_one_off_line(tx, customer, id, now))?;
        self.charged.remove(&id);
        Ok(())
    }

    /// What is issued anew owes the truth nothing.
    fn reissue(&self, old: &Invoice) -> Result<(), Error> {
        let customer = self.world.key("acme");
        let (voided, new) = self.world.on("acme", |tx, now| reissue_invoice(tx, customer, old.id, now))?;
        let new = self.world.on("acme", |tx, _| tx.invoices().get(new))?;
        assert_eq!((voided.replaced_by, new.replaces), (Some(new.id), Some(old.id)));
        let owed = self.world.on("acme", |tx, _| preview_corrections(tx, new.id))?;
        assert!(owed.next_invoice.is_zero() && owed.credit_note.is_zero(), "{owed:?}");
        Ok(())
    }

    /// The true events: what is stored and counts.
    fn events(&self) -> Vec<Event> {
        let ids: Vec<String> = (1..=self.sent).map(|number| format!("event-{number}")).collect();
        let key = self.world.key("acme");
        let kept = self.world.on("acme", |tx, _| tx.events().find(key, &ids)).expect("events");
        kept.into_iter().filter(|kept| kept.state != EventState::Voided).map(|kept| kept.event).collect()
    }

    /// The price of a record before tax, from scratch; `None`: what was billed of its usage stays, and the rest was dropped.
    fn price(&self, record: &BillingRecord, held: &Subscription, events: &[Event]) -> Option<BigDecimal> {
        let is_first = held.plan == self.plans[0];
        let exact = match (record.charge, record.usage) {
            (ChargeRef::Recurring(_), _) => {
                let price = BigDecimal::from(if is_first { 30 } else { 50 });
                let [used, full] = [&record.period, &record.full].map(|period| period.microseconds());
                price * BigDecimal::from(used) / BigDecimal::from(full)
            }
            (_, UsageBilling::HandedOn) => BigDecimal::zero(),
            (_, UsageBilling::Dropped) => return None,
            (_, UsageBilling::Here) => {
                let inside = events.iter().filter(|event| record.period.contains(event.time_created));
                let calls = inside.count() as u64;
                match is_first {
                    true => BigDecimal::from(calls.saturating_sub(3)) * decimal("0.333"),
                    false => BigDecimal::from(calls) * decimal("0.5"),
                }
            }
        };
        Some(round_half_away_from_zero(&exact, 2))
    }
}

fn is_fine(code: FieldCode) -> bool {
    matches!(code, FieldCode::MaxValue | FieldCode::DoesNotExist | FieldCode::Invalid)
}

/// What documents say of one charge.
#[derive(Debug, Default)]
struct Told {
    /// On lines of invoices that stand, less what credit notes took of them.
    billed: BigDecimal,
    /// On lines that voided invoices charged, and what credit notes waived.
    waived: BigDecimal,
    /// `billed`, by its rate of tax.
    by_rate: BTreeMap<BigDecimal, BigDecimal>,
}

impl Told {
    fn bill(&mut self, rate: &BigDecimal, amount: &BigDecimal) {
        self.billed += amount;
        *self.by_rate.entry(rate.normalized()).or_default() += amount;
    }
}

fn told(life: &Life) -> BTreeMap<BillingRecordId, Told> {
    let mut charges = BTreeMap::<_, Told>::new();
    let notes = life.notes();
    for invoice in life.world.invoices("acme") {
        let is_voided = invoice.payment_status == PaymentStatus::Voided;
        for (id, line) in invoice.named_lines() {
            let Some(record) = line.record else { continue };
            let charge = charges.entry(record).or_default();
            if is_voided {
                if invoice.replaced_by.is_none() && line.charges() {
                    charge.waived += &line.base;
                }
                continue;
            }
            let rates = rates_of(line);
            let taxable: BigDecimal = rates.iter().map(|(_, taxable)| taxable).sum();
            charge.bill(&BigDecimal::zero(), &(&line.base - taxable));
            rates.iter().for_each(|(rate, taxable)| charge.bill(rate, taxable));
            // What charges has one.
            let rate = rates.first().map(|(rate, _)| rate.clone()).unwrap_or_default();
            for note in notes.iter().filter(|note| note.stands()) {
                for part in note.lines.iter().filter(|part| part.line == id).map(|credited| &credited.part) {
                    charge.bill(&rate, &-&part.base);
                    if !note.is_correction {
                        charge.waived += &part.base;
                    }
                    assert!(part.base <= line.base && part.tax <= tax_of(line), "{id}: {part:?}");
                }
            }
        }
    }
    charges
}

/// Every charge comes to its price less what was waived, and no less than nothing.
fn documents_come_to_the_price(life: &Life) {
    let charges = told(life);
    let (key, events) = (life.world.key("acme"), life.events());
    let listed = life.world.subscriptions("acme").into_iter().map(|held| (held.id, held));
    let mut of: BTreeMap<SubscriptionId, Subscription> = listed.collect();
    for id in life.world.invoices("acme").iter().flat_map(|invoice| &invoice.lines).filter_map(|line| line.subscription)
    {
        of.entry(id).or_insert_with(|| life.world.subscription("acme", id));
    }
    for held in of.values() {
        for record in life.world.on("acme", |tx, _| tx.billing_records().list(key, held.id)).expect("records") {
            // What is open is billed some other day.
            if record.next_due_at().is_some() && !charges.contains_key(&record.id) {
                continue;
            }
            let nothing = Told::default();
            let told = charges.get(&record.id).unwrap_or(&nothing);
            assert!(!told.by_rate.values().any(BigDecimal::is_negative), "{told:?} {record:?}");
            assert!(!told.billed.is_negative(), "{told:?} {record:?}");
            if let Some(price) = life.price(&record, held, &events) {
                let due = (&price - &told.waived).max(BigDecimal::zero());
                assert_eq!(told.billed, due, "{price} less {}: {record:?}", told.waived);
            }
        }
    }
}

/// What is charged once is billed once, less what was waived of it, or still waits, and what was taken away is nowhere.
fn one_off_lines_are_billed_once(life: &Life) {
    let (notes, mut told) = (life.notes(), BTreeMap::<OneOffLineId, Told>::new());
    for invoice in life.world.invoices("acme") {
        let is_voided = invoice.payment_status == PaymentStatus::Voided;
        for (id, line) in invoice.named_lines() {
            let Trace::OneOff { one_off_line_id, .. } = &line.trace else { continue };
            let told = told.entry(*one_off_line_id).or_default();
            let parts = notes.iter().filter(|note| note.stands()).flat_map(|note| &note.lines);
            let credited: BigDecimal = parts.filter(|part| part.line == id).map(|part| &part.part.base).sum();
            match (is_voided, invoice.replaced_by) {
                (true, Some(_)) => {}
                (true, None) => told.waived += &line.base,
                (false, _) => {
                    told.billed += &line.base - &credited;
                    told.waived += credited;
                }
            }
            let [(rate, taxable)] = &rates_of(line)[..] else { continue };
            assert_eq!((&line.base, tax_of(line)), (taxable, round_half_away_from_zero(&(rate * taxable), 2)));
        }
    }
    let key = life.world.key("acme");
    let waiting = life.world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer").one_off_lines;
    for line in waiting {
        assert!(!told.contains_key(&line.id), "{line:?} waits and is billed");
        told.insert(line.id, Told { billed: line.amount, ..Told::default() });
    }
    let come_to: BTreeMap<_, _> = told.iter().map(|(id, told)| (*id, &told.billed + &told.waived)).collect();
    assert_eq!(come_to, life.charged, "{told:?}");
}

proptest! {
    #![proptest_config(fewer_laws())]

    #[test]
    fn documents_come_to_the_price_of_the_true_events_less_what_was_waived(
        acts in prop::collection::vec(any_act(), 1..30),
    ) {
        let mut life = Life::begin([None, None]);
        for act in &acts {
            life.act(act);
            books_balance(&life.world);
        }
        // By then everything was looked at for the last time.
        life.wait(80);
        life.wait(80);
        books_balance(&life.world);
        documents_come_to_the_price(&life);
        taxes_come_to_their_rates(&life.world.invoices("acme"), &life.notes());
        one_off_lines_are_billed_once(&life);
    }
}

proptest! {
    #![proptest_config(Config { cases: fewer_laws().cases / 4, ..fewer_laws() })]

    #[test]
    fn adjusted_prices_give_no_more_tax_back_than_they_charged(
        acts in prop::collection::vec(any_act(), 1..30),
        adjustments in [any_adjustment(), any_adjustment()],
    ) {
        let mut life = Life::begin(adjustments);
        for act in &acts {
            life.act(act);
            books_balance(&life.world);
        }
        life.wait(80);
        life.wait(80);
        books_balance(&life.world);
        taxes_come_to_their_rates(&life.world.invoices("acme"), &life.notes());
    }
}
