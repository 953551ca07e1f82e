//! Which invoices a page has whose list keeps some of them: parts of an index are read that end with the page.

use std::collections::BTreeSet;

use billing_domain::id::CustomerKey;
use billing_domain::invoice::PaymentStatus;
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use crate::pg::column::LATEST;
use crate::pg::cursor::Cursor;
use crate::pg::schema::invoices;

/// Whether an invoice is among the organization's newest with one of some statuses behind a place, one more than a page of so many has. Each
/// status has its own part of an index: where few invoices have one, they are not looked for among all the others.
pub(super) fn among_newest(
    organization: Uuid,
    statuses: &[PaymentStatus],
    after: Option<Cursor>,
    limit: u32,
) -> Box<dyn BoxableExpression<invoices::table, Pg, SqlType = Bool>> {
    let (before_at, before_id) = after.map_or((LATEST, Uuid::max()), Cursor::parts);
    let statuses: BTreeSet<&str> = statuses.iter().map(|status| status.as_str()).collect();
    let statuses: Vec<&str> = statuses.into_iter().collect();
    let limit = i64::from(limit) + 1;
    let is_among = sql::<Bool>("(invoices.customer_key, invoices.id) IN (SELECT found.customer_key, found.id FROM unnest(")
        .bind::<Array<Text>, _>(statuses)
        .sql(") AS status CROSS JOIN LATERAL (SELECT customer_key, id, issued_at FROM invoices listed WHERE listed.organization_id = ")
        .bind::<SqlUuid, _>(organization)
        .sql(" AND listed.payment_status = status AND (listed.issued_at, listed.id) < (")
        .bind::<Timestamptz, _>(before_at)
        .sql(", ")
        .bind::<SqlUuid, _>(before_id)
        .sql(") ORDER BY listed.issued_at DESC, listed.id DESC LIMIT ")
        .bind::<BigInt, _>(limit)
        .sql(") found ORDER BY found.issued_at DESC, found.id DESC LIMIT ")
        .bind::<BigInt, _>(limit)
        .sql(")");
    Box::new(is_among)
}

/// The same of some customers' invoices, of each of whom no more are read than a page has.
pub(super) fn among_newest_of(
    organization: Uuid,
    (customers, statuses): (&[CustomerKey], Option<&[PaymentStatus]>),
    after: Option<Cursor>,
    limit: u32,
) -> Box<dyn BoxableExpression<invoices::table, Pg, SqlType = Bool>> {
    let (before_at, before_id) = after.map_or((LATEST, Uuid::max()), Cursor::parts);
    let statuses = statuses.map(|some| some.iter().map(|status| status.as_str()).collect::<Vec<_>>());
    let limit = i64::from(limit) + 1;
    let is_among = sql::<Bool>("(invoices.customer_key, invoices.id) IN (SELECT found.customer_key, found.id FROM unnest(")
        .bind::<Array<SqlUuid>, _>(customers.iter().map(|customer| customer.uuid()).collect::<Vec<_>>())
        .sql(") AS customer CROSS JOIN LATERAL (SELECT customer_key, id, issued_at FROM invoices listed WHERE listed.organization_id = ")
        .bind::<SqlUuid, _>(organization)
        .sql(" AND listed.customer_key = customer AND (listed.issued_at, listed.id) < (")
        .bind::<Timestamptz, _>(before_at)
        .sql(", ")
        .bind::<SqlUuid, _>(before_id)
        .sql(") AND listed.payment_status = ANY(coalesce(")
        .bind::<Nullable<Array<Text>>, _>(statuses)
        .sql(", ARRAY[listed.payment_status])) ORDER BY listed.issued_at DESC, listed.id DESC LIMIT ")
        .bind::<BigInt, _>(limit)
        .sql(") found ORDER BY found.issued_at DESC, found.id DESC LIMIT ")
        .bind::<BigInt, _>(limit)
        .sql(")");
    Box::new(is_among)
}
