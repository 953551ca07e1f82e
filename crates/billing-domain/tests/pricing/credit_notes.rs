//! Credit notes.

use billing_domain::BigDecimal;
use billing_domain::credit_note::{CreditNote, Settlement};
use billing_domain::decimal::plain;
use billing_domain::error::{Error, Refusal};
use billing_domain::period::PlanDuration;
use billing_domain::plan::ChargeTiming;
use billing_domain::store::{CreditNoteFilter, PageRequest, Transaction};
use billing_domain::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, UsageBehavior};
use billing_domain::testing::world::{World, fee, subscription, version};
use billing_domain::workflow::{
    CancelSubscription, CreateCreditNote, NotePayment, OrganizationPatch, Share, cancel_subscription,
    create_credit_note, note_payment, void_credit_note,
};

use super::{instant, number, table};

const NOTES: &str = "| what happens | on | base | tax | due | credit left |";
pub const TABLES: [&str; 1] = [NOTES];

fn credit(world: &World, share: Option<Share>, settlement: Settlement) -> Result<CreditNote, Error> {
    let invoice = world.invoices("acme")[0].id;
    let command = CreateCreditNote {
        customer: world.key("acme"),
        invoice,
        lines: Vec::new(),
        share,
        corrections: false,
        reason: "disputed".to_owned(),
        settlement,
        reference: None,
    };
    world.on("acme", |tx, now| create_credit_note(tx, &command, now)).map(|(_, note)| note)
}

/// Base and tax of what is credited.
fn shown(note: &CreditNote) -> [String; 2] {
    let parts = || note.lines.iter().map(|line| &line.part);
    let (base, tax): (BigDecimal, BigDecimal) =
        (parts().map(|part| &part.base).sum(), parts().map(|part| &part.tax).sum());
    [plain(&base), plain(&tax)]
}

fn void(world: &World, place: usize) {
    let customer = world.key("acme");
    let filter = CreditNoteFilter { customer: Some(customer), invoice: None };
    let listed = |tx: &mut dyn Transaction, _| tx.invoices().list_credit_notes(&filter, &PageRequest::first());
    let mut notes = world.on("acme", listed).expect("credit notes").items;
    notes.sort_by_key(|note| note.number.rsplit('-').next().map(str::to_owned));
    let id = notes[place - 1].id;
    world.on("acme", |tx, now| void_credit_note(tx, customer, id, now)).expect("voided");
}

fn cancel(world: &World) {
    let command = CancelSubscription {
        customer: world.key("acme"),
        subscriptions: vec![world.subscriptions("acme")[0].id],
        cancellation: Cancellation {
            flat_fee_behavior: Some(FlatFeeBehavior::Refund),
            usage_behavior: UsageBehavior::BillFull,
        },
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
    };
    world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
}

#[test]
fn notes_take_back_what_they_left_each_other() {
    let rows = table(NOTES);
    let start = instant(&rows[0][1]);
    let world = World::at(start);
    world.set(&OrganizationPatch { tax_rate: Some(Some(number("20"))), ..OrganizationPatch::default() });
    world.customer("acme");
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", ChargeTiming::InAdvance)], Vec::new()));
    world.subscribe(&subscription("acme", plan, start)).expect("subscribed");
    for row in rows {
        let nothing = [String::new(), String::new()];
        world.store.set_now(instant(&row[1]));
        let share = |amount: &str| Some(Share::Amount(number(amount)));
        let parts = match row[0].split(' ').collect::<Vec<_>>()[..] {
            [_, "are", "invoiced"] => {
                let line = world.invoices("acme")[0].lines[0].clone();
                [plain(&line.base), plain(&(&line.amount - &line.base))]
            }
            [amount, "are", "credited"] => shown(&credit(&world, share(amount), Settlement::Balance).expect("a note")),
            [amount, "are", "refunded"] => shown(&credit(&world, share(amount), Settlement::Outside).expect("a note")),
            [amount, "come"] => {
                let (customer, invoice) = (world.key("acme"), world.invoices("acme")[0].id);
                let amount = number(amount);
                let command = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
                world.on("acme", |tx, now| note_payment(tx, &command, now)).expect("noted");
                nothing
            }
            ["note", place, "is", "voided"] => {
                void(&world, place.parse().expect("a number"));
                nothing
            }
            ["the", "fee", "is", "cancelled"] => {
                cancel(&world);
                nothing
            }
            ["nothing", "more", "can", "be", "credited"] => {
                let refused = credit(&world, None, Settlement::Balance);
                assert_eq!(refused, Err(Refusal::NothingToCredit.into()));
                nothing
            }
            ["what", "it", "held", "back", "is", "invoiced"] => {
                world.advance("acme", instant(&row[1]));
                nothing
            }
            _ => panic!("{row:?}"),
        };
        let key = world.key("acme");
        let credits = world.on("acme", |tx, _| tx.credits().list_open(key)).expect("credits");
        let left: BigDecimal = credits.iter().map(billing_domain::credit::CreditLedger::remaining).sum();
        let due = plain(&world.invoices("acme")[0].amount_due());
        assert_eq!([parts.to_vec(), vec![due, plain(&left)]].concat(), &row[2..], "{row:?}");
    }
}
