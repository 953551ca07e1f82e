// The quick start and a long list, by a client that openapi-typescript and openapi-fetch make of the description. It is compiled
// in strict mode, so each use of an answer is also a check of its described type. Run by generated_clients.rs.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const { URL: baseUrl, KEY, COPIES } = process.env as Record<string, string>;
const headers = { "X-API-KEY": KEY, Accept: "application/json; numbers=text" };
const client = createClient<paths>({ baseUrl, headers });

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

/** What a call answered, or the problem that it told. */
function done<T>(result: { data?: T; error?: { title: string; detail: string } | object }): T {
  if (result.data === undefined) throw new Error(JSON.stringify(result.error));
  return result.data;
}

const metric = done(await client.POST("/api/metrics/", { body: { metric_name: "typed", event_name: "api_call" } }));
const plan = done(await client.POST("/api/plans/", {
  body: {
    plan_name: "Typed",
    plan_duration: "monthly",
    initial_version: {
      currency_code: "USD",
      recurring_charges: [{ name: "base", amount: "0.10", charge_timing: "in_advance" }],
      components: [{
        metric_id: metric.metric_id,
        tiers: [{ type: "per_unit", range_start: 0, cost_per_batch: 0.01, metric_units_per_batch: 1 }],
      }],
    },
  },
}));
const customer_id = "typed";
done(await client.POST("/api/customers/", { body: { customer_id, email: "typed@acme.io" } }));
const start_date = new Date().toISOString().slice(0, 10);
done(await client.POST("/api/subscriptions/", { body: { customer_id, plan_id: plan.plan_id, start_date } }));
const event = { customer_id, event_name: "api_call", idempotency_id: "1", time_created: new Date().toISOString() };
check(done(await client.POST("/api/track/", { body: { batch: [event] } })).success === "all", "an event is taken");

const access = done(await client.GET("/api/metric_access/", {
  params: { query: { customer_id, metric_id: metric.metric_id } },
}));
const usage: string | undefined = access.access_per_subscription[0]?.metric_usage;
check(access.access && usage === "1", `access: ${JSON.stringify(access)}`);

/** Every invoice, however many answers it takes: the header says where the list goes on. */
async function invoices() {
  const all = [];
  let cursor: string | undefined;
  do {
    const page = await client.GET("/api/invoices/", { params: { query: { cursor } } });
    all.push(...done(page));
    const next = /<([^>]*)>; rel="next"/.exec(page.response.headers.get("link") ?? "");
    cursor = next ? new URL(next[1]!).searchParams.get("cursor")! : undefined;
  } while (cursor !== undefined);
  return all;
}
const all = await invoices();
const own = all.filter((invoice) => invoice.customer.customer_id === customer_id);
const amount: string | undefined = own[0]?.line_items[0]?.amount;
check(amount === "0.1", `a decimal is text with all its digits: ${amount}`);
check(new Set(all.map((invoice) => invoice.invoice_id)).size === all.length, "no row comes twice");
check(all.length === Number(COPIES) + 2, `${all.length} invoices of ${COPIES} and two`);

const refused = await client.POST("/api/customers/", { body: { customer_id, email: "typed@acme.io" } });
check(refused.error?.title === "duplicate_resource", "a refusal is typed");
console.log(`${all.length} invoices by a generated client`);
