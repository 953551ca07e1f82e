//! Calls that change something, as the audit log tells of them.
//!
//! No handler has a part in it. The route of a call that is no GET says which call it is and what it is about; that travels with
//! the caller to the one place where changing transactions are begun (`App::on_catalog` and its like), which adds the entry.

use std::sync::Arc;

use billing_domain::approval::{Approved, HeldCall};
use billing_domain::audit::{Actor, Change};
use billing_domain::id::CustomerKey;
use billing_domain::store::{Scope, Transaction};
use billing_domain::{Error, StoreError};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::operation_id::singular;

/// A field that holds a secret now and then, beside those that calls always reveal: it is shown to the caller once and noted nowhere.
const SECRET: &str = "tax_provider_secret";
/// What stands in their place.
const REDACTED: &str = "[redacted]";

/// Calls whose path does not begin with what they are about: the kind of that, and the field or the part of the path that names it.
const OTHERS: &[(&str, &str, &str)] = &[
    ("create_plan_version", "plan_version", "version_id"),
    ("create_invoice_payment", "payment", "payment_id"),
    ("reverse_payment", "payment", "payment_id"),
    ("create_one_off_line", "one_off_line", "one_off_line_id"),
    ("delete_one_off_line", "one_off_line", "one_off_line_id"),
    ("retry_customer_billing", "customer", "customer_id"),
    ("invite_user", "invitation", "email"),
    ("delete_session", "session", "prefix"),
];

/// A thing: its id in the usual spelling, and what is shown of it as JSON.
pub type Shown = (String, String);

/// Shows a thing of this kind and name as it is, one of a customer's or of the organization's; `None` where there is no such thing,
/// or none that ever changes.
pub type Show =
    fn(&mut dyn Transaction, (&str, &str), Option<CustomerKey>, OffsetDateTime) -> Result<Option<Shown>, Error>;

/// What a call is about, as its row in the table of routes says.
#[derive(Debug)]
pub struct About {
    operation: String,
    kind: String,
    /// The part of the path, or the field of the answer, that names the thing.
    named_by: String,
    /// The field of the answer that is shown this once.
    secret: Option<&'static str>,
}

impl About {
    /// Of a call that may change something.
    pub fn of(operation: String, path: &str, secret: Option<&'static str>) -> Self {
        if let Some((_, kind, named_by)) = OTHERS.iter().find(|(other, ..)| *other == operation) {
            return Self { operation, kind: (*kind).to_owned(), named_by: (*named_by).to_owned(), secret };
        }
        let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != "api");
        let kind = singular(parts.next().unwrap_or_default());
        let in_path = parts.next().and_then(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let named_by = in_path.map_or_else(|| named_by(&kind), str::to_owned);
        Self { operation, kind, named_by, secret }
    }

    /// The part of the path, or the field of the answer, that names the thing.
    pub fn named_by(&self) -> &str {
        &self.named_by
    }
}

/// The field by which an answer names a thing.
fn named_by(kind: &str) -> String {
    match kind {
        "api_key" | "access_token" => "prefix".to_owned(),
        "currency" => "code".to_owned(),
        kind => format!("{kind}_id"),
    }
}

/// A call on its way to the transaction that does what it asks for.
#[derive(Clone, Debug)]
pub struct Call {
    about: Arc<About>,
    /// What its path names.
    named: Option<String>,
    address: Option<String>,
    /// What is kept of it where it may have to wait for a second person.
    held: Option<Arc<HeldCall>>,
}

/// Who makes a call, and by which request.
#[derive(Clone, Debug)]
pub struct Maker {
    /// Who.
    pub actor: Actor,
    /// The request.
    pub request_id: String,
    /// What a second person has approved.
    pub approved: Option<Approved>,
}

impl Call {
    /// A call about what its path names, from this address.
    pub fn new(about: Arc<About>, named: Option<String>, address: Option<String>) -> Self {
        Self { about, named, address, held: None }
    }

    /// With what is kept of it where it has to wait for a second person.
    #[must_use]
    pub fn keeping(self, method: String, path: String, body: Option<String>) -> Self {
        let held = HeldCall { operation: self.about.operation.clone(), method, path, body };
        Self { held: Some(Arc::new(held)), ..self }
    }

    /// What is kept of it where it has to wait for a second person.
    pub fn held(&self) -> Option<&HeldCall> {
        self.held.as_deref()
    }

    /// Where it came from.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Notes a request for a second person that was made of it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn note_request(&self, tx: &mut dyn Transaction, maker: &Maker, id: String, view: String) -> Result<(), Error> {
        tx.audit_log().insert(Change {
            actor: maker.actor.clone(),
            address: self.address.clone(),
            request_id: maker.request_id.clone(),
            operation: self.about.operation.clone(),
            kind: "approval".to_owned(),
            subject: Some(id),
            customer: None,
            before: None,
            after: Some(view),
        })
    }

    /// Does `work` and notes what it changed.
    ///
    /// # Errors
    /// Those of `work` and of the store.
    pub fn note<T: Serialize>(
        &self,
        tx: &mut dyn Transaction,
        show: Show,
        maker: &Maker,
        (scope, now): (&Scope, OffsetDateTime),
        work: &mut dyn FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let customer = match scope {
            Scope::Customer(_, customer) => Some(*customer),
            _ => None,
        };
        // There is one organization, and no path names it.
        let is_organization = self.about.kind == "organization";
        let before = match self.named.as_deref().or(is_organization.then_some("")) {
            Some(named) => show(tx, (&self.about.kind, named), customer, now)?,
            None => None,
        };
        let value = work(tx, now)?;
        let mut after = serde_json::to_value(&value).map_err(|error| StoreError::Internal(error.to_string()))?;
        redact(&mut after, self.about.secret);
        if let (Some(approved), Some(fields)) = (&maker.approved, after.as_object_mut()) {
            let Approved { approval, requested_by, .. } = approved;
            let by = json!({"type": requested_by.kind.as_str(), "id": requested_by.id, "name": requested_by.name});
            fields.insert("approval".to_owned(), json!({"approval_id": approval.to_string(), "requested_by": by}));
        }
        let answered = after.get(&self.about.named_by).and_then(Value::as_str);
        let (named, before) = before.unzip();
        let subject = named.or_else(|| self.named.clone()).or_else(|| answered.map(str::to_owned));
        tx.audit_log().insert(Change {
            actor: maker.actor.clone(),
            address: self.address.clone(),
            request_id: maker.request_id.clone(),
            operation: self.about.operation.clone(),
            kind: self.about.kind.clone(),
            subject,
            customer,
            before,
            after: (!after.is_null()).then(|| after.to_string()),
        })?;
        Ok(value)
    }
}

/// Puts something else in the place of secrets.
fn redact(value: &mut Value, revealed: Option<&str>) {
    for name in [Some(SECRET), revealed].into_iter().flatten() {
        if let Some(secret) = value.get_mut(name).filter(|secret| !secret.is_null()) {
            *secret = Value::from(REDACTED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::routes;

    #[test]
    fn calls_say_what_they_are_about() {
        #[rustfmt::skip]
        let cases = [
            // call,                                                   kind,            named by,          why
            ("POST /api/customers/",                                   "customer",      "customer_id",     "what is made"),
            ("PATCH /api/customers/{customer_id}/",                    "customer",      "customer_id",     "what the path names"),
            ("POST /api/invoices/{invoice_id}/void/",                  "invoice",       "invoice_id",      "something done with it"),
            ("POST /api/plans/{plan_id}/versions/",                    "plan_version",  "version_id",      "what is made, not where"),
            ("POST /api/invoices/{invoice_id}/payments/",              "payment",       "payment_id",      "likewise"),
            ("POST /api/subscriptions/{subscription_id}/addons/attach/", "subscription", "subscription_id", "what it is attached to"),
            ("DELETE /api/api_keys/{prefix}/",                         "api_key",       "prefix",          "a key has no other name"),
            ("POST /api/currencies/",                                  "currency",      "code",            "nor a currency"),
            ("PATCH /api/organization/",                               "organization",  "organization_id", "there is one"),
        ];
        let table = routes::table();
        for (call, kind, named_by, why) in cases {
            let row = table.iter().find(|row| format!("{} {}", row.method, row.path) == call).expect(call);
            let about = About::of(row.operation_id(), row.path, row.secret);
            assert_eq!((about.kind.as_str(), about.named_by.as_str()), (kind, named_by), "{call}: {why}");
        }
        let operations: Vec<String> = table.iter().map(Endpoint::operation_id).collect();
        assert!(OTHERS.iter().all(|(other, ..)| operations.iter().any(|operation| operation == other)));
    }

    #[test]
    fn what_an_answer_reveals_once_is_redacted() {
        #[rustfmt::skip]
        let cases = [
            // answered,                                   revealed,    noted,                                       why
            (json!({"prefix": "a", "key": "a.b"}),         Some("key"), json!({"prefix": "a", "key": REDACTED}),     "what the call reveals"),
            (json!({"prefix": "a", "key": "a.b"}),         None,        json!({"prefix": "a", "key": "a.b"}),        "another call's field is a field"),
            (json!({"tax_provider_secret": "s"}),          None,        json!({"tax_provider_secret": REDACTED}),    "shown now and then"),
            (json!({"tax_provider_secret": null}),         None,        json!({"tax_provider_secret": null}),        "but not now"),
            (Value::Null,                                  Some("key"), Value::Null,                                 "nothing"),
        ];
        for (mut value, revealed, noted, why) in cases {
            redact(&mut value, revealed);
            assert_eq!(value, noted, "{why}");
        }
    }
}
