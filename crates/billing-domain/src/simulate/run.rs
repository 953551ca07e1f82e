//! One customer's simulated life, by the workflows of the service.

use time::OffsetDateTime;

use super::{Offer, Simulation};
use crate::customer::CustomerId;
use crate::error::Error;
use crate::event::Event;
use crate::id::{CustomerKey, OrganizationId};
use crate::invoice::Invoice;
use crate::memory::MemoryStore;
use crate::period::MICROSECOND;
use crate::store::{EventIngest, InvoiceFilter, PageRequest, Scope, Store, Transaction, Window};
use crate::workflow::{
    CreateCustomer, CreateOrganization, CreatePlan, CreateSubscription, OrganizationPatch, VersionChoice,
    bill_customer, create_customer, create_metric, create_organization, create_plan, create_subscription,
    update_organization,
};

/// The customer's invoices, oldest first.
pub(super) fn run(
    simulation: &Simulation,
    offer: &Offer,
    customer: &CustomerId,
    events: &[Event],
) -> Result<Vec<Invoice>, Error> {
    if simulation.end <= simulation.start {
        return Ok(Vec::new());
    }
    let store = MemoryStore::at(simulation.start);
    let organization = store.new_organization();
    let command = set_up(&store, organization, simulation, offer, customer)?;
    store.ingest(organization, events, Window::Open)?;

    let key = CustomerKey::derive(organization, customer);
    let scope = Scope::Customer(organization, key);
    let on_customer = |work: &mut dyn FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<(), Error>| {
        let store: &dyn Store = &store;
        store.run_for(&scope, work)
    };
    on_customer(&mut |tx, now| create_subscription(tx, &command, now).map(drop))?;
    store.set_now(simulation.end - MICROSECOND);
    on_customer(&mut |tx, now| bill_customer(tx, key, now))?;
    let mut done_at = simulation.end;
    on_customer(&mut |tx, _| {
        let grace = tx.organizations().get()?.invoice_grace();
        for mut subscription in tx.subscriptions().list(key)? {
            subscription.auto_renew = false;
            done_at = done_at.max(subscription.period.end() + grace);
            tx.subscriptions().update(&subscription)?;
        }
        Ok(())
    })?;
    store.set_now(done_at);
    on_customer(&mut |tx, now| bill_customer(tx, key, now))?;
    all_invoices(&store, &scope)
}

/// Makes organization, metrics, plan and customer; the command that subscribes them.
fn set_up(
    store: &MemoryStore,
    organization: OrganizationId,
    simulation: &Simulation,
    offer: &Offer,
    customer: &CustomerId,
) -> Result<CreateSubscription, Error> {
    let store: &dyn Store = store;
    let catalog = Scope::Catalog(organization);
    let (plan, metrics) = store.run_for(&catalog, |tx, now| {
        create_organization(tx, &CreateOrganization { name: "simulation".to_owned() }, now)?;
        let tax_rate = simulation.tax_rate.clone().map(Some);
        update_organization(tx, &OrganizationPatch { tax_rate, ..OrganizationPatch::default() })?;
        let mut metrics = Vec::new();
        for metered in &offer.metered {
            metrics.push(create_metric(tx, &metered.metric, now)?);
        }
        let ids: Vec<_> = metrics.iter().map(|metric| metric.id).collect();
        let command = CreatePlan {
            name: offer.name.clone(),
            description: None,
            duration: Some(offer.duration),
            tags: Vec::new(),
            external_links: Vec::new(),
            initial_version: Some(offer.version(&ids)?),
        };
        Ok((create_plan(tx, &command, now)?.0.id, metrics))
    })?;
    let key = CustomerKey::derive(organization, customer);
    let new_customer = CreateCustomer::new(customer.clone(), "customer@example.com");
    store.run_for(&Scope::Customer(organization, key), |tx, now| create_customer(tx, &new_customer, now))?;
    let units_of = |(name, units): &(String, bigdecimal::BigDecimal)| {
        let metric = metrics.iter().find(|metric| metric.event_name == *name)?;
        Some((metric.id, units.clone()))
    };
    Ok(CreateSubscription {
        customer: customer.clone(),
        version: VersionChoice::Plan(plan),
        start: simulation.start,
        end: None,
        auto_renew: true,
        is_new: true,
        filters: simulation.filters.clone(),
        metadata: serde_json::Map::new(),
        prepaid_units: simulation.prepaid_units.iter().filter_map(units_of).collect(),
    })
}

fn all_invoices(store: &dyn Store, scope: &Scope) -> Result<Vec<Invoice>, Error> {
    store.run_for(scope, |tx, _| {
        let mut page = PageRequest::first();
        let mut invoices = Vec::new();
        loop {
            let part = tx.invoices().list(&InvoiceFilter::default(), &page)?;
            invoices.extend(part.items);
            match part.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        invoices.reverse();
        Ok(invoices)
    })
}
