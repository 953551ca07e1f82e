//! `cargo xtask bench console`: how long each page of the console takes with few customers and with many.
//!
//! Pages are found as people find them, by following links from the first one: of links that differ only in what they are about one is
//! followed. Each is opened on one connection, again and again, by a client beside the service.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Response;

use super::beside::median;
use super::report::Report;
use super::stage::{KEY, Stage};
use super::{Options, create, load, machine};

/// Customers at first and in the end, with a hundred events and two invoices each.
const SIZES: [u64; 2] = [1_000, 100_000];
const EVENTS_EACH: u64 = 100;
/// Pages that are opened at most, and how often each is measured.
const PAGES_MAX: usize = 150;
const TIMES: usize = 15;
/// What no page may take, in milliseconds, half of the time.
const MEDIAN_MAX_MS: f64 = 50.0;

const EMAIL: &str = "ada@bench.test";
const PASSWORD: &str = "correct horse battery";

/// Runs everything.
///
/// # Errors
/// What does not build, start or answer, and pages that take longer than they may.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    let stage = Stage::set(&options.profile)?;
    let mut report = Report::default();
    machine(&stage, &mut report)?;
    prepare(&stage)?;
    let visitor = Visitor::signed_in(&stage)?;
    let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut pages = Vec::new();
    for (from, to) in [(1, SIZES[0]), (SIZES[0] + 1, SIZES[1])] {
        multiply(&stage, from, to)?;
        if pages.is_empty() {
            pages = visitor.walk()?;
        }
        for (shape, path) in &pages {
            figures.entry(shape.clone()).or_default().push(visitor.median_ms(path)?);
        }
    }
    println!("| page | {} customers, ms | {} customers, ms |\n|---|---:|---:|", SIZES[0], SIZES[1]);
    for (shape, medians) in &figures {
        println!("| `{shape}` | {:.1} | {:.1} |", medians[0], medians[1]);
        report.keep(&format!("{shape}, ms"), json!(medians));
    }
    report.write(&options.output)?;
    stage.clear()?;
    let slow: Vec<_> = figures.iter().filter(|(_, medians)| medians.iter().any(|ms| *ms > MEDIAN_MAX_MS)).collect();
    ensure!(slow.is_empty(), "pages take more than {MEDIAN_MAX_MS} ms: {slow:?}");
    Ok(())
}

/// One customer with all that customers have, and somebody who may look at it.
fn prepare(stage: &Stage) -> anyhow::Result<()> {
    let id = |made: &Value, name: &str| made[name].as_str().map(str::to_owned).context("an id");
    let metric = id(&create(stage, "/api/metrics/", &json!({"event_name": "call"}))?, "metric_id")?;
    let version = json!({"currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": 10, "charge_timing": "in_advance"}],
        "components": [{"metric_id": metric, "tiers": [
            {"type": "free", "range_start": 0, "range_end": 50},
            {"type": "per_unit", "range_start": 50, "cost_per_batch": "0.25", "metric_units_per_batch": 1}]}]});
    let plan = json!({"plan_name": "Basic", "plan_duration": "monthly", "initial_version": version});
    let plan = id(&create(stage, "/api/plans/", &plan)?, "plan_id")?;
    create(
        stage,
        "/api/customers/",
        &json!({"customer_id": "c0", "customer_name": "Company 0", "email": "c0@acme.example"}),
    )?;
    let start = (time::OffsetDateTime::now_utc() - time::Duration::DAY).date();
    create(
        stage,
        "/api/subscriptions/",
        &json!({"customer_id": "c0", "plan_id": plan, "start_date": start.to_string()}),
    )?;
    create(stage, "/api/customers/c0/one_off_lines/", &json!({"name": "device", "amount": 5, "invoice_now": true}))?;
    create(stage, "/api/credits/", &json!({"customer_id": "c0", "amount": 7, "currency_code": "USD"}))?;
    let alert = json!({"kind": "metric_usage", "metric_id": metric, "threshold": 1_000_000, "unit": "absolute", "customer_id": "c0"});
    create(stage, "/api/usage_alerts/", &alert)?;
    create(
        stage,
        "/api/webhook_endpoints/",
        &json!({"url": "http://127.0.0.1:9/", "event_types": ["metric.created"]}),
    )?;
    create(stage, "/api/test_clocks/", &json!({"name": "clock", "frozen_time": format!("{start}T00:00:00Z")}))?;
    let (_, organization) = load::call(stage.service.addr, &load::get("/api/organization/", KEY))?;
    let organization: Value = serde_json::from_slice(&organization)?;
    let mut user = stage
        .program()
        .args(["create-user", "--email", EMAIL, "--role", "owner", "--password-stdin", "--organization"])
        .arg(id(&organization, "organization_id")?)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    user.stdin.take().context("no input")?.write_all(PASSWORD.as_bytes())?;
    ensure!(user.wait()?.success(), "no user was made");
    Ok(())
}

/// More customers like the first, from one number to another: what they have is copied row by row under keys of their own, their invoices are
/// spread over fifty days, and each has events of one day, which are in the roll-ups.
fn multiply(stage: &Stage, from: u64, to: u64) -> anyhow::Result<()> {
    let path = stage.folder().join("customers.sql");
    let numbered = |script: &str| script.replace("{from}", &from.to_string()).replace("{to}", &to.to_string());
    fs::write(&path, numbered(COPY) + &numbered(EVENTS).replace("{events}", &EVENTS_EACH.to_string()))?;
    stage.sql_files(&[path])?;
    stage.sql("VACUUM (FREEZE, ANALYZE); CHECKPOINT;").map(drop)
}

const COPY: &str = "
    SET session_replication_role = replica; SET synchronous_commit = off; SET work_mem = '128MB';
    CREATE EXTENSION IF NOT EXISTS pgcrypto;
    CREATE OR REPLACE FUNCTION pg_temp.key(organization uuid, id text) RETURNS uuid LANGUAGE sql AS $$
        -- The fifth version of such ids, as the service derives keys of customers.
        SELECT encode(set_byte(set_byte(hash, 6, (get_byte(hash, 6) & 15) | 80), 8, (get_byte(hash, 8) & 63) | 128), 'hex')::uuid
        FROM (SELECT substr(digest(uuid_send(organization) || convert_to(id, 'UTF8'), 'sha1'), 1, 16) AS hash) one
    $$;
    CREATE TEMP TABLE numbers AS
        SELECT n, 'c' || n AS customer_id, pg_temp.key(organization_id, 'c' || n) AS customer_key
        FROM customers, generate_series({from}::bigint, {to}) n WHERE customer_id = 'c0';
    DO $do$
    DECLARE
        copied text;
        names text;
        changed text;
    BEGIN
        FOREACH copied IN ARRAY ARRAY['customers', 'customer_emails', 'billing_due', 'subscriptions', 'billing_records', 'invoices', 'invoice_lines',
            'invoice_numbers', 'credits', 'credit_entries'] LOOP
            SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FILTER (WHERE attidentity = ''),
                string_agg(format(CASE
                    WHEN attname IN ('id', 'subscription_id', 'record_id', 'invoice_id', 'credit_id') THEN '%1$L, md5(n || original.%1$I::text)::uuid'
                    WHEN attname IN ('customer_key', 'customer_id') THEN '%1$L, numbers.%1$I'
                    WHEN attname = 'list_key' THEN '%1$L, md5(n || ''list'')::uuid'
                    WHEN attname = 'name' AND copied = 'customers' THEN '%1$L, ''Company '' || n'
                    WHEN attname = 'email' THEN '%1$L, numbers.customer_id || ''@acme.example'''
                    WHEN attname = 'number' THEN '%1$L, n || ''-'' || original.%1$I'
                    WHEN attname = 'issued_at' THEN '%1$L, original.%1$I - (n %% 1200) * interval ''1 hour'''
                END, attname), ', ')
            INTO names, changed
            FROM pg_attribute WHERE attrelid = copied::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
            EXECUTE format(
                'INSERT INTO %1$I (%2$s) SELECT %3$s
                FROM %1$I original CROSS JOIN numbers CROSS JOIN LATERAL jsonb_populate_record(original, jsonb_build_object(%4$s)) copy
                WHERE original.customer_key = (SELECT customer_key FROM customers WHERE customer_id = ''c0'')',
                copied, names, 'copy.' || replace(names, ', ', ', copy.'), changed
            );
        END LOOP;
    END
    $do$;
    TRUNCATE subscription_counts;
    INSERT INTO subscription_counts
        SELECT organization_id, quarter_of_hour_before(end_at - interval '1 microsecond') + interval '15 minutes', plan_version_id, 1, 0, count(*)
        FROM subscriptions GROUP BY 1, 2, 3;
    TRUNCATE invoiced_hours;
    INSERT INTO invoiced_hours
        SELECT organization_id, date_trunc('hour', issued_at, 'UTC'), currency_code, 1, sum(amount)
        FROM invoices WHERE payment_status <> 'voided' GROUP BY 1, 2, 3;
";

const EVENTS: &str = "
    SELECT create_events_partition(date_trunc('month', now() - interval '2 days', 'UTC'));
    INSERT INTO events (organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties, arrival)
        SELECT customer.organization_id, numbers.customer_key, numbers.customer_id, md5(numbers.customer_id || '-' || m)::uuid, numbers.customer_id || '-' || m,
            'call', date_trunc('day', now() - interval '2 days', 'UTC') + m * interval '2 minutes', '{}', m
        FROM numbers CROSS JOIN generate_series(1, {events}) m
        JOIN customers customer ON customer.customer_id = 'c0';
    INSERT INTO usage_rollup (customer_key, organization_id, metric_id, dimensions, bucket_hours, bucket, event_count, sum)
        WITH hours AS (
            SELECT event.customer_key, event.organization_id, date_trunc('hour', time_created, 'UTC') AS hour, count(*) AS events
            FROM events event JOIN numbers USING (customer_key) GROUP BY 1, 2, 3
        )
        SELECT hours.customer_key, hours.organization_id, metric.id, '', 1, hour, events, 0 FROM hours CROSS JOIN metrics metric
        UNION ALL
        SELECT hours.customer_key, hours.organization_id, metric.id, '', 24, date_trunc('day', hour, 'UTC'), sum(events), 0
        FROM hours CROSS JOIN metrics metric GROUP BY 1, 2, 3, 6;
";

/// Somebody who looks at pages.
struct Visitor<'s> {
    stage: &'s Stage,
    agent: Agent,
    cookie: String,
}

impl<'s> Visitor<'s> {
    fn signed_in(stage: &'s Stage) -> anyhow::Result<Self> {
        let agent = Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
        let mut visitor = Self { stage, agent, cookie: String::new() };
        let (form, text) = visitor.get("/console/sign-in/")?;
        visitor.keep_cookie(&form)?;
        let token = text.split_once("name=\"form_token\" value=\"").and_then(|(_, rest)| rest.split('"').next());
        let url = format!("http://{}/console/sign-in/", stage.service.addr);
        let fields = [("form_token", token.context("no token")?), ("email", EMAIL), ("password", PASSWORD)];
        let answer = visitor.agent.post(url).header("cookie", &visitor.cookie).send_form(fields)?;
        ensure!(answer.status() == 303, "signing in answered {}", answer.status());
        visitor.keep_cookie(&answer)?;
        Ok(visitor)
    }

    fn keep_cookie<T>(&mut self, answer: &Response<T>) -> anyhow::Result<()> {
        let set = answer.headers().get_all("set-cookie").iter().filter_map(|cookie| cookie.to_str().ok());
        let kept = set.filter(|cookie| !cookie.contains("Max-Age=0")).filter_map(|cookie| cookie.split(';').next());
        self.cookie = kept.collect::<Vec<_>>().join("; ");
        ensure!(!self.cookie.is_empty(), "no cookie");
        Ok(())
    }

    fn get(&self, path: &str) -> anyhow::Result<(Response<()>, String)> {
        let request = self.agent.get(format!("http://{}{path}", self.stage.service.addr));
        let mut answer = request.header("cookie", &self.cookie).call()?;
        let text = answer.body_mut().read_to_string()?;
        Ok((answer.map(drop), text))
    }

    /// One page of each shape that links lead to, from the first page on.
    fn walk(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut found = vec![("/console/".to_owned(), "/console/".to_owned())];
        let searches = ["c77", "Company 77", "c77@acme.example", "c77-9"]
            .map(|text| format!("/console/search/?q={}", text.replace(' ', "%20")));
        found.extend(searches.into_iter().map(|path| (path.clone(), path)));
        found.push(("/console/invoices/?status=unpaid".to_owned(), "/console/invoices/?status=unpaid".to_owned()));
        let mut looked = 0;
        while let Some((_, path)) = found.get(looked).filter(|_| looked < PAGES_MAX) {
            let (answer, text) = self.get(path)?;
            ensure!(is_page(path, &answer), "{path} answered {}", answer.status());
            for link in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let link = link.replace("&amp;", "&");
                let link = link.split('#').next().unwrap_or_default();
                let is_of_console = link.starts_with("/console/") && !link.contains("/asset") && !link.contains("csv");
                let shape = shape_of(link);
                if is_of_console && found.iter().all(|(known, _)| *known != shape) {
                    found.push((shape, link.to_owned()));
                }
            }
            looked += 1;
        }
        ensure!(looked == found.len(), "there are more than {PAGES_MAX} pages");
        Ok(found)
    }

    /// What a page takes half of the time, in milliseconds.
    fn median_ms(&self, path: &str) -> anyhow::Result<f64> {
        let mut took = Vec::with_capacity(TIMES);
        for round in 0..TIMES + 2 {
            let began = Instant::now();
            let (answer, _) = self.get(path)?;
            ensure!(is_page(path, &answer), "{path} answered {}", answer.status());
            if round >= 2 {
                took.push(milliseconds(began.elapsed()));
            }
        }
        Ok(median(&took))
    }
}

/// Whether it is the page asked for, or leads to the only thing that was searched for.
fn is_page(path: &str, answer: &Response<()>) -> bool {
    let leads_on = path.starts_with("/console/search/") && answer.status() == 303;
    answer.status() == 200
        || leads_on && answer.headers().get("location").is_some_and(|to| !to.as_bytes().ends_with(b"/sign-in/"))
}

fn milliseconds(took: Duration) -> f64 {
    took.as_secs_f64() * 1_000.0
}

/// A link without what it is about: parts with a digit, and values of parameters, are left out.
fn shape_of(link: &str) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let parts = path.split('/').map(|part| if part.contains(|c: char| c.is_ascii_digit()) { "{}" } else { part });
    let names: Vec<&str> =
        query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty()).collect();
    let path = parts.collect::<Vec<_>>().join("/");
    if names.is_empty() { path } else { format!("{path}?{}", names.join("&")) }
}
