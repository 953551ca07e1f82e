//! One-off lines that invoices bill.

use time::{Duration, OffsetDateTime};

use super::{Harness, Tenant};
use crate::customer::Customer;
use crate::id::{InvoiceId, LineId, OneOffLineId};
use crate::invoice::{LineItem, PaymentStatus, Trace};
use crate::store::{PageRequest, Transaction};
use crate::testing::build::{Ids, invoice, line};
use crate::testing::world::decimal;

fn billed(ids: &mut Ids, at: OffsetDateTime) -> (OneOffLineId, LineItem) {
    let id = ids.next();
    let trace =
        Trace::OneOff { one_off_line_id: id, quantity: None, unit_amount: None, is_taxed: false, created_at: at };
    (id, LineItem::of_invoice("a move", decimal("5"), at, trace))
}

/// Issues an invoice of a fee and these lines, in the place of another or of none.
fn issue(
    tenant: &Tenant<'_>,
    owner: &Customer,
    lines: &[LineItem],
    at: OffsetDateTime,
    replaces: Option<InvoiceId>,
) -> InvoiceId {
    let all = [vec![line("fee", "1.10", at)], lines.to_vec()].concat();
    let mut made = tenant.build(|ids| invoice(ids, owner, at, all));
    made.replaces = replaces;
    tenant.customer(owner.key, |tx, _| {
        if let Some(old) = replaces {
            let mut old = tx.invoices().get(old)?;
            (old.payment_status, old.voided_at, old.replaced_by) = (PaymentStatus::Voided, Some(at), Some(made.id));
            tx.invoices().update(&old)?;
        }
        tx.invoices().issue(made.clone())
    });
    made.id
}

pub(super) fn finds_and_lists_what_is_billed(harness: &Harness<'_>) {
    let (tenant, foreign) = (Tenant::new(harness), Tenant::new(harness));
    let (acme, other) = (tenant.new_customer("acme"), tenant.new_customer("other"));
    let at = |days| acme.created_at + Duration::days(days);
    let made: Vec<_> = (0..3).map(|_| tenant.build(|ids| billed(ids, acme.created_at))).collect();
    let [(first, _), (second, _), (third, _)] = &made[..] else { unreachable!("three were made") };
    let of = |places: &[usize]| places.iter().map(|place| made[*place].1.clone()).collect::<Vec<_>>();
    let old = issue(&tenant, &acme, &of(&[0, 1]), at(1), None);
    let new = issue(&tenant, &acme, &of(&[2]), at(2), None);
    let find = |id: OneOffLineId| tenant.look(|tx, _| tx.invoices().find_one_off_line(acme.key, id));
    assert_eq!(
        [*first, *second, *third].map(find),
        [(old, 2), (old, 3), (new, 2)].map(|(id, place)| Some(LineId::new(id, place)))
    );
    assert_eq!(find(tenant.build(Ids::next)), None);
    let is_known = |tx: &mut dyn Transaction, _| tx.invoices().find_one_off_line(other.key, *first);
    assert_eq!(tenant.look(is_known), None, "of another customer");
    assert_eq!(foreign.look(|tx, _| tx.invoices().find_one_off_line(acme.key, *first)), None, "of another tenant");

    let mut listed = Vec::new();
    let mut page = PageRequest { limit: 2, after: None };
    loop {
        let found = tenant.look(|tx, _| tx.invoices().list_one_off_lines(acme.key, &page));
        listed.extend(found.items);
        page.after = found.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(
        listed,
        [(new, 2), (old, 2), (old, 3)].map(|(id, place)| LineId::new(id, place)),
        "newest invoices first"
    );

    let anew = issue(&tenant, &acme, &of(&[0, 1]), at(3), Some(old));
    assert_eq!([*first, *second].map(find), [2, 3].map(|place| Some(LineId::new(anew, place))), "what was issued anew");
    let all = tenant.look(|tx, _| tx.invoices().list_one_off_lines(acme.key, &PageRequest::first())).items;
    assert_eq!(all, [(anew, 2), (anew, 3), (new, 2)].map(|(id, place)| LineId::new(id, place)), "each once");
}
