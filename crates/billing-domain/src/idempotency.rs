//! Requests that may be sent twice: the key a caller gives to one request, and the answer kept under it.

use crate::error::Error;
use crate::id::OrganizationId;

/// How long an answer is kept, in days: as far as a caller is expected to look back.
pub const RETENTION_DAYS: u32 = 30;

/// A caller's word that every request with this key is one and the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The caller's own text, unique in its organization.
    pub key: String,
    /// Digest of the request: another one under the same key is a mistake.
    pub fingerprint: Vec<u8>,
}

/// What a caller was told. The domain keeps it and does not look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether and how it went, as a number of the interface.
    pub status: u16,
    /// What was said, to the byte.
    pub text: String,
}

/// An answer and the request it was given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// [`Claim::fingerprint`] of that request.
    pub fingerprint: Vec<u8>,
    /// The answer.
    pub answer: Answer,
}

/// What claimed work comes to. The answer is kept either way; an error in its place keeps nothing at all, so that
/// the request can be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The effects stand, together with the answer.
    Done(Answer),
    /// A rule forbids it: the effects are undone, the answer stands.
    Refused(Answer),
}

/// Told the answer under a key, if there is one.
pub type AnswerReply = Box<dyn FnOnce(Result<Option<KeptAnswer>, Error>) + Send>;

/// Answers that are kept for requests that come again.
pub trait IdempotencyStore: Send + Sync {
    /// The answer under `key`, if the organization has one.
    fn find_answer(&self, organization: OrganizationId, key: &str) -> Result<Option<KeptAnswer>, Error>;

    /// [`IdempotencyStore::find_answer`] without blocking, together with what others look for at the same time. It is looked
    /// for after the call: what was kept before is found.
    fn find_answer_then(&self, organization: OrganizationId, key: String, reply: AnswerReply) {
        reply(self.find_answer(organization, &key));
    }

    /// Keeps an answer to a request without effects. What is kept under the key already stays; it is answered
    /// what is kept now.
    ///
    /// # Errors
    /// [`Refusal::IdempotencyKeyInUse`](crate::Refusal::IdempotencyKeyInUse) while a request with this key is at work.
    fn keep_answer(&self, organization: OrganizationId, claim: &Claim, answer: &Answer) -> Result<KeptAnswer, Error>;

    /// Drops up to `limit` answers that are older than [`RETENTION_DAYS`], and says how many those were.
    fn forget_answers(&self, limit: u32) -> Result<u32, Error>;
}
