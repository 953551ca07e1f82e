//! Users of the console: who they are in the organization, and the browsers that they are signed in with.

use actix_web::web;
use billing_domain::id::UserId;
use billing_domain::user::{Invitation, Member, Role, Session, normal_email};
use billing_domain::workflow::{InviteUser, change_role, find_member, invite_user, remove_member};

use crate::answer::{Created, NoContent};
use crate::app::App;
use crate::caller::{Caller, KeyText};
use crate::endpoint::{Endpoint, delete, get, patch, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::{PathPair, PathParam};
use crate::wire::{Instant, Secret, body, view, words_of};

/// The calls about users.
pub fn endpoints() -> Vec<Endpoint> {
    const ONE: &str = "/api/users/{user_id}/";
    vec![
        get("/api/users/", "List the users of the organization, by address", list).lists::<UserView>(),
        post("/api/users/invite/", "Invite somebody to be a user; the link is shown this once", invite)
            .takes::<InviteBody>()
            .answers::<InvitationView>(201)
            .reveals("link"),
        patch(ONE, "Give a user another role", update).takes::<RoleBody>().answers::<UserView>(200),
        delete(ONE, "Take a user out of the organization and end the sessions there", remove),
        get(
            "/api/users/{user_id}/sessions/",
            "List the browsers that a user is signed in with, newest first",
            sessions,
        )
        .lists::<SessionView>(),
        delete("/api/users/{user_id}/sessions/{prefix}/", "Sign a browser of a user's out", end_session),
    ]
}

words_of! { Role }

body! {
    /// Who is invited.
    InviteBody {
        /// Their address.
        required email: String,
        /// What they will be.
        required role: Role,
    }
}

body! {
    /// What a user is to be.
    RoleBody {
        /// The role.
        required role: Role,
    }
}

view! {
    /// A user, as the organization sees them.
    UserView {
        /// Its id.
        user_id: UserId,
        /// What one signs in with.
        email: String,
        /// What they are here.
        role: Role,
    }
}

view! {
    /// An invitation that was just made.
    InvitationView {
        /// Whom it is for.
        email: String,
        /// What they will be.
        role: Role,
        /// From when on it opens nothing.
        expires_at: Instant,
        /// The path of the page that takes it, on this service. It is kept nowhere, so it is not shown again, nor when this answer is
        /// repeated.
        link: Secret,
    }
}

view! {
    /// A browser that a user is signed in with.
    SessionView {
        /// What may be shown of its cookie.
        prefix: String,
        /// As it calls itself.
        browser: String,
        /// Since when.
        created_at: Instant,
        /// When it was last used, give or take a minute.
        last_seen_at: Instant,
    }
}

impl From<&Member> for UserView {
    fn from(member: &Member) -> Self {
        Self { user_id: member.user, email: member.email.clone(), role: member.role }
    }
}

impl From<&Session> for SessionView {
    fn from(session: &Session) -> Self {
        Self {
            prefix: session.fingerprint.prefix.clone(),
            browser: session.browser.clone(),
            created_at: Instant(session.created_at),
            last_seen_at: Instant(session.seen_at),
        }
    }
}

impl InvitationView {
    fn new(invitation: &Invitation, text: &KeyText) -> Self {
        Self {
            email: invitation.email.clone(),
            role: invitation.role,
            expires_at: Instant(invitation.expires_at),
            link: Secret(format!("/console/invitation/{}/", text.reveal())),
        }
    }
}

/// `GET /api/users/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<UserView>, ApiError> {
    let page = app
        .read(&caller, move |tx, _| map_page(paging.cut(tx.members().list()?)?, |member| Ok(UserView::from(&member))));
    Ok(ListAnswer(page.await?))
}

/// `POST /api/users/invite/`
async fn invite(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(body): ApiJson<InviteBody>,
) -> Result<Created<InvitationView>, ApiError> {
    let text = KeyText::generate().map_err(ApiError::internal)?;
    let fingerprint = app.pepper.fingerprint(&text);
    let command = InviteUser { email: normal_email(&body.email), role: body.role, fingerprint };
    let view = app.on_catalog(&caller, move |tx, now| Ok(InvitationView::new(&invite_user(tx, &command, now)?, &text)));
    Ok(Created(view.await?))
}

/// `PATCH /api/users/{user_id}/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    PathParam(user): PathParam<UserId>,
    ApiJson(body): ApiJson<RoleBody>,
) -> Result<web::Json<UserView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, _| Ok(UserView::from(&change_role(tx, user, body.role)?)));
    Ok(web::Json(view.await?))
}

/// `DELETE /api/users/{user_id}/`
async fn remove(
    app: web::Data<App>,
    caller: Caller,
    PathParam(user): PathParam<UserId>,
) -> Result<NoContent, ApiError> {
    app.on_catalog(&caller, move |tx, _| remove_member(tx, user)).await?;
    Ok(NoContent)
}

/// `GET /api/users/{user_id}/sessions/`
async fn sessions(
    app: web::Data<App>,
    caller: Caller,
    PathParam(user): PathParam<UserId>,
    paging: Paging,
) -> Result<ListAnswer<SessionView>, ApiError> {
    let page = app.read(&caller, move |tx, now| {
        find_member(tx, user)?;
        let mut open = tx.members().list_sessions(user)?;
        open.retain(|session| !session.is_over(now));
        map_page(paging.cut(open)?, |session| Ok(SessionView::from(&session)))
    });
    Ok(ListAnswer(page.await?))
}

/// `DELETE /api/users/{user_id}/sessions/{prefix}/`
async fn end_session(
    app: web::Data<App>,
    caller: Caller,
    PathPair(user, prefix): PathPair<UserId, String>,
) -> Result<NoContent, ApiError> {
    app.on_catalog(&caller, move |tx, _| {
        find_member(tx, user)?;
        tx.members().end_session(user, &prefix)
    })
    .await?;
    Ok(NoContent)
}
