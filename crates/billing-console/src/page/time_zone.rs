//! The time zone that the viewer reads and writes instants in.

use billing_domain::timezone;
use maud::{Markup, html};

use crate::layout::form_token;
use crate::text;

/// The choice of a zone. `own` is the viewer's, where there is one; otherwise that of the organization holds.
pub fn page(own: Option<&str>, of_organization: &str, token: &str) -> Markup {
    html! {
        h1 { (text::YOUR_TIME_ZONE) }
        p { (text::YOUR_TIME_ZONE_HINT) }
        form.act method="post" action="/console/time_zone/" {
            (form_token(token))
            label for="timezone" { (text::TIMEZONE) }
            select id="timezone" name="timezone" {
                option value="" selected[own.is_none()] { (text::ZONE_OF_ORGANIZATION) " (" (of_organization) ")" }
                @for name in timezone::NAMES { option value=(name) selected[own == Some(name)] { (name) } }
            }
            button type="submit" { (text::SAVE) }
            a href="/console/" { (text::BACK) }
        }
    }
}
