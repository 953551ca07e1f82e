//! An example of every call that works as it stands: against the demo's organization, or any other with data.
//!
//! What a call needs, its example makes or finds by running the examples of other calls. In any text of an example
//!
//! | text | stands for |
//! |---|---|
//! | `@now`, `@soon` | this instant; one in twenty days |
//! | `@today` | the date in UTC |
//! | `@unique` | digits that have not been there before |
//! | `@operation_id#/pointer` | what the JSON pointer finds in the answer to the example of another call |

use std::collections::BTreeMap;

use serde_json::Value;

/// What goes into a call.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Example {
    /// The parts of the path, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub path: BTreeMap<String, Value>,
    /// The query parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, Value>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

/// Every example by operation id. A call that needs nothing has none.
pub fn examples() -> BTreeMap<String, Example> {
    // The file is part of the program, and a test runs every example: a bad one never gets here.
    serde_json::from_str(include_str!("examples.json")).unwrap_or_default()
}
