//! What is said about the calls that a page is made of.

pub const BY_CURL: &str = "The same by the API";
pub const BY_CURL_HINT: &str = "With an API key in $KEY, and the address of this service in $URL.";
