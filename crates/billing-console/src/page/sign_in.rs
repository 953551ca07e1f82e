//! Pages before and around a session: signing in, the first user, the browsers that are signed in.

use billing_domain::user::Role;
use maud::{Markup, html};

use crate::layout::form_token;
use crate::text;
use crate::visit::{Viewer, escaped};

/// The form to sign in with, and then go to `to`; beside it the provider of this host, where one is set. `wrong` says what was wrong
/// the last time.
pub fn form(token: &str, to: &str, email: &str, provider: Option<&str>, wrong: Option<&str>) -> Markup {
    html! {
        (notice(wrong))
        form.act method="post" action="/console/sign-in/" {
            (form_token(token))
            input type="hidden" name="to" value=(to);
            label for="email" { (text::EMAIL) }
            input id="email" name="email" type="email" required maxlength="254" autocomplete="username" value=(email)
                autofocus[email.is_empty()];
            label for="password" { (text::PASSWORD) }
            input id="password" name="password" type="password" required maxlength="200" autocomplete="current-password"
                autofocus[!email.is_empty()];
            button type="submit" { (text::SIGN_IN) }
        }
        @if let Some(host) = provider {
            p { a.button.quiet href={ "/console/oidc/sign-in/?to=" (escaped(to)) } { (text::SIGN_IN_WITH) " " (host) } }
        }
        p.quiet { a href="/docs/" { (text::API_DOCUMENTS) } }
    }
}

/// The form that makes the first user.
pub fn welcome(token: &str, action: &str, email: &str, wrong: Option<&str>) -> Markup {
    html! {
        p { (text::WELCOME_HINT) }
        (notice(wrong))
        form.act method="post" action=(action) {
            (form_token(token))
            label for="email" { (text::EMAIL) }
            input id="email" name="email" type="email" required maxlength="254" autocomplete="username" value=(email);
            label for="password" { (text::PASSWORD) }
            input id="password" name="password" type="password" required minlength="12" maxlength="200"
                autocomplete="new-password" aria-describedby="password-hint";
            p.hint id="password-hint" { (text::PASSWORD_HINT) }
            button type="submit" { (text::MAKE_USER) }
        }
    }
}

/// How whoever takes an invitation shows who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// They are new, and choose a password.
    NewPassword,
    /// They are a user already, with a password.
    Password,
    /// They are signed in as the user who is invited.
    Session,
}

/// The form that takes an invitation: to an address and an organization, with a role.
pub fn invitation(
    token: &str,
    action: &str,
    (email, organization, role): (&str, &str, Role),
    proof: Proof,
    wrong: Option<&str>,
) -> Markup {
    let (hint, completion) = match proof {
        Proof::NewPassword => (text::PASSWORD_HINT, "new-password"),
        Proof::Password => (text::INVITATION_KNOWN_HINT, "current-password"),
        Proof::Session => (text::INVITATION_SIGNED_IN_HINT, ""),
    };
    html! {
        p { (text::INVITATION_TO) " " strong { (organization) } " (" (role.as_str()) ")." }
        (notice(wrong))
        form.act method="post" action=(action) {
            (form_token(token))
            label for="email" { (text::EMAIL) }
            input id="email" type="email" readonly autocomplete="username" value=(email);
            @if proof != Proof::Session {
                label for="password" { (text::PASSWORD) }
                input id="password" name="password" type="password" required minlength="12" maxlength="200" autocomplete=(completion)
                    aria-describedby="password-hint";
            }
            p.hint id="password-hint" { (hint) }
            button type="submit" { (text::ACCEPT_INVITATION) }
        }
    }
}

/// What a person is told in place of a form.
pub fn told(words: &str) -> Markup {
    html! { div.notice { p { (words) } } p { a href="/console/" { (text::SIGN_IN) } } }
}

fn notice(wrong: Option<&str>) -> Markup {
    html! { @if let Some(wrong) = wrong { div.notice.bad role="alert" { p { (wrong) } } } }
}

/// A browser that is signed in.
pub struct SessionRow {
    /// What may be shown of its cookie.
    pub prefix: String,
    /// As it calls itself.
    pub browser: String,
    /// Since when, as RFC 3339.
    pub created_at: String,
    /// When it was last used, as RFC 3339.
    pub seen_at: String,
    /// Whether it is the one that looks.
    pub is_this: bool,
}

/// Where one is signed in.
pub fn sessions(rows: &[SessionRow], viewer: &Viewer) -> Markup {
    let shown = |instant: &str| crate::show::instant(&instant.into(), &viewer.zone);
    html! {
        h1 { (text::SESSIONS) }
        p.quiet { (text::SESSIONS_HINT) }
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::BROWSER) } th { (text::SINCE) } th { (text::LAST_SEEN) }
                th { span.hidden { (text::END_SESSION) } }
            } }
            tbody { @for row in rows { tr {
                td.long { (row.browser) @if row.is_this { " " span.badge.good { (text::THIS_BROWSER) } } }
                td { (shown(&row.created_at)) }
                td { (shown(&row.seen_at)) }
                td.right {
                    form method="post" action={ "/console/sessions/" (row.prefix) "/" } {
                        (form_token(&viewer.form_token))
                        button.quiet type="submit" { (text::END_SESSION) }
                    }
                }
            } } }
        } }
    }
}
