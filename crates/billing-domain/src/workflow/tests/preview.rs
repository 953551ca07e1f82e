//! Previews of changes, where the billing run has not come by yet. What they come to over HTTP is held against the changes themselves.

use time::OffsetDateTime;
use time::macros::datetime;

use crate::decimal::plain;
use crate::error::{Error, Noun};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior};
use crate::testing::world::{World, fee, subscription, version};
use crate::workflow::{CancelSubscription, ChangePreview, cancel_subscription, preview_change};

const APRIL: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
/// Half of May of 31 days is over, and nobody has billed its beginning.
const MIDDLE_OF_MAY: OffsetDateTime = datetime!(2024-05-16 12:00 UTC);

#[test]
fn what_is_due_anyway_is_no_part_of_a_preview() {
    let world = World::at(APRIL);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("31", InAdvance)], Vec::new()));
    let customer = world.customer("acme");
    let april = world.subscribe(&subscription("acme", plan, APRIL)).expect("subscribed").id;
    world.store.set_now(MIDDLE_OF_MAY);

    // Any error undoes it: this one carries out what was shown.
    let mut shown: Option<ChangePreview<_>> = None;
    let undone = world.on("acme", |tx, now| -> Result<(), Error> {
        shown = Some(preview_change(tx, (customer, april), now, &mut |tx, id| {
            let cancellation =
                Cancellation { flat_fee_behavior: Some(FlatFeeBehavior::Refund), ..Cancellation::default() };
            let invoicing_behavior = InvoicingBehavior::InvoiceNow;
            let command = CancelSubscription { customer, subscriptions: vec![id], cancellation, invoicing_behavior };
            cancel_subscription(tx, &command, now)?;
            tx.subscriptions().get(customer, id)
        })?);
        Err(Error::NotFound(Noun::Job))
    });
    assert_eq!(undone, Err(Error::NotFound(Noun::Job)));
    let shown = shown.expect("a preview");
    assert_ne!(shown.changed.id, april, "the renewal, which is made on the way, is what is cancelled");
    let [only] = &shown.invoices[..] else { panic!("{:?}", shown.invoices) };
    let amounts: Vec<String> = only.lines.iter().map(|line| plain(&line.amount)).collect();
    assert_eq!(amounts, ["-31", "31"], "the refund of May, and the credit that it becomes; not May itself");
    assert_eq!(shown.drafts_before.len(), 1, "the next month, as it is");
    assert!(shown.drafts.is_empty(), "nothing comes any more: {:?}", shown.drafts);
    assert_eq!(world.invoices("acme").len(), 1, "nobody has billed May");
}
