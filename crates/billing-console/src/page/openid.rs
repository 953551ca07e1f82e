//! Pages around signing in with an OpenID provider.

use maud::{Markup, html};

use crate::layout::form_token;
use crate::text;
use crate::visit::Viewer;

/// Why signing in with a provider comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// For whoever is asked about it.
    pub code: &'static str,
    /// The HTTP status of its page.
    pub status: u16,
    /// What a person is told.
    pub text: &'static str,
}

macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident = $status:literal, $code:literal, $text:ident;)*) => {
        $($(#[$doc])* pub const $name: Problem = Problem { code: $code, status: $status, text: text::$text };)*
    };
}

problems! {
    /// Consent was refused.
    DENIED = 403, "oidc_denied", OPENID_DENIED;
    /// The provider says another error, or takes no such code.
    REFUSED = 400, "oidc_refused", OPENID_REFUSED;
    /// Nobody is waited for who comes back like this.
    EXPIRED = 400, "oidc_expired", OPENID_EXPIRED;
    /// The provider does not answer.
    UNREACHABLE = 502, "oidc_unreachable", OPENID_UNREACHABLE;
    /// The provider answers something else.
    BAD_ANSWER = 502, "oidc_bad_answer", OPENID_BAD_ANSWER;
    /// The provider's token proves nothing.
    BAD_TOKEN = 502, "oidc_bad_token", OPENID_BAD_ANSWER;
    /// Too many at once.
    BUSY = 503, "oidc_busy", OPENID_BUSY;
    /// Too many tries from one address.
    TOO_MANY = 429, "oidc_too_many_tries", TOO_MANY_TRIES;
    /// There is no address, or nobody knows whose it is.
    NO_EMAIL = 403, "oidc_no_email", OPENID_NO_EMAIL;
    /// The address is a user's.
    HAS_ACCOUNT = 409, "oidc_has_account", OPENID_HAS_ACCOUNT;
    /// Nobody gives a role.
    NO_ROLE = 403, "oidc_no_role", OPENID_NO_ROLE;
    /// The account is somebody's, or the user has another one.
    LINKED_ELSEWHERE = 409, "oidc_linked_elsewhere", OPENID_LINKED_ELSEWHERE;
    /// Whoever comes back to link an account is not signed in.
    NOT_SIGNED_IN = 403, "oidc_not_signed_in", OPENID_NOT_SIGNED_IN;
    /// The store cannot be asked.
    UNAVAILABLE = 503, "oidc_unavailable", OPENID_UNAVAILABLE;
}

/// The page of a problem: with the provider of this host, where that is known with the address of the account there.
pub fn problem(problem: &Problem, host: &str, email: Option<&str>, reference: &str) -> Markup {
    html! {
        div.notice.bad role="alert" {
            @if let Some(email) = email { p { (text::ACCOUNT_IS) " " strong { (email) } "." } }
            p { (problem.text) }
            p.quiet {
                (text::PROVIDER) " " code { (host) } " \u{b7} " (text::CODE) " " code { (problem.code) } br;
                (text::REFERENCE) " " code { (reference) }
            }
        }
        p { a href="/console/sign-in/" { (text::SIGN_IN_AGAIN) } }
    }
}

/// How a user signs in.
pub struct Ways<'w> {
    /// Whether there is a password.
    pub has_password: bool,
    /// The provider's host, where one is set.
    pub host: Option<&'w str>,
    /// The subject of the account there that is linked.
    pub subject: Option<&'w str>,
    /// Whether its groups give a role.
    pub has_role_by_groups: bool,
}

/// The ways to sign in of whoever looks.
pub fn ways(ways: &Ways<'_>, viewer: &Viewer, wrong: Option<&str>) -> Markup {
    let token = form_token(&viewer.form_token);
    html! {
        h1 { (text::WAYS_TO_SIGN_IN) }
        @if let Some(wrong) = wrong { div.notice.bad role="alert" { p { (wrong) } } }
        h2 { (text::PASSWORD) }
        p { @if ways.has_password { (text::WITH_PASSWORD) } @else { (text::WITHOUT_PASSWORD) } }
        @match (ways.host, ways.subject) {
            (None, _) => p.quiet { (text::NO_PROVIDER) },
            (Some(host), Some(subject)) => {
                h2 { (host) }
                p { (text::LINKED) }
                p { (text::LINKED_AS) ": " code { (subject) } }
                @if ways.has_password && !ways.has_role_by_groups {
                    form.act method="post" action="/console/identities/unlink/" {
                        (token)
                        button.quiet type="submit" { (text::UNLINK) " " (host) }
                    }
                } @else {
                    p.quiet { (text::UNLINK_REFUSED) }
                }
            }
            (Some(host), None) => {
                h2 { (host) }
                p { (text::NOT_LINKED) }
                form.act method="post" action="/console/identities/link/" {
                    (token)
                    button type="submit" { (text::LINK) " " (host) }
                }
            }
        }
    }
}

/// Before a user leaves for the provider: a form of ours leads nowhere else, so that a link does.
pub fn leave(host: &str, url: &str) -> Markup {
    html! {
        h1 { (text::WAYS_TO_SIGN_IN) }
        p { (text::LEAVE_EXPLAINED) }
        p { a.button rel="noreferrer" href=(url) { (text::LEAVE_FOR) " " (host) } }
    }
}
