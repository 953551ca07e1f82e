//! Renews a subscription at the end of its period.

use super::account::Account;
use crate::charge::records_of;
use crate::error::Error;
use crate::id::SubscriptionId;
use crate::store::Transaction;
use crate::subscription::Subscription;

/// Puts the next period's subscription in place of one that has come to its end: a new id, the same filters,
/// quantity, metadata and prepaid units. Its charges in advance wait for the invoice of the boundary.
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
    let Some(mut ended) = account.subscriptions.get(&id).cloned() else { return Ok(()) };
    let current = account.offer(tx, ended.version)?;
    let offer = match current.version.replace_with {
        Some(next) if next != ended.version => account.offer(tx, next)?,
        _ => current,
    };
    let next = ended.next_period(offer.plan.duration, offer.version.anchors);
    let renewal = next.map(|next| {
        let mut renewal = Subscription {
            id: tx.new_uuid().into(),
            version: offer.version.id,
            is_new: false,
            is_renewed: false,
            replaced_by: None,
            created_at: ended.period.end(),
            ..ended.clone()
        };
        renewal.enter(&next);
        renewal
    });
    let others = tx.subscriptions().list_current(account.customer.key, ended.period.end())?;
    let renewal = renewal.filter(|renewal| !others.iter().any(|other| other.id != id && other.overlaps(renewal)));
    match renewal {
        Some(renewal) => {
            ended.is_renewed = true;
            tx.subscriptions().update(&ended)?;
            let records = records_of(&offer.version, &renewal, &mut || tx.new_uuid())?;
            account.add(tx, renewal, records)?;
        }
        None => {
            ended.auto_renew = false;
            tx.subscriptions().update(&ended)?;
        }
    }
    account.subscriptions.insert(id, ended);
    Ok(())
}
