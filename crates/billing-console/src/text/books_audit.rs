//! What the pages of audits of the books say.

pub const BOOKS: &str = "Audit of the books";
pub const BOOKS_AUDIT: &str = "An audit of the books";
pub const BOOKS_HINT: &str = "Everything is computed again from what is stored, apart from the code that billed it, and held against it: \
    sums, prices, taxes, credits, numbers, periods, usage.";
pub const NEVER_AUDITED: &str = "Nobody has had the books audited yet.";
pub const AUDITS_BEFORE: &str = "Before";
pub const AUDIT_NOW: &str = "Audit now";
pub const AUDIT_THE_BOOKS: &str = "Audit the books";
pub const AUDIT_EXPLAINED: &str = "It runs in the background, beside the service, on one processor of the database: some seconds, or minutes \
    where there are many events. Nothing is changed. One audit runs at a time, so it may wait for others.";
pub const RESULT: &str = "Result";
pub const AUDIT_RUNNING: &str = "Under way";
pub const AUDIT_CLEAN: &str = "Everything adds up";
pub const AUDIT_BREACHED: &str = "Something does not add up";
pub const AUDIT_FAILED: &str = "Not carried out";
pub const LOOK_AGAIN: &str = "Look again";
pub const CHECKS_DONE: &str = "Checks done";
pub const BREACHES: &str = "Breaches";
pub const ASKED_FOR_AT: &str = "Asked for";
pub const ENDED_AT: &str = "Ended";
pub const WHAT_IS_WRONG: &str = "What does not add up";
pub const BREACHES_HINT: &str = "None of it is put right by itself. Keep the database as it is, make a backup, and tell whoever operates the service.";
pub const CHECK: &str = "Check";
pub const ABOUT: &str = "About";
pub const PROBLEM: &str = "Problem";
pub const MORE_BREACHES: &str = "The first of them are shown.";
