//! The organizations that a user belongs to, with a way into each.

use billing_domain::user::Role;
use maud::{Markup, html};

use crate::layout::form_token;
use crate::text;

/// An organization of the viewer's.
pub struct OrganizationRow {
    /// What names it.
    pub id: String,
    /// How it is called.
    pub name: String,
    /// What the viewer is there.
    pub role: Role,
    /// Whether it is the one that is looked at.
    pub is_this: bool,
}

/// Where the viewer belongs.
pub fn page(rows: &[OrganizationRow], token: &str) -> Markup {
    html! {
        h1 { (text::ORGANIZATIONS) }
        p.quiet { (text::ORGANIZATIONS_HINT) }
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::NAME) } th { (text::ROLE) } th { span.hidden { (text::OPEN) } } } }
            tbody { @for row in rows { tr {
                td.long { (row.name) @if row.is_this { " " span.badge.good { (text::THIS_ORGANIZATION) } } }
                td { (row.role.as_str()) }
                td.right { @if !row.is_this {
                    form method="post" action="/console/organizations/" {
                        (form_token(token))
                        input type="hidden" name="organization_id" value=(row.id);
                        button.quiet type="submit" { (text::OPEN) " " span.hidden { (row.name) } }
                    }
                } }
            } } }
        } }
    }
}
