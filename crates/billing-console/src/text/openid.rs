//! Signing in with an OpenID provider.

pub const SIGN_IN_WITH: &str = "Sign in with";
pub const SIGN_IN_FAILED: &str = "You are not signed in";
pub const SIGN_IN_AGAIN: &str = "Back to signing in";
pub const PROVIDER: &str = "Provider";
pub const CODE: &str = "Code";
pub const ACCOUNT_IS: &str = "You signed in there as";
pub const WAYS_TO_SIGN_IN: &str = "Ways to sign in";
pub const WITH_PASSWORD: &str = "You sign in here with your address and a password.";
pub const WITHOUT_PASSWORD: &str = "You have no password here. Whoever runs the service can give you one.";
pub const NO_PROVIDER: &str = "There is no other way: no provider is set up.";
pub const LINKED: &str = "Your account there opens this one too.";
pub const LINKED_AS: &str = "Linked account";
pub const NOT_LINKED: &str =
    "Your account there is not linked with this one. Once it is, either way signs you in as who you are here.";
pub const LINK: &str = "Link";
pub const UNLINK: &str = "Unlink";
pub const UNLINK_REFUSED: &str =
    "This account cannot be unlinked: you have a role by its groups, or no password to sign in with.";
pub const LEAVE_FOR: &str = "Go on to";
pub const LEAVE_EXPLAINED: &str = "You sign in there, and come back.";

// Why signing in with a provider comes to nothing.
pub const OPENID_DENIED: &str = "You, or the provider, refused to let this service know who you are.";
pub const OPENID_REFUSED: &str =
    "The provider did not let you through. Try again; if that does not help, tell whoever runs this service.";
pub const OPENID_EXPIRED: &str =
    "This was begun more than ten minutes ago, in another browser, or has been finished already. Begin again.";
pub const OPENID_UNREACHABLE: &str =
    "The provider did not answer in time. Try again in a moment, or sign in with a password.";
pub const OPENID_BAD_ANSWER: &str = "The provider's answer could not be trusted. Tell whoever runs this service.";
pub const OPENID_BUSY: &str = "Too many people sign in right now. Try again in a moment.";
pub const OPENID_NO_EMAIL: &str =
    "The provider tells no e-mail address of yours, or one that is not confirmed. Without one no user can be made.";
pub const OPENID_HAS_ACCOUNT: &str = "There is a user with this address already, and an address proves nothing. Sign in with its password, and link your account on the page \"Ways to sign in\".";
pub const OPENID_NO_ROLE: &str =
    "This account has no role here: none of its groups has one, and nobody has given it one. Ask an owner.";
pub const OPENID_LINKED_ELSEWHERE: &str = "Nothing was linked: that account opens another user already, or yours is linked with another account of this provider.";
pub const OPENID_NOT_SIGNED_IN: &str = "Nothing was linked: you are not signed in here any more as who began it.";
pub const OPENID_UNAVAILABLE: &str = "This service cannot look you up right now. Try again in a moment.";
