//! A client of the service's own interface.

use anyhow::{Context, bail};
use serde_json::Value;
use ureq::Agent;

/// Speaks JSON to the service.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    key: String,
}

/// The rest of a list, as a `Link` header names it.
const NEXT: &str = "rel=\"next\"";

impl Client {
    /// A client of the service at `base` (`http://host:port`) that shows `key`.
    pub fn new(base: &str, key: &str) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).build();
        Self { agent: config.into(), base: base.to_owned(), key: key.to_owned() }
    }

    /// The answer to a GET.
    ///
    /// # Errors
    /// No connection, or an answer that is not a success; then with what the service says about it.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(self.fetch(path)?.0)
    }

    /// All items of a list, however many answers it takes.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut next = Some(path.to_owned());
        while let Some(path) = next {
            let (page, link) = self.fetch(&path)?;
            let Value::Array(page) = page else { bail!("GET {path} did not answer with a list") };
            items.extend(page);
            next = link;
        }
        Ok(items)
    }

    /// The answer to a POST.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.agent.post(format!("{}{path}", self.base)).header("X-API-KEY", &self.key);
        let response = request.send_json(body).with_context(|| format!("POST {path}"))?;
        answer("POST", path, response)
    }

    /// A POST whose refusal with `code` is as good as a success.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post_unless(&self, path: &str, body: &Value, code: &str) -> anyhow::Result<()> {
        match self.post(path, body) {
            Err(error) if error.to_string().contains(&format!("\"title\":\"{code}\"")) => Ok(()),
            other => other.map(drop),
        }
    }

    fn fetch(&self, path: &str) -> anyhow::Result<(Value, Option<String>)> {
        let request = self.agent.get(format!("{}{path}", self.base)).header("X-API-KEY", &self.key);
        let response = request.call().with_context(|| format!("GET {path}"))?;
        let link = response.headers().get("link").and_then(|link| link.to_str().ok()).and_then(next_of);
        Ok((answer("GET", path, response)?, link))
    }
}

fn answer(method: &str, path: &str, mut response: ureq::http::Response<ureq::Body>) -> anyhow::Result<Value> {
    let status = response.status();
    let text = response.body_mut().with_config().limit(u64::MAX).read_to_string()?;
    if !status.is_success() {
        bail!("{method} {path} answered {status}: {text}");
    }
    serde_json::from_str(&text).with_context(|| format!("{method} {path} did not answer with JSON"))
}

/// The path behind `<...>; rel="next"`.
fn next_of(link: &str) -> Option<String> {
    let (target, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains(NEXT).then(|| target.find("/api/").map(|at| target[at..].to_owned()))?
}
