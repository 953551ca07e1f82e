//! What is told and noted: of customers it is in their lanes, of the organization with the catalogue.

use std::sync::Arc;

use billing_domain::audit::{AuditEntry, AuditFilter, Change};
use billing_domain::id::{CustomerKey, MessageId};
use billing_domain::message::Message;
use billing_domain::store::{
    AuditRepo, FeedPage, FeedRequest, MessageRepo, Page, PageRequest, Renderer, Transaction as _,
};
use billing_domain::{Error, Noun};

use super::OverLanes;
use crate::pg::cursor::Cursor;
use crate::repo::audit;
use crate::repo::message::{Entry, placed};
use crate::transaction::PgTransaction;

impl OverLanes<'_, '_> {
    /// The messages at these places, each from its lane; those of the organization's own are with the catalogue.
    fn load_messages(&mut self, entries: &[Entry]) -> Result<Vec<Message>, Error> {
        let mut found = self.inner.inner.load_own_messages(entries)?;
        let of_customers = entries.iter().filter_map(|(position, key, id)| Some((*position, (*key)?, *id)));
        let apart = self.shared().lanes.apart(of_customers, |(_, key, _)| CustomerKey::from(*key));
        for (lane, placed) in apart {
            let entries: Vec<Entry> =
                placed.into_iter().map(|(_, (position, key, id))| (position, Some(key), id)).collect();
            found.extend(self.ask(lane, |tx| tx.load_messages(&entries))?);
        }
        Ok(found)
    }
}

impl MessageRepo for OverLanes<'_, '_> {
    fn renderer(&self) -> Arc<dyn Renderer> {
        self.inner.inner.renderer()
    }

    fn new_id(&mut self) -> MessageId {
        self.inner.inner.messages().new_id()
    }

    /// Of a fact of the organization's own.
    fn insert(&mut self, message: Message) -> Result<(), Error> {
        MessageRepo::insert(self.inner.inner, message)
    }

    fn get(&mut self, id: MessageId) -> Result<Message, Error> {
        let entries = self.inner.inner.find_entries(&[id])?;
        self.load_messages(&entries)?.pop().ok_or(Error::NotFound(Noun::Message))
    }

    fn list(&mut self, wanted: &FeedRequest) -> Result<FeedPage, Error> {
        let entries = self.inner.inner.list_entries(wanted)?;
        let messages = self.load_messages(&entries.entries)?;
        entries.page(messages)
    }

    fn list_by_id(&mut self, ids: &[MessageId]) -> Result<Vec<(u64, Message)>, Error> {
        let entries = self.inner.inner.find_entries(ids)?;
        let messages = self.load_messages(&entries)?;
        placed(entries, messages)
    }

    fn list_of(&mut self, customer: CustomerKey, page: &PageRequest) -> Result<Page<Message>, Error> {
        self.of(customer, |tx| MessageRepo::list_of(tx, customer, page))
    }
}

impl AuditRepo for OverLanes<'_, '_> {
    /// Of something of the organization's own.
    fn insert(&mut self, change: Change) -> Result<(), Error> {
        AuditRepo::insert(self.inner.inner, change)
    }

    fn list(&mut self, filter: &AuditFilter, page: &PageRequest) -> Result<Page<AuditEntry>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let mut found = match filter.customer {
            Some(customer) => self.of(customer, |tx| tx.list_changes(false, filter, after, page.limit))?,
            None => {
                // The organization's own are seen from every lane: one of them tells.
                let first = self.shared().lanes.all().next().map(|lane| lane.number);
                let of_lane = |tx: &mut PgTransaction<'_>| {
                    let own = tx.lane.map(|lane| lane.number) == first;
                    tx.list_changes(own, filter, after, page.limit)
                };
                self.each(of_lane)?.concat()
            }
        };
        found.sort_by_key(|entry| std::cmp::Reverse(audit::cursor_of(entry)));
        Ok(audit::audit_page(found, page.limit))
    }
}
