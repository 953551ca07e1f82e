//! Changes all of a customer's subscriptions that a plan and filters choose.

use time::OffsetDateTime;

use super::create_subscription::{ChoiceFields, VersionChoice, find_choice};
use super::find_subscriptions::{FindSubscriptions, find_subscriptions};
use super::switch_plan::{SwitchPlan, switch_plan};
use super::update_subscription::{UpdateSubscription, check_end, update_subscription};
use crate::error::{Error, FieldErrors, Noun};
use crate::id::{CustomerKey, PlanId};
use crate::store::Transaction;
use crate::subscription::{InvoicingBehavior, Subscription, SwitchUsageBehavior};

/// Which subscriptions to change, and what of them.
#[derive(Clone, Debug)]
pub struct UpdateMatching {
    /// Which; there is one at least.
    pub wanted: FindSubscriptions,
    /// What to change.
    pub change: MatchingChange,
}

/// What to change of all that match.
#[derive(Clone, Debug)]
pub enum MatchingChange {
    /// Their plan.
    Plan {
        /// The new one; its one version that suits the customer is taken.
        plan: PlanId,
        /// When the difference is invoiced.
        invoicing_behavior: InvoicingBehavior,
        /// What becomes of the usage so far.
        usage_behavior: SwitchUsageBehavior,
    },
    /// Their end and renewal; `None` leaves the end as it is.
    End {
        /// The first instant after them.
        end: Option<OffsetDateTime>,
        /// Whether they stop renewing.
        turn_off_auto_renew: bool,
    },
}

/// The fields that the new plan is read from.
const REPLACEMENT: ChoiceFields = ChoiceFields { plan: "replace_plan_id", version: "replace_plan_id" };

/// Changes all or none of them, and answers what they have become.
///
/// # Errors
/// [`Error::NotFound`] when none matches; unknown references and a bad `end_date` by field; those of [`switch_plan`] and
/// [`update_subscription`].
pub fn update_matching(
    tx: &mut dyn Transaction,
    command: &UpdateMatching,
    now: OffsetDateTime,
) -> Result<Vec<Subscription>, Error> {
    command.faults(tx)?.finish(())?;
    let found = find_subscriptions(tx, &command.wanted, now)?;
    if found.is_empty() {
        return Err(Error::NotFound(Noun::Subscription));
    }
    let customer = CustomerKey::derive(tx.organization(), &command.wanted.customer);
    let mut changed = Vec::with_capacity(found.len());
    for subscription in found {
        changed.push(match command.change {
            MatchingChange::Plan { plan, invoicing_behavior, usage_behavior } => {
                let (version, prepaid_units) = (VersionChoice::Plan(plan), Vec::new());
                let command =
                    SwitchPlan { customer, subscription, version, invoicing_behavior, usage_behavior, prepaid_units };
                switch_plan(tx, &command, now).map_err(|error| error.renamed("switch_plan_id", REPLACEMENT.plan))?
            }
            MatchingChange::End { end, turn_off_auto_renew } => {
                let command = UpdateSubscription { customer, subscription, end, turn_off_auto_renew, metadata: None };
                update_subscription(tx, &command, now)?
            }
        });
    }
    Ok(changed)
}

impl UpdateMatching {
    /// What is wrong whatever the subscriptions are.
    fn faults(&self, tx: &mut dyn Transaction) -> Result<FieldErrors, Error> {
        let mut errors = FieldErrors::default();
        let now = self.wanted.look_up(tx, &mut errors)?;
        match self.change {
            MatchingChange::Plan { plan, .. } => {
                find_choice(tx, (VersionChoice::Plan(plan), REPLACEMENT), &mut errors)?;
            }
            MatchingChange::End { end: Some(end), .. } => drop(errors.keep("", check_end(end, now))),
            MatchingChange::End { end: None, .. } => {}
        }
        Ok(errors)
    }
}
