//! Messages: written with their facts, read in one order.

use time::{Duration, OffsetDateTime};

use super::{Harness, Tenant, build};
use crate::customer::Customer;
use crate::error::{Error, Refusal};
use crate::id::{CustomerKey, InvoiceId, MessageId};
use crate::message::{Message, MessageType, Payload};
use crate::payment::{Payment, PaymentKind};
use crate::store::{FeedPage, FeedRequest, Page, PageRequest, Scope, Transaction};

/// The id of no invoice.
fn no_invoice() -> InvoiceId {
    uuid::Uuid::nil().into()
}

const ALL: FeedRequest = FeedRequest { after: 0, types: Vec::new(), limit: 100 };

pub(super) fn message(tx: &mut dyn Transaction, customer: Option<CustomerKey>, data: &str) -> Message {
    let id = MessageId::from(tx.new_uuid());
    let message_type = if customer.is_some() { MessageType::CustomerCreated } else { MessageType::MetricCreated };
    let at = OffsetDateTime::UNIX_EPOCH + Duration::microseconds(7);
    Message::new((id, message_type), customer, (at, customer.is_none()), Payload::Json(data.to_owned()))
}

pub(super) fn place(tenant: &Tenant<'_>) {
    while tenant.harness.feeds.place_messages(2).expect("placed").there_is_more {}
}

fn feed(tenant: &Tenant<'_>, wanted: &FeedRequest) -> FeedPage {
    tenant.look(|tx, _| tx.messages().list(wanted))
}

fn texts(page: &FeedPage) -> Vec<&str> {
    page.messages
        .iter()
        .map(|(_, message)| match &message.payload {
            Payload::Json(text) => text.as_str(),
            Payload::Invoice(_) => "invoice",
        })
        .collect()
}

pub(super) fn keeps_messages_in_one_order(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    assert_eq!(feed(&tenant, &ALL), FeedPage::new(Vec::new(), 0, 1), "nothing was told");
    let customer = tenant.new_customer("acme").key;
    let mut kept = tenant.customer(customer, |tx, _| {
        let all = vec![message(tx, Some(customer), r#"{"b":1.50,"a":2}"#), message(tx, Some(customer), "2")];
        all.iter().try_for_each(|message| tx.messages().insert(message.clone()))?;
        Ok(all)
    });
    let of_catalog = tenant.catalog(|tx, _| {
        let message = message(tx, None, "3");
        tx.messages().insert(message.clone())?;
        Ok(message)
    });
    kept.push(of_catalog);
    let invoice = tenant.customer(customer, |tx, _| {
        let id = tx.new_uuid().into();
        let about = Message { payload: Payload::Invoice(id), ..message(tx, Some(customer), "") };
        tx.messages().insert(about.clone())?;
        Ok(about)
    });
    kept.push(invoice);
    place(&tenant);
    let whole = feed(&tenant, &ALL);
    let placed: Vec<_> = (1_u64..).zip(kept.clone()).collect();
    assert_eq!(whole, FeedPage::new(placed.clone(), 4, 1), "as they were written, without a gap, byte for byte");
    let part = |after, limit| feed(&tenant, &FeedRequest { after, limit, types: Vec::new() });
    assert_eq!(part(0, 2), FeedPage::new(placed[..2].to_vec(), 2, 1), "a part");
    assert_eq!(part(2, 2), FeedPage::new(placed[2..].to_vec(), 4, 1), "the rest, to its end");
    assert_eq!(part(4, 2), FeedPage::new(Vec::new(), 4, 1), "nothing yet");
    assert_eq!(part(7, 2), FeedPage::new(Vec::new(), 4, 1), "beyond the end: one sees that the end was before");
    let of = |types: &[MessageType], limit| feed(&tenant, &FeedRequest { after: 0, limit, types: types.to_vec() });
    let of_metrics = of(&[MessageType::MetricCreated], 10);
    assert_eq!((texts(&of_metrics), of_metrics.reached), (vec!["3"], 4), "what is passed over need not be read again");
    let first = of(&[MessageType::CustomerCreated], 1);
    assert_eq!((first.messages.len(), first.reached), (1, 1), "cut behind the first");
    assert_eq!(harness.feeds.last_positions(&[tenant.id]), Ok(vec![4]));
    let both = [kept[2].id, no_invoice().uuid().into(), kept[0].id];
    let found = tenant.look(|tx, _| tx.messages().list_by_id(&both));
    assert_eq!(found, [placed[0].clone(), placed[2].clone()], "by id, in the order of the feed");
    for message in &kept {
        assert_eq!(tenant.look(|tx, _| tx.messages().get(message.id)), *message);
    }
}

pub(super) fn undoes_messages_with_their_facts(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let customer = tenant.new_customer("acme").key;
    let refused: Result<(), Error> = tenant.try_customer(customer, |tx, _| {
        let undone = message(tx, Some(customer), "1");
        tx.messages().insert(undone)?;
        Err(Refusal::AlreadyEnded.into())
    });
    assert!(refused.is_err());
    place(&tenant);
    assert_eq!(feed(&tenant, &ALL).messages, [], "what was undone was never told");
    let together = tenant.harness.store.run_each(tenant.id, &[customer], &mut |tx, key, _| {
        let kept = message(tx, Some(key), "2");
        tx.messages().insert(kept)
    });
    assert_eq!(together, [Ok(())]);
    place(&tenant);
    assert_eq!(texts(&feed(&tenant, &ALL)), ["2"], "and leaves no gap");
}

pub(super) fn lists_messages_of_a_customer(harness: &Harness<'_>) {
    let [ours, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let [acme, other] = ["acme", "other"].map(|id| ours.new_customer(id).key);
    let namesake = theirs.new_customer("acme").key;
    for (tenant, customer, data) in
        [(&ours, acme, "1"), (&ours, other, "2"), (&theirs, namesake, "3"), (&ours, acme, "4")]
    {
        tenant.customer(customer, |tx, _| {
            let id = tx.messages().new_id();
            let told = Message { id, ..message(tx, Some(customer), data) };
            tx.messages().insert(told)
        });
    }
    let list = |customer, limit, after| {
        let page = PageRequest { limit, after };
        ours.look(|tx, _| tx.messages().list_of(customer, &page))
    };
    let data = |page: Page<Message>| page.items.into_iter().map(|message| message.payload).collect::<Vec<_>>();
    let all = ["4", "1"].map(|data| Payload::Json(data.to_owned()));
    assert_eq!(data(list(acme, 2, None)), all, "newest first, before it has a place in the feed");
    place(&ours);
    let first = list(acme, 1, None);
    let next = first.next.clone();
    assert_eq!((data(first), next.is_some()), (all[..1].to_vec(), true));
    let rest = list(acme, 1, next);
    assert_eq!((rest.next.clone(), data(rest)), (None, all[1..].to_vec()), "goes on behind the cursor");
    assert_eq!(data(list(other, 9, None)), [Payload::Json("2".to_owned())], "each customer's own");
    assert_eq!(data(list(namesake, 9, None)), [], "nobody else's");
    let page = PageRequest { limit: 1, after: Some("x".to_owned()) };
    let refused = ours.run(&Scope::Organization(ours.id), |tx, _| tx.messages().list_of(acme, &page));
    assert!(refused.is_err(), "no cursor: {refused:?}");
    let far_ahead = OffsetDateTime::UNIX_EPOCH + Duration::weeks(52 * 200);
    place(&theirs);
    while harness.feeds.drop_messages(far_ahead, 2).expect("dropped") {}
    assert_eq!(data(list(acme, 9, None)), [], "dropped because of their age");
}

pub(super) fn keeps_feeds_apart(harness: &Harness<'_>) {
    let [ours, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let mut ids = Vec::new();
    for tenant in [&ours, &theirs, &ours] {
        ids.push(tenant.catalog(|tx, _| {
            let message = message(tx, None, "1");
            tx.messages().insert(message.clone())?;
            Ok(message.id)
        }));
        place(tenant);
    }
    let positions = |tenant| feed(tenant, &ALL).messages.into_iter().map(|(position, _)| position).collect::<Vec<_>>();
    assert_eq!((positions(&ours), positions(&theirs)), (vec![1, 2], vec![1]), "each counts by itself");
    let other = theirs.run(&Scope::Organization(theirs.id), |tx, _| tx.messages().get(ids[0]));
    assert!(other.is_err(), "nobody else's");
    assert_eq!(harness.feeds.last_positions(&[theirs.id, ours.id]), Ok(vec![1, 2]));
}

pub(super) fn drops_old_messages(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    for text in ["1", "2", "3"] {
        tenant.catalog(|tx, _| {
            let message = message(tx, None, text);
            tx.messages().insert(message)
        });
    }
    place(&tenant);
    let long_ago = OffsetDateTime::UNIX_EPOCH - Duration::weeks(52);
    harness.feeds.drop_messages(long_ago, 2).expect("nothing is so old");
    assert_eq!(texts(&feed(&tenant, &ALL)), ["1", "2", "3"]);
    let far_ahead = OffsetDateTime::UNIX_EPOCH + Duration::weeks(52 * 200);
    let mut first_kept = 1;
    while harness.feeds.drop_messages(far_ahead, 1).expect("dropped") {
        let rest = feed(&tenant, &ALL);
        assert!((first_kept..=first_kept + 1).contains(&rest.first_kept), "few at once: {rest:?}");
        first_kept = rest.first_kept;
        let left: Vec<u64> = rest.messages.iter().map(|(position, _)| *position).collect();
        assert_eq!(
            (left, rest.reached),
            ((first_kept..=3).collect(), 3),
            "the oldest first, and what is kept is there"
        );
    }
    assert_eq!(feed(&tenant, &ALL), FeedPage::new(Vec::new(), 3, 4), "to the last");
    tenant.catalog(|tx, _| {
        let message = message(tx, None, "4");
        tx.messages().insert(message)
    });
    place(&tenant);
    let rest = feed(&tenant, &FeedRequest { after: 2, ..ALL });
    assert_eq!((texts(&rest), rest.first_kept, rest.reached), (vec!["4"], 4, 4), "positions are never given again");
}

pub(super) fn notes_what_falls_due(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let owner = tenant.new_customer("acme");
    let (customer, now) = (owner.key, tenant.now());
    let due_at = now + Duration::days(30);
    let [paid, unpaid, undated] = [Some(due_at), Some(due_at), None].map(|due_at| {
        let mut invoice = tenant.build(|ids| build::invoice(ids, &owner, now, vec![build::line("fee", "3", now)]));
        invoice.due_at = due_at;
        let id = invoice.id;
        tenant.customer(customer, |tx, _| tx.invoices().issue(invoice.clone()));
        id
    });
    let [whole, part] =
        [(paid, "3"), (unpaid, "1")].map(|(id, amount)| tenant.build(|ids| build::payment(ids, id, amount, now)));
    for payment in [whole, part] {
        tenant.customer(customer, |tx, _| tx.invoices().add_payment(customer, &payment));
    }
    let late = due_at + Duration::days(2);
    let reopened = {
        let mut invoice = tenant.build(|ids| build::invoice(ids, &owner, now, vec![build::line("fee", "3", now)]));
        invoice.due_at = Some(due_at);
        tenant.customer(customer, |tx, _| tx.invoices().issue(invoice.clone()));
        for (amount, noted_at) in [("1", now), ("2", due_at), ("2", late)] {
            let mut payment = tenant.build(|ids| build::payment(ids, invoice.id, amount, noted_at));
            if noted_at == late {
                let settled = tenant.look(|tx, _| tx.invoices().list_payments(customer, Some(invoice.id)));
                (payment.kind, payment.reverses) = (PaymentKind::Reversal, settled.last().map(|settled| settled.id));
            }
            tenant.customer(customer, |tx, _| tx.invoices().add_payment(customer, &payment));
        }
        invoice.id
    };
    let all_due = tenant.customer(customer, |tx, _| tx.invoices().list_falling_due(customer));
    assert!(all_due.contains(&(reopened, late)), "due from when it was unpaid again: {all_due:?}");
    tenant.customer(customer, |tx, _| tx.invoices().note_past_due(customer, reopened, late));
    let (id, at) = paid_again_and_bounced(&tenant, &owner, due_at);
    let all_due = tenant.customer(customer, |tx, _| tx.invoices().list_falling_due(customer));
    assert!(all_due.contains(&(id, at)), "what returned counts as paid: {all_due:?}");
    tenant.customer(customer, |tx, _| tx.invoices().note_past_due(customer, id, at));
    let falling_due = || tenant.customer(customer, |tx, _| tx.invoices().list_falling_due(customer));
    assert_eq!(falling_due(), [(unpaid, due_at)]);
    let mut listed =
        tenant.look(|tx, _| tx.invoices().list_by_id(&[undated, unpaid, no_invoice()].map(|id| (customer, id))));
    listed.sort_by_key(|invoice| invoice.id);
    let mut both = [undated, unpaid];
    both.sort();
    assert_eq!(listed.iter().map(|invoice| invoice.id).collect::<Vec<_>>(), both);
    assert!(listed.iter().all(|invoice| !invoice.lines.is_empty()), "with their lines");
    tenant.customer(customer, |tx, _| tx.invoices().note_past_due(customer, unpaid, due_at));
    assert_eq!(falling_due(), [], "noted once and for all");
    let noted = tenant.look(|tx, _| tx.invoices().get(unpaid)).amount_past_due;
    assert_eq!(noted, Some(2.into()), "with what was due then");
}

/// An invoice of 3 whose overpayment bounced and whose credit came back, which was paid then and is unpaid again: since when.
fn paid_again_and_bounced(
    tenant: &Tenant<'_>,
    owner: &Customer,
    due_at: OffsetDateTime,
) -> (InvoiceId, OffsetDateTime) {
    let (customer, now) = (owner.key, tenant.now());
    let mut invoice = tenant.build(|ids| build::invoice(ids, owner, now, vec![build::line("fee", "3", now)]));
    invoice.due_at = Some(due_at);
    tenant.customer(customer, |tx, _| tx.invoices().issue(invoice.clone()));
    let credit = tenant.new_credit(owner, "2", now);
    let note = |amount: &str, noted_at, change: &dyn Fn(&mut Payment)| {
        let mut payment = tenant.build(|ids| build::payment(ids, invoice.id, amount, noted_at));
        change(&mut payment);
        tenant.customer(customer, |tx, _| tx.invoices().add_payment(customer, &payment));
        payment.id
    };
    let of_credit = |payment: &mut Payment| payment.credit = Some(credit.credit().id);
    let too_much = note("5", now, &|payment| {
        of_credit(payment);
        payment.credited = 2.into();
    });
    note("5", now, &|payment| {
        of_credit(payment);
        (payment.kind, payment.reverses) = (PaymentKind::Reversal, Some(too_much));
    });
    note("2", now, &|payment| {
        of_credit(payment);
        (payment.kind, payment.credited) = (PaymentKind::Returned, 2.into());
    });
    let rest = note("3", now, &|_| {});
    let bounced_at = due_at + Duration::days(5);
    note("3", bounced_at, &|payment| (payment.kind, payment.reverses) = (PaymentKind::Reversal, Some(rest)));
    (invoice.id, bounced_at)
}
