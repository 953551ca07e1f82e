//! What pages load, compiled in. Nothing is asked of anybody else.

/// Where the assets lie. The version makes browsers ask again after an update.
pub const STYLE_PATH: &str = concat!("/console/style-", env!("CARGO_PKG_VERSION"), ".css");
/// The script: keys, double clicks, events as they come in. Everything works without it.
pub const SCRIPT_PATH: &str = concat!("/console/script-", env!("CARGO_PKG_VERSION"), ".js");
/// The mark of the console.
pub const ICON_PATH: &str = "/console/icon.svg";

/// Path, media type and text of each.
pub const ALL: [(&str, &str, &str); 3] = [
    (STYLE_PATH, "text/css; charset=utf-8", include_str!("asset/style.css")),
    (SCRIPT_PATH, "text/javascript; charset=utf-8", include_str!("asset/script.js")),
    (ICON_PATH, "image/svg+xml", include_str!("asset/icon.svg")),
];

/// What pages may load and where their forms may go: this service, and nothing written into the page itself.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
