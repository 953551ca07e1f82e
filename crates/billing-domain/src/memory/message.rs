//! Messages: in one order from the moment at which they are written, since no two transactions interleave.

use std::fmt;
use std::sync::{Arc, OnceLock};

use time::OffsetDateTime;
use uuid::Uuid;

#[cfg(feature = "service")]
use super::MemoryStore;
use super::MemoryTransaction;
use super::page::newest_page;
use crate::error::{Error, Noun};
#[cfg(feature = "service")]
use crate::id::OrganizationId;
use crate::id::{CustomerKey, MessageId};
#[cfg(feature = "service")]
use crate::message::MessageType;
use crate::message::{Message, Subject};
use crate::store::{FeedPage, FeedRequest, MessageRepo, Page, PageRequest, Renderer, Transaction};
#[cfg(feature = "service")]
use crate::store::{Feeds, Placed};

/// A message, and when in the store's own time it was written.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "service"), allow(dead_code))]
pub(super) struct KeptMessage {
    message: Message,
    written_at: OffsetDateTime,
}

#[cfg(feature = "service")]
impl KeptMessage {
    /// When it was written, in the store's own time.
    pub fn written_at(&self) -> OffsetDateTime {
        self.written_at
    }
}

/// Who says what stands in messages, and who wants to know of them.
#[derive(Default)]
pub(super) struct Told {
    renderer: OnceLock<Arc<dyn Renderer>>,
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// For customers that are to be looked at.
    #[cfg_attr(not(feature = "service"), allow(dead_code))]
    pub marks_bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}

impl Told {
    pub fn renderer(&self) -> Arc<dyn Renderer> {
        self.renderer.get().cloned().unwrap_or_else(|| Arc::new(Unrendered))
    }

    /// A transaction was committed. Only messages ring: whoever is woken reads, and reading must wake nobody.
    pub fn ring_if(&self, has_told: bool) {
        if let Some(bell) = self.bell.get().filter(|_| has_told) {
            bell();
        }
    }

    /// Something was committed. Only marks ring.
    pub fn ring_for_marks_if(&self, has_marked: bool) {
        if let Some(bell) = self.marks_bell.get().filter(|_| has_marked) {
            bell();
        }
    }
}

/// Says nothing of a subject: nobody has said how it is to be shown.
struct Unrendered;

impl Renderer for Unrendered {
    fn render(&self, _: &mut dyn Transaction, _: &Subject) -> Result<String, Error> {
        Ok("{}".to_owned())
    }
}

impl MessageRepo for MemoryTransaction {
    fn renderer(&self) -> Arc<dyn Renderer> {
        Arc::clone(&self.renderer)
    }

    fn new_id(&mut self) -> MessageId {
        // Apart from all other ids, which follow from what is done alone.
        self.state.messages_given += 1;
        Uuid::from_u128(u128::from(self.state.messages_given) << 64).into()
    }

    fn insert(&mut self, message: Message) -> Result<(), Error> {
        let written_at = self.state.now;
        #[cfg(feature = "service")]
        if let Some(customer) = message.customer.filter(|_| message.message_type != MessageType::UsageAlertTriggered) {
            self.mark_for_alerts(customer)?;
        }
        self.tenant()?.messages.push(KeptMessage { message, written_at });
        self.has_told = true;
        Ok(())
    }

    fn get(&mut self, id: MessageId) -> Result<Message, Error> {
        let tenant = self.tenant()?;
        let dropped = usize::try_from(tenant.messages_dropped).unwrap_or(usize::MAX);
        let mut kept = tenant.messages.iter().skip(dropped).map(|kept| &kept.message);
        kept.find(|message| message.id == id).cloned().ok_or(Error::NotFound(Noun::Message))
    }

    fn list_by_id(&mut self, ids: &[MessageId]) -> Result<Vec<(u64, Message)>, Error> {
        let tenant = self.tenant()?;
        let kept = (1_u64..).zip(tenant.messages.iter()).filter(|(position, _)| *position > tenant.messages_dropped);
        let wanted = kept.filter(|(_, kept)| ids.contains(&kept.message.id));
        Ok(wanted.map(|(position, kept)| (position, kept.message.clone())).collect())
    }

    fn list(&mut self, wanted: &FeedRequest) -> Result<FeedPage, Error> {
        let tenant = self.tenant()?;
        let after = wanted.after.max(tenant.messages_dropped);
        let is_wanted = |message: &Message| wanted.types.is_empty() || wanted.types.contains(&message.message_type);
        let placed = (1_u64..).zip(tenant.messages.iter()).filter(|(position, _)| *position > after);
        let mut messages: Vec<(u64, Message)> = placed
            .filter(|(_, kept)| is_wanted(&kept.message))
            .map(|(position, kept)| (position, kept.message.clone()))
            .collect();
        let limit = wanted.limit as usize;
        let is_cut = messages.len() > limit;
        messages.truncate(limit);
        let last = tenant.messages.len() as u64;
        let reached = messages.last().filter(|_| is_cut).map_or(last, |(position, _)| *position);
        Ok(FeedPage { messages, reached, first_kept: tenant.messages_dropped + 1 })
    }

    fn list_of(&mut self, customer: CustomerKey, page: &PageRequest) -> Result<Page<Message>, Error> {
        let tenant = self.tenant()?;
        let dropped = usize::try_from(tenant.messages_dropped).unwrap_or(usize::MAX);
        let kept = tenant.messages.iter().skip(dropped).map(|kept| &kept.message);
        let found = kept.filter(|message| message.customer == Some(customer)).cloned().collect();
        newest_page(found, |message: &Message| message.id, page)
    }
}

#[cfg(feature = "service")]
impl Feeds for MemoryStore {
    fn place_messages(&self, _: u32) -> Result<Placed, Error> {
        // They were placed when they were written; whoever asks is to look again.
        let organizations = self.lock().tenants.keys().copied().collect();
        Ok(Placed { organizations, there_is_more: false })
    }

    fn last_positions(&self, organizations: &[OrganizationId]) -> Result<Vec<u64>, Error> {
        let state = self.lock();
        let last = |id: &OrganizationId| state.tenants.get(id).map_or(0, |tenant| tenant.messages.len() as u64);
        Ok(organizations.iter().map(last).collect())
    }

    fn drop_messages(&self, before: OffsetDateTime, limit: u32) -> Result<bool, Error> {
        let mut there_is_more = false;
        for tenant in self.lock().tenants.values_mut() {
            let from = usize::try_from(tenant.messages_dropped).unwrap_or(usize::MAX);
            let is_old = |kept: &&KeptMessage| kept.written_at < before;
            let dropped = tenant.messages.iter().skip(from).take(limit as usize).take_while(is_old).count() as u64;
            tenant.messages_dropped += dropped;
            there_is_more |= dropped == u64::from(limit);
        }
        Ok(there_is_more)
    }

    fn on_messages(&self, bell: Box<dyn Fn() + Send + Sync>) {
        drop(self.told.bell.set(bell));
    }

    fn render_with(&self, renderer: Arc<dyn Renderer>) {
        drop(self.told.renderer.set(renderer));
    }
}
