//! What is said once for the whole document: licence, address, the nouns in the order of their use, and what an error of each
//! status is.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::calls;
use crate::endpoint::Endpoint;
use crate::error::{PROBLEM_JSON, codes};
use crate::wire::DecimalForm;

/// The noun of all that is about the service itself.
pub const SERVICE: &str = "service";
const SCHEMAS: &str = "#/components/schemas/";

/// The nouns in the order in which one needs them, and what they are.
#[rustfmt::skip]
const NOUNS: &[(&str, &str)] = &[
    ("metrics",                 "What is measured: which events count, and what of them."),
    ("plans",                   "What it costs. A plan has versions."),
    ("plan_versions",           "One set of prices of a plan; what somebody pays is never edited."),
    ("customers",               "Who pays."),
    ("subscriptions",           "Which customer has which plan, from when on; with add-ons and prepaid units."),
    ("track",                   "Usage comes in."),
    ("events",                  "The usage that came in."),
    ("metric_access",           "May they go on?"),
    ("feature_access",          "Do they have it?"),
    ("usage",                   "How much was used, and when."),
    ("invoices",                "What is to be paid, and why."),
    ("payments",                "Money that came for invoices."),
    ("credit_notes",            "What invoices charged, and was taken back."),
    ("credits",                 "Money that waits for invoices."),
    ("addons",                  "What is sold beside plans."),
    ("features",                "What a plan grants beside usage."),
    ("feed",                    "All that became true, in one order."),
    ("webhook_endpoints",       "Who is told of it, and what came of telling them."),
    ("usage_alerts",            "Of what one wants to be told once it is reached."),
    ("test_clocks",             "Months in a moment, for some customers."),
    ("overview",                "How all of it stands this morning."),
    ("billing_queue",           "Whose billing is due, and whose failed."),
    ("books_audits",            "Whether all that is stored adds up."),
    ("organization",            "Who issues invoices, and the settings of all this."),
    ("currencies",              "What prices are in."),
    ("api_keys",                "Who may call."),
    ("users",                   "Who signs in, and what they may."),
    ("approvals",               "What waits for a second person."),
    ("audit_log",               "Who changed what, when and from where."),
    ("access_tokens",           "What existing clients send beside a key."),
    ("ping",                    "Whose key is it?"),
    ("jobs",                    "Long work in the background."),
    ("verify_idems_received",   "Which events are missing?"),
    ("customer_metric_access",  "Deprecated: `metric_access` says more."),
    ("customer_feature_access", "Deprecated: `feature_access` says more."),
    (SERVICE,                   "Health, metrics and descriptions of the service itself; no key needed."),
];

const ABOUT: &str = "Plans, usage events, subscriptions, access checks and invoices. Send an API key in `X-API-KEY`. \
    Requests hold exact decimals as JSON numbers or as text; answers hold JSON numbers with all their digits. Readers that \
    make floats of numbers send `Accept: application/json; numbers=text` and get every decimal as text: \
    `/openapi.json?numbers=text` describes those answers, so make clients of it that are to be exact.";
const ABOUT_TEXTS: &str = "Plans, usage events, subscriptions, access checks and invoices. Send an API key in `X-API-KEY`, and \
    `Accept: application/json; numbers=text` with every request: this document describes the answers to that, whose \
    decimals are text. Requests hold them as JSON numbers or as text.";

/// The document with all that its parts have in common.
pub fn finished(mut document: Value, table: &[Endpoint], form: DecimalForm) -> Value {
    document["info"]["description"] = json!(if form == DecimalForm::Text { ABOUT_TEXTS } else { ABOUT });
    document["info"]["license"] = json!({"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"});
    document["servers"] = json!([{"url": "/", "description": "The service that this document was read from."}]);
    document["security"] = json!([{super::SCHEME: []}]);
    document["tags"] = json!(tags(table));
    let statuses: BTreeSet<u16> = codes::table().into_iter().map(|(_, status, _)| status).collect();
    let named = statuses.into_iter().filter_map(|status| Some((name_of(status)?.to_owned(), error_of(status))));
    document["components"]["responses"] = Value::Object(named.collect());
    for endpoint in table {
        let method = endpoint.method.as_str().to_ascii_lowercase();
        let responses = &mut document["paths"][endpoint.path][&method]["responses"];
        for status in refusals_of(endpoint) {
            // What a call refuses in a way of its own is described already.
            if let Some(name) = name_of(status).filter(|_| responses.get(status.to_string()).is_none()) {
                responses[status.to_string()] = json!({"$ref": format!("#/components/responses/{name}")});
            }
        }
    }
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.values_mut().filter_map(|schema| schema["properties"].as_object_mut()).for_each(mark);
    }
    document
}

fn tags(table: &[Endpoint]) -> Vec<Value> {
    let used: BTreeSet<&str> = table.iter().map(|endpoint| super::tag(endpoint.path)).collect();
    let known = NOUNS.iter().filter(|(name, _)| used.contains(name));
    let known = known.map(|(name, meaning)| json!({"name": name, "description": meaning}));
    let others = used.iter().filter(|name| NOUNS.iter().all(|(known, _)| known != *name));
    known.chain(others.map(|name| json!({"name": name}))).collect()
}

/// The statuses below 500 that a call refuses with.
fn refusals_of(endpoint: &Endpoint) -> BTreeSet<u16> {
    let texts = calls::of_call(endpoint);
    let table = codes::table();
    let statuses = table.iter().filter(|(text, ..)| texts.contains(text)).map(|(_, status, _)| *status);
    statuses.filter(|status| *status < 500).collect()
}

/// What an error of a status is called in the document.
fn name_of(status: u16) -> Option<&'static str> {
    Some(match status {
        400 => "BadRequest",
        401 => "Unauthorized",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        408 => "RequestTimeout",
        409 => "Conflict",
        413 => "ContentTooLarge",
        414 => "UriTooLong",
        415 => "UnsupportedMediaType",
        422 => "UnprocessableContent",
        429 => "TooManyRequests",
        _ => return None,
    })
}

fn error_of(status: u16) -> Value {
    let table = codes::table();
    let texts: Vec<_> = table.iter().filter(|(_, of, _)| *of == status).map(|(text, ..)| *text).collect();
    let problem = json!({"schema": {"$ref": format!("{SCHEMAS}ProblemView")}});
    json!({"description": format!("One of `{}`.", texts.join("`, `")), "content": {PROBLEM_JSON: problem}})
}

/// Marks fields by what is said of them: those that are deprecated, and e-mail addresses.
fn mark(fields: &mut Map<String, Value>) {
    for (name, field) in fields {
        if field["description"].as_str().is_some_and(|text| text.starts_with("Deprecated")) {
            field["deprecated"] = json!(true);
        }
        if name == "email" {
            // Where it may be missing, the text is the first of two choices.
            let text = if field.get("oneOf").is_some() { field.pointer_mut("/oneOf/0") } else { Some(field) };
            if let Some(text) = text.filter(|text| text["type"] == "string") {
                text["format"] = json!("email");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;

    #[test]
    fn every_noun_has_its_place_and_meaning() {
        let used: BTreeSet<String> =
            routes::table().iter().map(|endpoint| super::super::tag(endpoint.path).to_owned()).collect();
        let known: BTreeSet<String> = NOUNS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(used, known, "NOUNS has a row for each, in the order of use");
    }
}
