//! Customers and everything of theirs: subscriptions, billing records, invoices.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Zero};
use time::{Date, OffsetDateTime};

use super::page::page_of;
use super::shared::Shared;
use super::transaction::MemoryTransaction;
use crate::charge::BillingRecord;
use crate::credit::CreditLedger;
use crate::credit_note::{CreditNote, NewCreditNote};
use crate::customer::Customer;
use crate::error::{Error, Noun, Refusal, StoreError};
use crate::id::{CreditId, CreditNoteId, CustomerKey, InvoiceId, LineId, OneOffLineId, SubscriptionId};
use crate::invoice::{Invoice, InvoiceSummary, LineItem, NewInvoice, PaymentStatus, Trace};
use crate::payment::{Payment, PaymentLedger};
use crate::store::{
    BillingRecordRepo, CreditNoteFilter, CreditRepo, CustomerRepo, InvoiceFilter, InvoiceRepo, Page, PageRequest,
    SearchedBy, SubscriptionRepo,
};
use crate::subscription::Subscription;

impl CustomerRepo for MemoryTransaction {
    fn insert(&mut self, customer: &Customer) -> Result<(), Error> {
        let tenant = self.tenant()?;
        let mut others = tenant.accounts.values().filter_map(|account| account.customer.as_ref());
        if others.clone().any(|other| other.key == customer.key) {
            return Err(Refusal::DuplicateResource("A customer with this customer_id exists: GET /api/customers/{customer_id}/ shows it, PATCH changes it.").into());
        }
        if others.any(|other| other.email.is_some() && other.email == customer.email) {
            return Err(Refusal::DuplicateResource("Customer email already exists").into());
        }
        let account = tenant.accounts.entry(customer.key).or_default();
        account.customer = Some(customer.clone());
        account.reached = Some(customer.created_at);
        Ok(())
    }

    fn get(&mut self, key: CustomerKey) -> Result<Customer, Error> {
        let found = CustomerRepo::get_even_deleted(self, key)?;
        if found.deleted_at.is_some() { Err(Error::NotFound(Noun::Customer)) } else { Ok(found) }
    }

    fn get_even_deleted(&mut self, key: CustomerKey) -> Result<Customer, Error> {
        self.account(key)?.customer.clone().ok_or(Error::NotFound(Noun::Customer))
    }

    fn find_by_email(&mut self, email: &str) -> Result<Option<CustomerKey>, Error> {
        let mut customers = self.tenant()?.accounts.values().filter_map(|account| account.customer.as_ref());
        Ok(customers.find(|customer| customer.email.as_deref() == Some(email)).map(|customer| customer.key))
    }

    fn update(&mut self, customer: &Customer) -> Result<(), Error> {
        let before = CustomerRepo::get_even_deleted(self, customer.key)?;
        let mut others = self.tenant()?.accounts.values().filter_map(|account| account.customer.as_ref());
        let is_taken =
            |other: &Customer| other.key != customer.key && other.email.is_some() && other.email == customer.email;
        if others.any(is_taken) {
            return Err(Refusal::DuplicateResource("Customer email already exists").into());
        }
        let Customer { id, organization, test_clock, catching_up, created_at, .. } = before;
        let updated = Customer { id, organization, test_clock, catching_up, created_at, ..customer.clone() };
        self.account(customer.key)?.customer = Some(updated);
        Ok(())
    }

    fn list(&mut self, page: &PageRequest) -> Result<Page<Customer>, Error> {
        let accounts = self.tenant()?.accounts.values();
        let kept =
            accounts.filter_map(|account| account.customer.clone()).filter(|customer| customer.deleted_at.is_none());
        let mut customers: Vec<_> = kept.collect();
        customers.sort_by_key(|customer| (customer.created_at, customer.key));
        page_of(customers, page)
    }

    fn now(&mut self, key: CustomerKey) -> Result<OffsetDateTime, Error> {
        Ok(self.state.now_of(self.organization, key))
    }

    fn nows(&mut self, keys: &[CustomerKey]) -> Result<Vec<OffsetDateTime>, Error> {
        Ok(keys.iter().map(|key| self.state.now_of(self.organization, *key)).collect())
    }

    fn advance_instant(&mut self, key: CustomerKey, instant: OffsetDateTime) -> Result<(), Error> {
        let account = self.account(key)?;
        account.reached = account.reached.max(Some(instant));
        Ok(())
    }

    fn set_billing_due(&mut self, key: CustomerKey, due_at: Option<OffsetDateTime>) -> Result<(), Error> {
        let account = self.account(key)?;
        account.due_at = due_at.filter(|_| !account.lives_by_clock());
        (account.leased_until, account.failures, account.failure, account.is_parked) = (None, 0, None, false);
        account.waits_for_tax_until = None;
        Ok(())
    }

    #[cfg(feature = "service")]
    fn park_billing(&mut self, key: CustomerKey, failures: u32, reason: &str) -> Result<bool, Error> {
        let account = self.account(key)?;
        let is_held = account.failures == failures && account.leased_until.is_some();
        if is_held {
            (account.failures, account.failure, account.is_parked) = (failures + 1, Some(reason.to_owned()), true);
        }
        Ok(is_held)
    }

    #[cfg(feature = "service")]
    fn retry_billing(&mut self, key: CustomerKey) -> Result<bool, Error> {
        let account = self.account(key)?;
        let has_failed = account.failures > 0;
        if has_failed {
            (account.failures, account.is_parked, account.leased_until) = (0, false, None);
        }
        Ok(has_failed)
    }

    fn search(&mut self, by: SearchedBy, beginning: &str, limit: u32) -> Result<Vec<Customer>, Error> {
        let beginning = SearchedBy::folded(beginning);
        let accounts = self.tenant()?.accounts.values();
        let kept = accounts.filter_map(|account| account.customer.as_ref()).filter(|one| one.deleted_at.is_none());
        let searched = kept.filter_map(|customer| Some((by.of(customer)?, customer.key, customer)));
        let mut found: Vec<_> = searched.filter(|(text, ..)| text.starts_with(&beginning)).collect();
        found.sort_by(|(one, key, _), (other, other_key, _)| (one, key).cmp(&(other, other_key)));
        Ok(found.into_iter().take(limit as usize).map(|(.., customer)| customer.clone()).collect())
    }

    fn set_catching_up(&mut self, key: CustomerKey, catching_up: bool) -> Result<(), Error> {
        let customer = self.account(key)?.customer.as_mut();
        customer.ok_or(Error::NotFound(Noun::Customer))?.catching_up = catching_up;
        Ok(())
    }
}

impl SubscriptionRepo for MemoryTransaction {
    fn insert(&mut self, subscription: &Subscription) -> Result<(), Error> {
        let subscriptions = &mut self.account(subscription.customer)?.subscriptions;
        let same = |other: &Subscription| other.filters == subscription.filters && other.overlaps(subscription);
        if subscriptions.values().any(same) {
            return Err(Refusal::OverlappingPlans.into());
        }
        subscriptions.insert(subscription.id, subscription.clone());
        Ok(())
    }

    fn customer_of(&mut self, id: SubscriptionId) -> Result<CustomerKey, Error> {
        let mut accounts = self.tenant()?.accounts.iter();
        let holds = |subscription: &Subscription| {
            subscription.id == id && subscription.replaced_by.is_none() && !subscription.is_addon()
        };
        let owner = accounts.find(|(_, account)| account.subscriptions.get(&id).is_some_and(holds));
        owner.map(|(key, _)| *key).ok_or(Error::NotFound(Noun::Subscription))
    }

    fn get(&mut self, customer: CustomerKey, id: SubscriptionId) -> Result<Subscription, Error> {
        self.account(customer)?.subscriptions.get(&id).cloned().ok_or(Error::NotFound(Noun::Subscription))
    }

    fn list(&mut self, customer: CustomerKey) -> Result<Vec<Subscription>, Error> {
        let mut all: Vec<_> = self.account(customer)?.subscriptions.values().cloned().collect();
        all.retain(|subscription| subscription.replaced_by.is_none());
        all.sort_by_key(|subscription| (subscription.period.start(), subscription.id));
        Ok(all)
    }

    fn list_with_billing(&mut self, customers: &[CustomerKey]) -> Result<Vec<(Subscription, bool)>, Error> {
        let mut all = Vec::new();
        for customer in customers {
            let listed = SubscriptionRepo::list(self, *customer)?;
            let records = &self.account(*customer)?.records;
            let is_open = |id: SubscriptionId| {
                records.values().any(|record| record.subscription == id && record.next_invoicing_at().is_some())
            };
            all.extend(listed.into_iter().map(|subscription| {
                let is_billed = !is_open(subscription.id);
                (subscription, is_billed)
            }));
        }
        Ok(all)
    }

    fn list_current(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Vec<Subscription>, Error> {
        let mut all = SubscriptionRepo::list(self, customer)?;
        all.retain(|subscription| subscription.is_current(instant));
        Ok(all)
    }

    fn update(&mut self, subscription: &Subscription) -> Result<(), Error> {
        let stored = self.account(subscription.customer)?.subscriptions.get_mut(&subscription.id);
        subscription.clone_into(stored.ok_or(Error::NotFound(Noun::Subscription))?);
        Ok(())
    }

    fn save(&mut self, new: &[Subscription], changed: &[Subscription]) -> Result<(), Error> {
        changed.iter().try_for_each(|subscription| SubscriptionRepo::update(self, subscription))?;
        new.iter().try_for_each(|subscription| SubscriptionRepo::insert(self, subscription))
    }

    fn count_invoicing(
        &mut self,
        customer: CustomerKey,
        subscriptions: &[SubscriptionId],
        day: Date,
    ) -> Result<Vec<u32>, Error> {
        let invoicings = &mut self.account(customer)?.invoicings;
        let count = |id: &SubscriptionId| {
            let counted = invoicings.entry(*id).or_insert((day, 0));
            *counted = if counted.0 < day { (day, 1) } else { (counted.0, counted.1 + 1) };
            counted.1
        };
        Ok(subscriptions.iter().map(count).collect())
    }
}

impl BillingRecordRepo for MemoryTransaction {
    fn insert(&mut self, customer: CustomerKey, records: &[BillingRecord]) -> Result<(), Error> {
        self.account(customer)?.records.extend(records.iter().map(|record| (record.id, record.clone())));
        Ok(())
    }

    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<BillingRecord>, Error> {
        let records = self.account(customer)?.records.values();
        let mut open: Vec<_> = records.filter(|record| record.next_due_at().is_some()).cloned().collect();
        open.sort_by_key(|record| (record.next_due_at(), record.id));
        Ok(open)
    }

    fn list_open_of(&mut self, customers: &[CustomerKey]) -> Result<Vec<BillingRecord>, Error> {
        let lists = customers
            .iter()
            .map(|customer| BillingRecordRepo::list_open(self, *customer))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(lists.concat())
    }

    fn list(&mut self, customer: CustomerKey, subscription: SubscriptionId) -> Result<Vec<BillingRecord>, Error> {
        let records = self.account(customer)?.records.values();
        Ok(records.filter(|record| record.subscription == subscription).cloned().collect())
    }

    fn update(&mut self, customer: CustomerKey, record: &BillingRecord) -> Result<(), Error> {
        let stored = self.account(customer)?.records.get_mut(&record.id);
        let missing = || StoreError::Internal("no such billing record".to_owned());
        record.clone_into(stored.ok_or_else(missing)?);
        Ok(())
    }

    fn save(&mut self, customer: CustomerKey, records: &[BillingRecord]) -> Result<(), Error> {
        BillingRecordRepo::insert(self, customer, records)
    }
}

impl MemoryTransaction {
    /// The one-off lines that stand on a customer's invoices, and the lines that bill them, newest invoices first.
    fn one_off_lines(&mut self, customer: CustomerKey) -> Result<Vec<(OneOffLineId, LineId)>, Error> {
        let stands = |invoice: &&Invoice| invoice.customer == customer && invoice.replaced_by.is_none();
        let mut invoices: Vec<&Invoice> = self.tenant()?.all_invoices().filter(stands).collect();
        invoices.sort_by_key(|invoice| Reverse((invoice.issued_at, &invoice.number)));
        let one_off = |(id, line): (LineId, &LineItem)| match &line.trace {
            Trace::OneOff { one_off_line_id, .. } => Some((*one_off_line_id, id)),
            _ => None,
        };
        Ok(invoices.into_iter().flat_map(Invoice::named_lines).filter_map(one_off).collect())
    }
}

impl InvoiceRepo for MemoryTransaction {
    fn issue(&mut self, invoice: NewInvoice) -> Result<(), Error> {
        let tenant = self.tenant()?;
        tenant.invoice_sequence += 1;
        let number = tenant.invoice_sequence;
        tenant.invoices.insert(invoice.id, Shared::new(invoice.numbered(number)));
        Ok(())
    }

    fn get(&mut self, id: InvoiceId) -> Result<Invoice, Error> {
        self.tenant()?.invoices.get(&id).map(|invoice| Invoice::clone(invoice)).ok_or(Error::NotFound(Noun::Invoice))
    }

    fn update(&mut self, invoice: &Invoice) -> Result<(), Error> {
        let stored = self.tenant()?.invoices.get_mut(&invoice.id).ok_or(Error::NotFound(Noun::Invoice))?;
        (stored.payment_status, stored.voided_at) = (invoice.payment_status, invoice.voided_at);
        stored.replaced_by = invoice.replaced_by;
        Ok(())
    }

    fn list_falling_due(&mut self, customer: CustomerKey) -> Result<Vec<(InvoiceId, OffsetDateTime)>, Error> {
        let noted: Vec<InvoiceId> = match self.tenant()?.accounts.get(&customer) {
            Some(account) => account.past_due.keys().copied().collect(),
            None => Vec::new(),
        };
        let waits = |invoice: &&Invoice| {
            invoice.customer == customer
                && invoice.payment_status == PaymentStatus::Unpaid
                && !noted.contains(&invoice.id)
        };
        let waiting = self.tenant()?.all_invoices().filter(waits);
        let dated: Vec<_> =
            waiting.filter_map(|invoice| Some((invoice.id, invoice.due_at?, invoice.amount.clone()))).collect();
        let falls_due = |(id, due_at, amount): (InvoiceId, OffsetDateTime, BigDecimal)| {
            let ledger = PaymentLedger::from(self.list_payments(customer, Some(id))?);
            Ok((id, ledger.reopened_at(&amount).map_or(due_at, |reopened_at| reopened_at.max(due_at))))
        };
        dated.into_iter().map(falls_due).collect()
    }

    fn note_past_due(&mut self, customer: CustomerKey, id: InvoiceId, at: OffsetDateTime) -> Result<(), Error> {
        self.account(customer)?.past_due.insert(id, at);
        let stored = self.tenant()?.invoices.get_mut(&id).ok_or(Error::NotFound(Noun::Invoice))?;
        stored.amount_past_due = Some(stored.amount_due());
        Ok(())
    }

    fn list_by_id(&mut self, ids: &[(CustomerKey, InvoiceId)]) -> Result<Vec<Invoice>, Error> {
        let invoices = &self.tenant()?.invoices;
        let find =
            |(owner, id): &(CustomerKey, InvoiceId)| invoices.get(id).filter(|invoice| invoice.customer == *owner);
        Ok(ids.iter().filter_map(find).map(|invoice| Invoice::clone(invoice)).collect())
    }

    fn add_payment(&mut self, customer: CustomerKey, payment: &Payment) -> Result<(), Error> {
        let ledger = PaymentLedger::from(self.list_payments(customer, Some(payment.invoice))?);
        if payment.reverses.is_some_and(|id| ledger.standing().all(|standing| standing.id != id)) {
            return Err(Refusal::PaymentReversed.into());
        }
        if payment.reference.as_deref().is_some_and(|known| ledger.knows(payment.method.as_deref(), known)) {
            return Err(
                Refusal::DuplicateResource("The invoice has a payment of this method with this reference.").into()
            );
        }
        let stored = self.tenant()?.invoices.get_mut(&payment.invoice);
        let stored = stored.filter(|invoice| invoice.customer == customer).ok_or(Error::NotFound(Noun::Invoice))?;
        if stored.payment_status == PaymentStatus::Voided {
            return Err(Refusal::InvoiceVoided.into());
        }
        stored.settle(&payment.settles());
        self.account(customer)?.payments.push(payment.clone());
        Ok(())
    }

    fn list_payments(&mut self, customer: CustomerKey, invoice: Option<InvoiceId>) -> Result<Vec<Payment>, Error> {
        let Some(account) = self.tenant()?.accounts.get(&customer) else { return Ok(Vec::new()) };
        let is_wanted = |payment: &&Payment| invoice.is_none_or(|invoice| payment.invoice == invoice);
        Ok(account.payments.iter().filter(is_wanted).cloned().collect())
    }

    fn add_credit_note(&mut self, note: NewCreditNote) -> Result<CreditNote, Error> {
        self.insert_credit_note(note)
    }

    fn void_credit_note(&mut self, customer: CustomerKey, id: CreditNoteId, at: OffsetDateTime) -> Result<(), Error> {
        self.mark_credit_note_voided(customer, id, at)
    }

    fn get_credit_note(&mut self, id: CreditNoteId) -> Result<CreditNote, Error> {
        self.find_credit_note(id)
    }

    fn list_credit_notes(&mut self, filter: &CreditNoteFilter, page: &PageRequest) -> Result<Page<CreditNote>, Error> {
        self.page_of_credit_notes(filter, page)
    }

    fn list_with_usage_at(&mut self, customer: CustomerKey, times: &[OffsetDateTime]) -> Result<Vec<InvoiceId>, Error> {
        let has_usage = |line: &LineItem| {
            let is_usage = matches!(line.trace, Trace::UsageCharge { .. } | Trace::UsageHandedOn { .. });
            is_usage && times.iter().any(|at| line.period.contains(*at))
        };
        let invoices = self.tenant()?.all_invoices().filter(|invoice| invoice.customer == customer);
        Ok(invoices.filter(|invoice| invoice.lines.iter().any(has_usage)).map(|invoice| invoice.id).collect())
    }

    fn find_one_off_line(&mut self, customer: CustomerKey, id: OneOffLineId) -> Result<Option<LineId>, Error> {
        let all = self.one_off_lines(customer)?;
        Ok(all.into_iter().find(|(one_off, _)| *one_off == id).map(|(_, line)| line))
    }

    fn list_one_off_lines(&mut self, customer: CustomerKey, page: &PageRequest) -> Result<Page<LineId>, Error> {
        let all = self.one_off_lines(customer)?;
        page_of(all.into_iter().map(|(_, line)| line).collect(), page)
    }

    fn find_by_number(&mut self, number: &str) -> Result<Option<InvoiceId>, Error> {
        let invoices = self.tenant()?.all_invoices();
        Ok(invoices.filter(|invoice| invoice.number == number).map(|invoice| invoice.id).next())
    }

    fn list_of(
        &mut self,
        customers: &[CustomerKey],
        statuses: &[PaymentStatus],
        each: u32,
    ) -> Result<Vec<InvoiceSummary>, Error> {
        let wanted =
            |invoice: &&Invoice| customers.contains(&invoice.customer) && statuses.contains(&invoice.payment_status);
        let mut invoices: Vec<_> = self.tenant()?.all_invoices().filter(wanted).map(Invoice::summary).collect();
        invoices.sort_by_key(|invoice| Reverse((invoice.issued_at, invoice.number.clone())));
        let mut kept: BTreeMap<CustomerKey, u32> = BTreeMap::new();
        invoices.retain(|invoice| {
            let kept = kept.entry(invoice.customer).or_default();
            *kept += 1;
            *kept <= each
        });
        Ok(invoices)
    }

    fn due_of(
        &mut self,
        customers: &[CustomerKey],
    ) -> Result<BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>>, Error> {
        let mut due: BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>> = BTreeMap::new();
        let wanted = |invoice: &&Invoice| {
            customers.contains(&invoice.customer) && invoice.payment_status == PaymentStatus::Unpaid
        };
        for invoice in self.tenant()?.all_invoices().filter(wanted) {
            let by_currency = due.entry(invoice.customer).or_default();
            *by_currency.entry(invoice.currency.code.clone()).or_default() += invoice.amount_due();
        }
        Ok(due)
    }

    fn list(&mut self, filter: &InvoiceFilter, page: &PageRequest) -> Result<Page<Invoice>, Error> {
        let wanted = |invoice: &&Invoice| {
            filter.customers.as_ref().is_none_or(|customers| customers.contains(&invoice.customer))
                && filter.statuses.as_ref().is_none_or(|statuses| statuses.contains(&invoice.payment_status))
        };
        let mut invoices: Vec<_> = self.tenant()?.all_invoices().filter(wanted).cloned().collect();
        invoices.sort_by_key(|invoice| Reverse((invoice.issued_at, invoice.number.clone())));
        page_of(invoices, page)
    }
}

impl CreditRepo for MemoryTransaction {
    fn insert(&mut self, customer: CustomerKey, ledger: &CreditLedger) -> Result<(), Error> {
        self.account(customer)?.credits.insert(ledger.credit().id, ledger.clone());
        Ok(())
    }

    fn customer_of(&mut self, id: CreditId) -> Result<CustomerKey, Error> {
        let mut accounts = self.tenant()?.accounts.iter();
        let owner = accounts.find(|(_, account)| account.credits.contains_key(&id));
        owner.map(|(key, _)| *key).ok_or(Error::NotFound(Noun::Credit))
    }

    fn get(&mut self, customer: CustomerKey, id: CreditId) -> Result<CreditLedger, Error> {
        self.account(customer)?.credits.get(&id).cloned().ok_or(Error::NotFound(Noun::Credit))
    }

    fn list(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error> {
        let mut all: Vec<_> = self.account(customer)?.credits.values().cloned().collect();
        all.sort_by_key(|ledger| Reverse((ledger.credit().created_at, ledger.credit().id)));
        Ok(all)
    }

    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error> {
        let mut open = CreditRepo::list(self, customer)?;
        open.retain(|ledger| !ledger.remaining().is_zero());
        open.reverse();
        Ok(open)
    }

    fn update(&mut self, customer: CustomerKey, ledger: &CreditLedger) -> Result<(), Error> {
        let stored = self.account(customer)?.credits.get_mut(&ledger.credit().id);
        let stored = stored.ok_or(Error::NotFound(Noun::Credit))?;
        let entries: Vec<CreditId> = stored.entries().iter().map(|entry| entry.id).collect();
        ledger.check_begins_with(&entries)?;
        ledger.clone_into(stored);
        Ok(())
    }
}
