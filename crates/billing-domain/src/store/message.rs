//! The messages of an organization: written with their facts, read in one order.

use std::sync::Arc;

#[cfg(feature = "service")]
use time::OffsetDateTime;

use super::{Page, PageRequest, Transaction};
use crate::error::Error;
#[cfg(feature = "service")]
use crate::id::OrganizationId;
use crate::id::{CustomerKey, MessageId};
use crate::message::{Message, MessageType, Subject};

/// Says of a message's subject what answers about it would say at this moment.
pub trait Renderer: Send + Sync {
    /// The JSON object that stands in the message as `data`. What is asked of `tx` is seen as the transaction sees it.
    ///
    /// # Errors
    /// Those of the store.
    fn render(&self, tx: &mut dyn Transaction, subject: &Subject) -> Result<String, Error>;
}

/// The organization's messages.
pub trait MessageRepo {
    /// Who says what stands in them.
    fn renderer(&self) -> Arc<dyn Renderer>;
    /// A new id for a message. How many are given changes no other id.
    fn new_id(&mut self) -> MessageId;
    /// Keeps a message, if the transaction is committed.
    fn insert(&mut self, message: Message) -> Result<(), Error>;
    /// The message, once it has its place in the feed.
    ///
    /// # Errors
    /// [`Error::NotFound`], also when it has no place yet, or was dropped because of its age.
    fn get(&mut self, id: MessageId) -> Result<Message, Error>;
    /// Those of these messages that stand in the feed, with their positions, in its order.
    fn list_by_id(&mut self, ids: &[MessageId]) -> Result<Vec<(u64, Message)>, Error>;
    /// A part of the feed, by position. Whoever asks again behind the same position gets the same again, and once a
    /// position was seen nothing ever comes to stand before it.
    fn list(&mut self, wanted: &FeedRequest) -> Result<FeedPage, Error>;
    /// What was told of a customer and committed, newest first, whether it has its place in the feed or not; what a store drops
    /// because of its age is missing here too.
    ///
    /// # Errors
    /// A cursor that no page gave.
    fn list_of(&mut self, customer: CustomerKey, page: &PageRequest) -> Result<Page<Message>, Error>;
}

/// Which part of the feed is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRequest {
    /// What stands behind this position; 0: from the first that is kept.
    pub after: u64,
    /// Only messages of these types; none: all.
    pub types: Vec<MessageType>,
    /// Most messages.
    pub limit: u32,
}

/// A part of the feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedPage {
    /// The messages, by position.
    pub messages: Vec<(u64, Message)>,
    /// The feed goes on behind this position: everything of the wanted types up to it was read. Before what was asked for where
    /// that lies beyond the end. A store looks at so many positions at once and answers how far it came.
    pub reached: u64,
    /// The first position that is kept: what stood before it was dropped because of its age.
    pub first_kept: u64,
}

impl FeedPage {
    /// Messages, how far they reach, and the first position that is kept.
    pub fn new(messages: Vec<(u64, Message)>, reached: u64, first_kept: u64) -> Self {
        Self { messages, reached, first_kept }
    }
}

/// What came of giving messages their positions.
#[cfg(feature = "service")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placed {
    /// Whose feeds have grown.
    pub organizations: Vec<OrganizationId>,
    /// Whether there may be more to place.
    pub there_is_more: bool,
}

#[cfg(feature = "service")]
impl Placed {
    /// Of the organizations whose feeds have grown.
    pub fn new(organizations: Vec<OrganizationId>, there_is_more: bool) -> Self {
        Self { organizations, there_is_more }
    }
}

/// The feeds of all organizations, as whoever keeps them in order sees them.
#[cfg(feature = "service")]
pub trait Feeds: Send + Sync {
    /// Gives messages that were committed their positions, at most `limit` of them. A position is given behind the commit
    /// of its message and by one at a time: whoever has read up to one has seen everything that will ever stand before it.
    fn place_messages(&self, limit: u32) -> Result<Placed, Error>;
    /// The last position of each of these feeds; 0 where there is none.
    fn last_positions(&self, organizations: &[OrganizationId]) -> Result<Vec<u64>, Error>;
    /// Drops messages that were written before an instant of real time, about `limit` at most, the oldest of an organization
    /// first; whether there may be more. A reader sees that they are no longer kept before they are gone.
    fn drop_messages(&self, before: OffsetDateTime, limit: u32) -> Result<bool, Error>;
    /// Has `bell` called whenever a transaction of this process has committed messages. Only the first that is given is.
    fn on_messages(&self, bell: Box<dyn Fn() + Send + Sync>);
    /// Has messages say of their subjects what this says. Only the first that is given does.
    fn render_with(&self, renderer: Arc<dyn Renderer>);
}
