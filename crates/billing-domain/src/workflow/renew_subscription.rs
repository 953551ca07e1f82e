//! Renews a subscription at the end of its period, with its add-ons.

use super::account::Account;
use super::bundle::Bundle;
use crate::error::Error;
use crate::id::SubscriptionId;
use crate::message::MessageType;
use crate::store::Transaction;
use crate::subscription::Subscription;

/// Puts the next period's subscription in place of one that has come to its end: a new id, the same filters,
/// quantity, metadata and prepaid units. Its charges in advance wait for the invoice of the boundary. Add-ons that
/// recur renew with it, the others end.
///
/// Where the next version would be another, that one is taken. A subscription does not renew when its plan has
/// no duration, or when another subscription has taken the time and filters that it would need: it just ends.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn renew_subscription(
    tx: &mut dyn Transaction,
    account: &mut Account,
    id: SubscriptionId,
) -> Result<(), Error> {
    let Some(ended) = account.subscriptions.get(&id).cloned() else { return Ok(()) };
    let held: Vec<_> = account.subscriptions.values().cloned().collect();
    let bundle = Bundle::load(tx, &mut account.catalog, &ended, &held)?;
    let renewed = bundle.renewed(tx, &mut account.catalog)?;
    let others = account.current(tx, ended.period.end())?;
    let is_free = |next: &Bundle| !others.iter().any(|other| other.id != id && other.overlaps(&next.base.subscription));
    let renewed = renewed.filter(is_free);

    let going_on: Vec<_> = renewed.iter().flat_map(Bundle::parts).map(|part| part.subscription.id).collect();
    for part in bundle.parts() {
        let mut ended = part.subscription.clone();
        ended.is_renewed = going_on.contains(&ended.id);
        ended.auto_renew &= ended.is_renewed;
        account.change_unsaved(ended);
    }
    let Some(renewed) = renewed else { return Ok(()) };
    let new_id = SubscriptionId::from(tx.new_uuid());
    for part in renewed.parts() {
        let is_base = !part.subscription.is_addon();
        let renewal = Subscription {
            id: if is_base { new_id } else { tx.new_uuid().into() },
            parent: (!is_base).then_some(new_id),
            is_new: false,
            is_renewed: false,
            replaced_by: None,
            created_at: ended.period.end(),
            ..part.subscription.clone()
        };
        let records = part.offer.records_of(tx, &renewal)?;
        account.add_unsaved(renewal, records);
    }
    account.untold.new_subscription(MessageType::SubscriptionRenewed, ended.period.end(), new_id);
    Ok(())
}
