//! Every English text of the console. Another language is another file like this one, and those below it.

#![allow(missing_docs, reason = "each text says itself what it is")]

mod api_keys;
mod books_audit;
mod curl;
mod customer;
mod event_tail;
mod openid;
mod plan;
mod plan_builder;
mod test_clock;
mod try_metric;
mod webhook;

pub use self::api_keys::*;
pub use self::books_audit::*;
pub use self::curl::*;
pub use self::customer::*;
pub use self::event_tail::*;
pub use self::openid::*;
pub use self::plan::*;
pub use self::plan_builder::*;
pub use self::test_clock::*;
pub use self::try_metric::*;
pub use self::webhook::*;

// Surroundings.
pub const PRODUCT: &str = "Billing";
pub const HOME: &str = "Home";
pub const CUSTOMERS: &str = "Customers";
pub const CUSTOMER: &str = "Customer";
pub const INVOICES: &str = "Invoices";
pub const INVOICE: &str = "Invoice";
pub const PLANS: &str = "Plans";
pub const PLAN: &str = "Plan";
pub const METRICS: &str = "Metrics";
pub const WEBHOOKS: &str = "Webhooks";
pub const ALERTS: &str = "Alerts";
pub const TEST_CLOCKS: &str = "Test clocks";
pub const AUDIT_LOG: &str = "Audit log";
pub const USERS: &str = "Users";
pub const SETTINGS: &str = "Settings";
pub const SESSIONS: &str = "Signed-in browsers";
pub const SWITCH_ORGANIZATION: &str = "Switch organization";
pub const ORGANIZATIONS: &str = "Your organizations";
pub const ORGANIZATIONS_HINT: &str =
    "This browser looks at one at a time. Pages that are open of another do nothing any more once you switch.";
pub const THIS_ORGANIZATION: &str = "this one";
pub const OPEN: &str = "Open";
pub const API_DOCUMENTS: &str = "API documentation";
pub const SKIP: &str = "Skip to the content";
pub const NAVIGATION: &str = "Main";
pub const SEARCH: &str = "Search";
pub const SEARCH_HINT: &str = "Customer, e-mail, invoice or event";
pub const SIGN_OUT: &str = "Sign out";
pub const TIMES_ARE_IN: &str = "Times are in";
pub const CSV_IS_UTC: &str =
    "Point at one for UTC. Days of documents and periods, and tables as CSV, are the same for everybody.";
pub const YOUR_TIME_ZONE: &str = "Your time zone";
pub const YOUR_TIME_ZONE_HINT: &str = "The console shows you times in this zone, and takes them in it, whichever browser you use. Nothing that is billed depends on it.";
pub const ZONE_OF_ORGANIZATION: &str = "As the organization";
pub const NO_TIME: &str = "this is no date and time.";
pub const TIME_IS_LEFT_OUT: &str = "clocks go forward over it in";
pub const TIME_COMES_TWICE: &str = "clocks show it twice in";
pub const AND: &str = "and";
pub const PREVIOUS: &str = "First page";
pub const NEXT: &str = "Next page";
pub const OPTIONAL: &str = "optional";
pub const SAVE: &str = "Save";
pub const DELETE: &str = "Delete";
pub const BACK: &str = "Back";
pub const NONE: &str = "none";

// Signing in.
pub const SIGN_IN: &str = "Sign in";
pub const EMAIL: &str = "E-mail";
pub const PASSWORD: &str = "Password";
pub const PASSWORD_HINT: &str = "At least 12 characters.";
pub const WRONG_PASSWORD: &str = "E-mail or password is wrong.";
pub const TOO_MANY_TRIES: &str = "Too many tries. Wait a few minutes and try again.";
pub const NO_ORGANIZATION: &str = "You do not belong to any organization any more. Ask an owner.";
pub const WELCOME: &str = "Make the first user";
pub const WELCOME_HINT: &str =
    "It owns the organization. This page opens once, and for fifteen minutes after the service was started.";
pub const MAKE_USER: &str = "Make user and sign in";
pub const INVITATION: &str = "Invitation";
pub const INVITATION_TO: &str = "You are invited to";
pub const INVITATION_KNOWN_HINT: &str =
    "You have a password here already: it is that one. Without one, sign in first, and open this link again.";
pub const INVITATION_SIGNED_IN_HINT: &str = "You are signed in with this address.";
pub const ACCEPT_INVITATION: &str = "Accept and sign in";
pub const INVITATION_IS_OVER: &str =
    "This invitation was taken or replaced, or its time is over. Ask whoever invited you for another one.";
pub const LINK_IS_OVER: &str = "This link has been used, or its time is over. Make a user on the machine of the service: billing-http create-user --help";
pub const PASSWORD_IS_SHORT: &str = "The password must have at least 12 characters, and at most 200.";
pub const EMAIL_IS_BAD: &str = "This is not an e-mail address.";
pub const THIS_BROWSER: &str = "this browser";
pub const BROWSER: &str = "Browser";
pub const SINCE: &str = "Since";
pub const LAST_SEEN: &str = "Last used";
pub const END_SESSION: &str = "End";
pub const SESSIONS_HINT: &str = "A browser is signed out after two hours of rest, and after twelve hours in any case.";

// Errors.
pub const NOT_FOUND: &str = "There is nothing at this address, or it belongs to another organization.";
pub const NOT_FOUND_TITLE: &str = "Not found";
pub const FORBIDDEN: &str = "Your role does not allow this.";
pub const FORBIDDEN_TITLE: &str = "Not allowed";
pub const FAILED_TITLE: &str = "That did not work";
pub const FORM_IS_BROKEN: &str = "The form was incomplete or too old. Open it again.";
pub const FORM_IS_FOREIGN: &str =
    "This form did not come from this page, or you have signed in anew since. Open it again.";
pub const SECTION_FAILED: &str = "This part could not be read:";
pub const TRY_AGAIN: &str = "Reload the page to try again.";
pub const REFERENCE: &str = "Reference for the log:";

// Home.
pub const THIS_MONTH: &str = "Invoiced this month";
pub const LAST_MONTH: &str = "in all of last month";
pub const LAST_MONTH_SO_FAR: &str = "by this time last month";
pub const NOTHING_INVOICED: &str = "Nothing was invoiced this month or last.";
pub const BILLING_LAG: &str = "Billing is behind by";
pub const BILLING_UP_TO_DATE: &str = "nothing";
pub const CUSTOMERS_DUE: &str = "Customers due";
pub const CUSTOMERS_PARKED: &str = "Parked customers";
pub const PARKED_HINT: &str = "Their billing failed too often and waits for a person.";
pub const WEBHOOKS_FAILING: &str = "Failing webhooks";
pub const RECENT_EVENTS: &str = "Events that came in";
pub const EVENTS_IN_LAST_MINUTE: &str = "In the last whole minute";
pub const EVENTS_IN_LAST_HOUR: &str = "In the last hour";
pub const OF_UNKNOWN_CUSTOMERS: &str = "Of unknown customers";
pub const OF_UNKNOWN_NAMES: &str = "Of names no metric counts";
pub const EVENTS_BY_MINUTE: &str = "Events by minute, the last hour";
pub const MINUTE: &str = "Minute";
pub const COUNT_FOR_NOTHING: &str = "Count for nothing";
pub const UNCOUNTED_EVENTS: &str = "Events that count for nothing";
pub const UNCOUNTED_HINT: &str = "Of the last 24 hours, the latest 20 customers and names. They count as soon as the customer is made, or a metric of that name.";
pub const UNKNOWN_CUSTOMER: &str = "Unknown customer";
pub const UNKNOWN_NAME: &str = "No metric of this name";
pub const LATEST: &str = "Latest";
pub const WHY: &str = "Why";
pub const UNPAID_INVOICES: &str = "Unpaid invoices";
pub const NEWEST_UNPAID: &str = "Newest unpaid invoices";
pub const NOTHING_UNPAID: &str = "Nothing is unpaid.";

// The billing run.
pub const BILLING_RUN: &str = "Billing run";
pub const BILLING_QUEUE: &str = "Due now";
pub const NOTHING_DUE: &str = "Nobody's billing is due.";
pub const QUEUE_HINT: &str = "At most a hundred: those that wait for a person first, then those that failed.";
pub const DUE_SINCE: &str = "Due since";
pub const FAILURES: &str = "Failures";
pub const RETRY: &str = "Try again";
pub const RETRY_BILLING: &str = "Try the billing again";
pub const RETRY_EXPLAINED: &str = "The billing run takes the customer up at once, as if nothing had failed.";

// Lists.
pub const NO_CUSTOMERS: &str = "No customers yet. They are made through the API: POST /api/customers/.";
pub const NO_INVOICES: &str = "No invoices here.";
pub const NO_PLANS: &str = "No plans yet.";
pub const NO_METRICS: &str = "No metrics yet. They are made through the API: POST /api/metrics/.";
pub const NO_WEBHOOKS: &str = "No webhook endpoints.";
pub const NO_EVENTS: &str = "No events.";
pub const FILTER: &str = "Show";
pub const AS_CSV: &str = "As a table (CSV)";
pub const ALL: &str = "All";
pub const UNPAID: &str = "unpaid";
pub const PAID: &str = "paid";
pub const VOIDED: &str = "voided";
pub const NAME: &str = "Name";
pub const ID: &str = "Id";
pub const STATUS: &str = "Status";
pub const DUE: &str = "Due";
pub const TOTAL: &str = "Total";
pub const AMOUNT: &str = "Amount";
pub const AMOUNT_DUE: &str = "Amount due";
pub const NUMBER: &str = "Number";
pub const ISSUED: &str = "Issued";
pub const SUBSCRIPTIONS: &str = "Subscriptions";
pub const PERIOD: &str = "Period";
pub const VERSION: &str = "Version";
pub const RENEWS: &str = "renews";
pub const ENDS: &str = "ends";
pub const CANCEL: &str = "Cancel";

// A customer.
pub const USAGE: &str = "Usage against limits";
pub const METRIC: &str = "Metric";
pub const USAGE_BY_DAY: &str = "Usage by day";
pub const USAGE_BY_MONTH: &str = "Usage by month";
pub const USED: &str = "Used";
pub const FREE_UP_TO: &str = "Free up to";
pub const LIMIT: &str = "Limit";
pub const NO_LIMIT: &str = "no limit";
pub const NO_USAGE: &str = "No usage is metered by the present subscriptions.";
pub const NO_SUBSCRIPTIONS: &str = "No subscriptions.";
pub const DRAFT: &str = "Next invoice, as it would be now";
pub const NO_DRAFT: &str = "Nothing to invoice.";
pub const CREDITS: &str = "Credits";
pub const ALL_CREDITS: &str = "All credits";
pub const NO_CREDITS: &str = "No credits.";
pub const REMAINING: &str = "Remaining";
pub const EXPIRES: &str = "Expires";
pub const NEVER: &str = "never";
pub const EVENTS: &str = "Events";
pub const STATEMENT: &str = "Payments and statement";
pub const TEST_CLOCK: &str = "lives by a test clock";
pub const CATCHING_UP: &str = "catching up";
pub const TAX_FAILURE: &str = "Tax";
pub const TIMEZONE: &str = "Time zone";
pub const ADDRESS: &str = "Address";
pub const FILTERS: &str = "Filters";

// A statement.
pub const AT: &str = "When";
pub const KIND: &str = "What";
pub const CREDIT_CHANGE: &str = "Credit";
pub const BALANCE: &str = "Balance";
pub const NO_ENTRIES: &str = "Nothing in this time.";

// Events.
pub const EVENT: &str = "Event";
pub const IDEMPOTENCY_ID: &str = "Idempotency id";
pub const PROPERTIES: &str = "Properties";
pub const COUNTS_FOR: &str = "Counts for";
pub const UNUSABLE_FOR: &str = "unusable for";
pub const COUNTS_FOR_NOTHING: &str = "nothing";
pub const EVENT_COUNTED: &str = "as they came";
pub const EVENT_AMENDED: &str = "amended";
pub const EVENT_VOIDED: &str = "voided";
pub const FROM: &str = "From";
pub const UNTIL: &str = "Until";
pub const EVENTS_OF_LINE: &str = "The events that a line of an invoice stands on, as the line saw them.";
pub const NO_EVENT_NAMED: &str = "No event is chosen.";
pub const RECEIVED: &str = "Received";
pub const SAME_ID: &str = "Another with this id";
pub const MEASURED_ONLY: &str = "measured, and billed by no subscription";
pub const BILLED_BY_SUBSCRIPTION: &str = "billed by a subscription";
pub const BILLED_ON: &str = "Billed on";
pub const NOT_BILLED: &str = "It is on no invoice yet.";
pub const TAKEN_BACK_ON: &str = "Taken back on";

// An invoice.
pub const LINES: &str = "Lines";
pub const LINES_HINT: &str = "Open a line to see how it came about.";
pub const PAYMENTS: &str = "Payments";
pub const NO_PAYMENTS: &str = "No payment was noted.";
pub const NOTE_PAYMENT: &str = "Note a payment";
pub const VOID: &str = "Void";
pub const VOID_INVOICE: &str = "Void this invoice";
pub const SELLER: &str = "Seller";
pub const BILLED_TO: &str = "Billed to";
pub const SALES_TAX: &str = "Sales tax";
pub const PLAN_ADJUSTMENT: &str = "Price adjustment";
pub const WINDOW: &str = "Time";
pub const EVENT_COUNT: &str = "Events";
pub const QUANTITY: &str = "Quantity";
pub const BILLED_BEFORE: &str = "Quantity billed before";
pub const TIER: &str = "Tier";
pub const FROM_TO: &str = "Range";
pub const UNITS: &str = "Units";
pub const BATCHES: &str = "Batches";
pub const PRICE: &str = "Price";
pub const PER: &str = "per";
pub const FREE: &str = "free";
pub const FLAT: &str = "flat";
pub const ABOVE: &str = "and above";
pub const EXACT: &str = "Exact so far";
pub const GIVEN_BEFORE: &str = "On earlier invoices";
pub const FORGIVEN: &str = "Forgiven by voided invoices";
pub const ROUNDED: &str = "Rounded to";
pub const DECIMALS: &str = "decimals";
pub const LINE_AMOUNT: &str = "This line";
pub const UNIT_AMOUNT: &str = "Full price";
pub const COPIES: &str = "Quantity of the subscription";
pub const FRACTION: &str = "Part of the full interval";
pub const OF: &str = "of";
pub const PREPAID: &str = "Prepaid units cost";
pub const SEGMENT: &str = "Prepaid";
pub const SHOW_EVENTS: &str = "Show the events";
pub const RATE: &str = "Rate";
pub const TAXABLE: &str = "Taxable";

// Actions.
pub const CONFIRM_VOID: &str = "Void the invoice";
pub const VOID_EXPLAINED: &str = "The invoice stays, marked as voided, and keeps its number. What credits paid of it goes back to them, and what it billed \
     is not billed again. This cannot be undone.";
pub const KEEP: &str = "Keep it";
pub const REFERENCE_OF_PAYMENT: &str = "Reference";
pub const REFERENCE_HINT: &str =
    "What tells it from other payments, such as the bank's reference. An invoice takes each only once.";
pub const METHOD: &str = "Way";
pub const METHOD_HINT: &str = "In your words: bank, card.";
pub const AMOUNT_HINT: &str = "What is more than due becomes a credit.";
pub const CANCEL_SUBSCRIPTION: &str = "Cancel this subscription";
pub const CANCEL_EXPLAINED: &str = "The subscription and its add-ons end now.";
pub const FEES: &str = "Fees of the present period";
pub const FEES_AS_AGREED: &str = "as each fee says itself";
pub const FEES_REFUND: &str = "refund them";
pub const FEES_PRORATE: &str = "charge the time until now";
pub const FEES_FULL: &str = "charge them in full";
pub const USAGE_UNTIL_NOW: &str = "Usage that is not billed yet";
pub const USAGE_BILL: &str = "bill it";
pub const USAGE_DROP: &str = "drop it";
pub const INVOICING: &str = "Invoice";
pub const INVOICE_NOW: &str = "now";
pub const INVOICE_LATER: &str = "at the end of the period";

// Changes of subscriptions.
pub const PREVIEW: &str = "Show what it comes to";
pub const PREVIEWED: &str = "What it comes to";
pub const PREVIEW_EXPLAINED: &str = "Nothing is done yet. Usage that comes in meanwhile is billed too.";
pub const AT_ONCE: &str = "Invoiced at once";
pub const NOTHING_AT_ONCE: &str = "Nothing is invoiced at once.";
pub const NEXT_INVOICE: &str = "The next invoice then";
pub const NOTHING_NEXT: &str = "Nothing is left to invoice.";
pub const NEXT_INVOICE_BEFORE: &str = "Next invoice without it";
pub const NEXT_INVOICE_AFTER: &str = "Next invoice with it";
pub const MORE_COMES: &str =
    "It begins so long ago that it is invoiced step by step. These are the first invoices; more come by themselves.";
pub const NEW_SUBSCRIPTION: &str = "Subscribe to a plan";
pub const NEW_SUBSCRIPTION_EXPLAINED: &str = "It begins on a day, also one in the past: what is due since is invoiced.";
pub const BEGINS_ON: &str = "Begins on";
pub const ENDS_ON: &str = "Ends on";
pub const ENDS_ON_HINT: &str = "Empty: as long as the plan lasts.";
pub const AT_ITS_END: &str = "At its end";
pub const RENEWS_THEN: &str = "it renews";
pub const ENDS_THEN: &str = "it ends";
pub const SWITCH_PLAN: &str = "Switch the plan";
pub const SWITCH: &str = "Switch";
pub const SWITCH_EXPLAINED: &str =
    "The rest of the period goes on with the new plan. What is paid of the old one is settled against it.";
pub const USAGE_OF_SWITCH: &str = "Usage of the running interval";
pub const USAGE_GOES_ON: &str = "goes on with the new plan";
pub const USAGE_STAYS: &str = "is billed by the old plan";
pub const ATTACH_ADDON: &str = "Attach an add-on";
pub const ADDON: &str = "Add-on";
pub const ADDON_EXPLAINED: &str = "It ends with the subscription, and renews with it when it recurs.";
pub const NO_OTHER_PLANS: &str = "There is no other plan.";
pub const NO_ADDONS: &str = "There are no add-ons. They are made through the API: POST /api/addons/.";
pub const ADDON_QUANTITY_HINT: &str = "Multiplies its fees.";
pub const CANCEL_ADDON: &str = "Cancel an add-on";
pub const CANCEL_ADDON_EXPLAINED: &str = "The add-on ends now. The subscription goes on.";
pub const NOTHING_ATTACHED: &str = "No add-on is attached.";
pub const CHANGE_END: &str = "Change end or renewal";
pub const CHANGE_END_EXPLAINED: &str = "What is gained or lost in time is billed, or taken back, with the next invoice. Add-ons end when the subscription does.";
pub const END_LINK: &str = "End";
pub const END_STAYS_HINT: &str = "Its last day. Empty: it stays as it is.";
pub const AS_IT_IS: &str = "as it is";
pub const PREPAID_UNITS: &str = "Change prepaid units";
pub const UNITS_LINK: &str = "Units";
pub const PREPAID_UNITS_EXPLAINED: &str =
    "From now on so many units are paid for in advance; only the difference is billed.";
pub const NO_PREPAID_UNITS: &str = "Nothing of this plan is paid for in advance.";
pub const MORE_UNITS: &str = "More units are invoiced";
pub const BY_THE_PLAN: &str = "by the plan";
pub const CHANGE: &str = "Change";

// Plans, metrics, webhooks.
pub const VERSIONS: &str = "Versions";
pub const ACTIVE_SUBSCRIPTIONS: &str = "Active subscriptions";
pub const DURATION: &str = "Duration";
pub const RECURRING_CHARGES: &str = "Recurring charges";
pub const FEATURES: &str = "Features";
pub const PRICE_CURVES: &str = "Price curves";
pub const OF_VERSION: &str = "of version";
pub const VERSION_OF_PLAN: &str = "version";
pub const NO_VERSIONS: &str = "This plan has no version yet.";
pub const NO_COMPONENTS: &str = "Nothing is charged by usage.";
pub const NO_CURVE: &str = "These prices cannot be drawn.";
pub const CURVE_EXPLAINED: &str =
    "What so many units cost in one interval, before price adjustments and tax. The marks are the bounds of the tiers.";
pub const COMPARE_VERSIONS: &str = "Compare versions";
pub const COMPARE: &str = "Compare";
pub const COMPARED_FROM: &str = "From";
pub const COMPARED_TO: &str = "To";
pub const NOTHING_DIFFERS: &str = "Nothing differs.";
pub const LINES_DIFFER: &str = "lines differ.";
pub const DIFFERS: &str = "differs";
pub const DIFFERS_BY: &str = "Difference";
pub const TERM: &str = "Term";
pub const INVOICED: &str = "invoiced";
pub const INVOICED_HOW_OFTEN: &str = "Invoiced";
pub const SOME_UNITS: &str = "units";
pub const EACH_PERIOD: &str = "each period";
pub const EVERY: &str = "every";
pub const BEGINS_ANEW: &str = "Reset interval";
pub const PRICED: &str = "Priced";
pub const IN_BULK: &str = "all units by the tier that holds them";
pub const TIER_BY_TIER: &str = "tier by tier";
pub const AS_SUBSCRIBED: &str = "as subscribed";
pub const TIMING: &str = "Timing";
pub const AGGREGATION: &str = "Aggregation";
pub const METRIC_KIND: &str = "Kind";
pub const URL: &str = "Address";
pub const FAILING_SINCE: &str = "Failing since";
pub const EVENT_TYPES: &str = "Messages";
pub const EVERY_TYPE: &str = "all";

// Search.
pub const NOTHING_FOUND: &str =
    "No customer's id or name begins like this, and nothing has it as its e-mail address, its number or an event's id.";
pub const MORE_FOUND: &str = "There may be more. Type more of it.";
pub const MORE_EVENTS_FOUND: &str = "More customers have an event with this id.";
pub const SEARCH_EMPTY: &str = "Type the beginning of a customer's name or id, an e-mail address, the number of an invoice, or the id of an event.";

// Credits and credit notes.
pub const CURRENCY: &str = "Currency";
pub const DESCRIPTION: &str = "Description";
pub const REASON: &str = "Reason";
pub const GIVE_CREDIT: &str = "Give a credit";
pub const GIVE_CREDIT_EXPLAINED: &str = "The next invoices in this currency are paid from it first.";
pub const CREDIT_DESCRIPTION_HINT: &str = "What it was given for.";
pub const VOID_CREDIT: &str = "Void this credit";
pub const CONFIRM_VOID_CREDIT: &str = "Void what is left";
pub const VOID_CREDIT_EXPLAINED: &str = "What is left of it pays no invoice any more. What it has paid stays paid.";
pub const CREDIT_NOTES: &str = "Credit notes";
pub const NO_CREDIT_NOTES: &str = "No credit notes.";
pub const ONE_OFF_LINES: &str = "One-off lines";
pub const ONE_OFF_LINES_EXPLAINED: &str = "What is charged once and belongs to no subscription. It waits for the next invoice in its currency, and can be removed until then.";
pub const NO_ONE_OFF_LINES: &str = "Nothing waits for the next invoice.";
pub const CHARGE_ONCE: &str = "Charge once";
pub const ONE_OFF_NAME_HINT: &str = "What it is for, as the invoice says it.";
pub const ONE_OFF_AMOUNT_HINT: &str = "Before tax; or a quantity and the price of one.";
pub const PRICE_OF_ONE: &str = "Price of one";
pub const CURRENCY_HINT: &str = "Empty: the customer's own.";
pub const TAX_ADDED: &str = "is added";
pub const TAX_NOT_ADDED: &str = "is not added";
pub const BILLED_WHEN: &str = "Billed";
pub const WITH_NEXT_INVOICE: &str = "with the next invoice";
pub const BILLED_AT_ONCE: &str = "at once, on an invoice of its own";
pub const NO_LINE_NAMED: &str = "No line is chosen.";
pub const REMOVE_LINE: &str = "Remove";
pub const CORRECTIONS: &str = "Corrections";
pub const CORRECTIONS_EXPLAINED: &str = "What this invoice billed of usage, and what it comes to by the events as they are now. Nothing is written by looking.";
pub const ON_NEXT_INVOICE: &str = "Comes with the next invoice";
pub const BY_CREDIT_NOTE: &str = "A credit note gives back";
pub const CREDITED: &str = "Credited";
pub const LINE: &str = "Line";
pub const UNITS_BILLED: &str = "Units billed";
pub const UNITS_NOW: &str = "Units now";
pub const DIFFERENCE: &str = "Difference, with tax";
pub const OUTLOOK: &str = "What becomes of it";
pub const NOT_BY_EVENTS: &str = "no usage";
pub const OUTLOOK_NEXT_INVOICE: &str = "on the next invoice";
pub const OUTLOOK_NOT_ANY_MORE: &str = "not looked at any more";
pub const OUTLOOK_HANDED_ON: &str = "priced by the new plan";
pub const OUTLOOK_DROPPED: &str = "dropped with the subscription";
pub const CORRECT_BY_CREDIT_NOTE: &str = "Give it back by a credit note";
pub const CORRECT_BY_CREDIT_NOTE_EXPLAINED: &str =
    "At once, and line by line; the next invoice does not give it back again.";
pub const NOTHING_TO_GIVE_BACK: &str = "There is nothing to give back.";
pub const REBILL: &str = "And then";
pub const REBILL_NOT: &str = "issue no other invoice";
pub const REBILL_ANEW: &str = "rebill it from today's events";
pub const REBILL_HINT: &str =
    "An invoice in its place takes today's events, subscriptions and tax rate, and forgives nothing.";
pub const REPLACES: &str = "Stands in the place of";
pub const REPLACED_BY: &str = "Replaced by";
pub const CREATE_CREDIT_NOTE: &str = "Create a credit note";
pub const CREDIT_NOTE_EXPLAINED: &str = "It takes back a part of the invoice, spread over its lines with their tax, and never more than what is left of them.";
pub const CREDIT_NOTE_AMOUNT_HINT: &str = "Tax included.";
pub const SETTLEMENT: &str = "What was paid already";
pub const TO_BALANCE: &str = "becomes a credit";
pub const OUTSIDE: &str = "is paid back outside";
pub const REFUND_REFERENCE_HINT: &str = "What tells the refund, where it is paid back outside.";
pub const VOID_CREDIT_NOTE: &str = "Void this credit note";
pub const CONFIRM_VOID_CREDIT_NOTE: &str = "Void the credit note";
pub const VOID_CREDIT_NOTE_EXPLAINED: &str =
    "It keeps its number, and takes nothing back any more. This cannot be undone.";

// Alerts.
pub const ALERTS_HINT: &str = "Each tells once in an interval, by a message to webhook endpoints and the feed.";
pub const NO_ALERTS: &str = "No alerts.";
pub const NEW_ALERT: &str = "Add an alert";
pub const DELETE_ALERT: &str = "Delete this alert";
pub const DELETE_ALERT_EXPLAINED: &str = "It tells nothing any more.";
pub const WATCHED: &str = "What is watched";
pub const WATCHED_USAGE: &str = "usage of a metric";
pub const WATCHED_SPEND: &str = "spend of the running period";
pub const WATCHED_CREDIT: &str = "what is left of credits";
pub const WATCHED_UNITS: &str = "what is left of prepaid units";
pub const THRESHOLD: &str = "Threshold";
pub const UNIT: &str = "Threshold as";
pub const ABSOLUTE: &str = "a number";
pub const OF_LIMIT: &str = "of the limit";
pub const OF_FREE: &str = "of the free units";
pub const FOR_WHOM: &str = "Whose";
pub const HOLDERS_OF: &str = "everybody with the plan version";
pub const EVERY_CUSTOMER: &str = "every customer";
pub const ALERT_METRIC_HINT: &str = "Its id, for usage and prepaid units.";
pub const ALERT_CURRENCY_HINT: &str = "For spend and credits.";
pub const ALERT_CUSTOMER_HINT: &str = "One customer, or a plan version, or nothing: then it is about every customer.";

// The audit log.
pub const WHO: &str = "Who";
pub const OPERATION: &str = "Operation";
pub const FROM_WHERE: &str = "From";
pub const REQUEST: &str = "Request";
pub const BEFORE: &str = "Before";
pub const AFTER: &str = "After";
pub const NO_ENTRIES_OF_LOG: &str = "Nothing was changed that fits.";

// Users.
pub const ROLE: &str = "Role";
pub const CHANGE_ROLE: &str = "Change the role";
pub const INVITE: &str = "Invite somebody";
pub const INVITED: &str = "Invited";
pub const INVITE_EXPLAINED: &str = "You get a link to pass on. Whoever opens it chooses a password.";
pub const INVITED_EXPLAINED: &str = "Pass on this link. It opens once, and is not shown again.";
pub const REMOVE_USER: &str = "Remove";
pub const REMOVE_USER_EXPLAINED: &str =
    "They are signed out of this organization everywhere, at once. What they did stays in the audit log.";
pub const ROLE_READER: &str = "reader: looks at everything, changes nothing";
pub const ROLE_SUPPORT: &str = "support: changes what customers hold";
pub const ROLE_FINANCE: &str = "finance: sees to invoices, payments and credits";
pub const ROLE_DEVELOPER: &str = "developer: connects other programs";
pub const ROLE_OWNER: &str = "owner: everything, users included";

// Webhooks.
pub const WEBHOOK: &str = "Webhook endpoint";
pub const NEW_WEBHOOK: &str = "New endpoint";
pub const NEW_WEBHOOK_EXPLAINED: &str =
    "Messages are posted to it, signed, a moment after what they tell has come true.";
pub const URL_HINT: &str = "The whole address, over HTTPS.";
pub const EVENT_TYPES_HINT: &str = "As invoice.created, invoice.paid. Empty: every type.";
pub const WEBHOOK_MADE: &str = "Endpoint made";
pub const SECRET_EXPLAINED: &str = "Its messages are signed with this secret. It is not shown again.";
pub const ATTEMPTS: &str = "Attempts";
pub const ATTEMPT: &str = "Attempt";
pub const NO_ATTEMPTS: &str = "Nothing was sent yet.";
pub const MESSAGE: &str = "Message";
pub const TOOK: &str = "Took";
pub const ANSWER: &str = "Answer";
pub const REPLAY: &str = "Send again";
pub const REPLAY_EXPLAINED: &str = "Messages keep their ids, so a receiver that keeps them in mind takes each once.";
pub const REPLAY_ONE_HINT: &str = "The id of one message, or";
pub const REPLAY_SINCE_HINT: &str = "all since then.";

// Settings.
pub const SETTINGS_EXPLAINED: &str =
    "They hold for what is done from now on; invoices that were issued stay as they are.";
pub const EVENT_WINDOW: &str = "Events are taken for";
pub const DAYS: &str = "days";
pub const TAX_PROVIDERS: &str = "Tax is asked of";
pub const TAX_RATE: &str = "Tax rate";
pub const TAX_RATE_HINT: &str = "In percent, for customers without one of their own.";
pub const ZONE_HINT: &str = "As Europe/Berlin. New customers live by it.";
pub const DEFAULT_CURRENCY_HINT: &str = "What is meant where no currency is named.";
pub const PAYMENT_GRACE: &str = "Days to pay";
pub const PAYMENT_GRACE_HINT: &str = "Empty: invoices have no due date.";
pub const INVOICE_GRACE: &str = "Minutes to wait for late events";
pub const INVOICE_GRACE_HINT: &str = "A period is invoiced so long after its end.";

// A second person for large amounts.
pub const APPROVALS: &str = "Approvals";
pub const APPROVALS_HINT: &str =
    "What comes to more than one person may do alone waits here for another one, for seven days.";
pub const WAITING: &str = "Waiting";
pub const NOTHING_WAITS: &str = "Nothing waits for a second person.";
pub const DECIDED: &str = "Decided";
pub const NOTHING_DECIDED: &str = "Nothing was decided yet.";
pub const ASKED_FOR: &str = "Asked for";
pub const ASKED_BY: &str = "Asked by";
pub const ASKED_AT: &str = "Asked at";
pub const WAITS_UNTIL: &str = "Waits until";
pub const DECIDED_BY: &str = "Decided by";
pub const DECIDED_AT: &str = "Decided at";
pub const WHY_FAILED: &str = "Refused with";
pub const SENT_WITH: &str = "Sent with";
pub const A_CREDIT: &str = "Credit";
pub const A_CREDIT_NOTE: &str = "Credit note";
pub const API_KEY: &str = "API key";
pub const NOTE_OVERPAYMENT: &str = "Note a payment of more than is due";
pub const REMOVE_ONE_OFF_LINE: &str = "Remove a one-off line";
pub const CHANGE_LIMIT: &str = "Change the limit for one person";
pub const APPROVE: &str = "Approve";
pub const APPROVE_EXPLAINED: &str =
    "Approving does it at once, in your name. It is refused when it now comes to more than was asked for.";
pub const APPROVED_EXPLAINED: &str =
    "It was approved, and nobody has seen yet what came of it. Approve it again to finish it: it is done once.";
pub const WAITS_FOR_ANOTHER: &str = "Nothing is done yet: this comes to more than one person may do alone. Another owner or somebody of finance has to approve it.";
pub const DECLINE: &str = "Decline";
pub const DECLINE_REQUEST: &str = "Decline this request";
pub const DECLINE_HINT: &str = "Whoever asked reads it.";
pub const WITHDRAW: &str = "Withdraw";
pub const WITHDRAW_REQUEST: &str = "Withdraw this request";
pub const APPROVAL_LIMIT: &str = "Limit for one person";
pub const APPROVAL_LIMIT_HINT: &str = "A number that holds for each currency. Empty: no limit.";
pub const APPROVAL_LIMIT_EXPLAINED: &str = "What gives away or takes more than this by one step waits for a second person. Raising the limit or \
    taking it away waits for one, too.";
pub const MANY: &str = "100 or more";
pub const WAITING_FOR_SECOND: &str = "waiting for a second person";
