//! Sentences of the interface's contract, each with the test that fails when it no longer holds. The table of proofs in
//! `docs/api.md` goes by fields and calls; this one by what the contract says in words.

use super::promises::{located, read};

#[rustfmt::skip]
const SENTENCES: &[(&str, &str, &str)] = &[
    // part, what the contract says,                                                                        the test that holds it
    ("2.2", "a version without target customers is public, one with them is custom",                        "resources::plans::filters_keep_plans_and_versions"),
    ("2.3", "prepaid units that are null must be given when the subscription is made",                      "workflow::prepaid::units_must_come_from_somewhere"),
    ("2.4", "a property does not apply to a counter that counts",                                           "resources::metrics::what_a_metric_cannot_use_is_refused_at_its_field"),
    ("2.6", "taxes are a percentage of the customer's own rate",                                            "resources::shapes::lines_of_usage_with_an_adjustment_and_tax"),
    ("2.6", "the customer's tax providers are tried in turn until one knows a rate",                         "resources::tax_providers::without_an_answer_an_invoice_waits_falls_back_or_goes_untaxed"),
    ("2.7", "a line's amount is its price after adjustments, its base the price before",                    "resources::shapes::lines_of_usage_with_an_adjustment_and_tax"),
    ("2.8", "is_new is true at first and false when from a renewal",                                        "resources::subscriptions::a_renewal_is_a_new_subscription"),
    ("2.9", "an add-on subscription shows add-on, id, dates and whether it is fully billed",                "resources::shapes::attached_addons"),
    ("2.11", "access is true when every plan that has the metric is below its total limit",                 "workflow::access::access_ends_exactly_at_the_limit"),
    ("2.11", "with filters only matching subscriptions are considered",                                     "resources::access::filters_choose_subscriptions_in_every_spelling"),
    ("2.11", "a policy of the organization can change what access means",                                   "workflow::access::only_subscriptions_with_the_filters_asked_for_are_considered"),
    ("3",   "an inactive credit is not updated",                                                            "workflow::credit::only_an_active_credit_is_updated"),
    ("3",   "voiding an expired or consumed credit does nothing and is no error",                           "workflow::credit::voiding_takes_what_is_left_once"),
    ("4",   "a plan switch moves the usage to the new subscription unless it is kept separate",             "workflow::switch::the_difference_is_invoiced_now_and_the_usage_goes_on"),
    ("4",   "kept separate, the old usage is charged at the end of the period",                             "workflow::switch::the_old_usage_can_stay_with_the_old_plan"),
    ("4.1", "ping answers the organization that owns the key",                                              "rules::authorization::a_key_says_whose_it_is"),
    ("4.2", "a plan with no matching version is not returned",                                              "resources::plans::filters_keep_plans_and_versions"),
    ("4.4", "invoices are filtered by customer and by one or several statuses",                             "resources::invoices::a_list_keeps_a_customers_and_those_of_a_status"),
    ("4.7", "plan_id alone fails when zero or more than one version match",                                 "resources::plans::a_plan_alone_may_be_too_little_or_too_much"),
    ("4.7", "left out, the end date is computed from the plan",                                             "resources::subscriptions::dates_are_read_by_one_rule"),
    ("4.7", "a cancellation without a plan takes all plans of the customer",                                "resources::matching::subscriptions_are_cancelled_by_customer_plan_and_filters"),
    ("4.7", "the subscription's id changes on a switch, and the old one stops being valid",                 "resources::changes::a_switch_bills_the_difference_and_retires_the_old_id"),
    ("4.7", "fewer prepaid units become a credit, more are invoiced",                                       "workflow::prepaid::a_change_bills_the_difference_and_nothing_else"),
    ("4.7", "flat fees of an add-on are multiplied by its quantity",                                        "resources::addons::an_addon_is_attached_billed_and_cancelled"),
    ("4.7", "an add-on's metadata is returned when the add-on subscription is retrieved",                   "resources::shapes::attached_addons"),
    ("4.8", "ids that were not recorded are told, of 30 days unless said otherwise",                        "resources::track::the_lookback_counts_from_the_customers_now"),
    ("5",   "the Authorization header must start with Token",                                               "rules::authorization::a_token_goes_beside_a_key_and_is_worthless_alone"),
    ("5",   "a key has a name and perhaps an expiry, is shown once, deleted and regenerated",               "rules::authorization::keys_are_made_listed_replaced_and_deleted"),
];

#[test]
fn every_sentence_names_a_test_that_exists() {
    for (part, sentence, test) in SENTENCES {
        let (file, name) = located(test);
        assert!(read(&file).contains(&format!("\nfn {name}()")), "{part}, {sentence}: {file} has no test {name}");
    }
}
