//! What pages load, compiled in. Nothing is asked of anybody else.

/// Where the assets lie. The version makes browsers ask again after an update.
pub const STYLE_PATH: &str = concat!("/console/style-", env!("CARGO_PKG_VERSION"), ".css");
/// htmx, as it was published: parts of pages that are looked at again.
pub const HTMX_PATH: &str = "/console/htmx-2.0.11.min.js";
/// What browsers hold it against before they run it.
pub const HTMX_DIGEST: &str = "sha384-2OatzQy1H+Zd/IIrjr1TcuDGqLXeHhbooAyJY1KdQMKnr4LZ22k31GBLdYKHmVjg";
/// What it may not do: write styles into a page, evaluate text as a program, run scripts of answers, keep pages in the browser's store.
pub const HTMX_SETTINGS: &str =
    r#"{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"historyCacheSize":0}"#;
/// The script: keys, double clicks, events as they come in. Everything works without it.
pub const SCRIPT_PATH: &str = concat!("/console/script-", env!("CARGO_PKG_VERSION"), ".js");
/// The mark of the console.
pub const ICON_PATH: &str = "/console/icon.svg";

/// Path, media type and text of each.
pub const ALL: [(&str, &str, &str); 4] = [
    (STYLE_PATH, "text/css; charset=utf-8", include_str!("asset/style.css")),
    (HTMX_PATH, "text/javascript; charset=utf-8", include_str!("asset/htmx-2.0.11.min.js")),
    (SCRIPT_PATH, "text/javascript; charset=utf-8", include_str!("asset/script.js")),
    (ICON_PATH, "image/svg+xml", include_str!("asset/icon.svg")),
];

/// What pages may load and where their forms may go: this service, and nothing written into the page itself.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
