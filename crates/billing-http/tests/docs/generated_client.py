"""The quick start and a long list, by a client that openapi-python-client makes of the description.

Run by generated_clients.rs, beside the package `made` that was generated.
"""

import os
import re
from datetime import datetime, timezone
from decimal import Decimal
from urllib.parse import parse_qs, urlsplit

from made import AuthenticatedClient
from made.api.customers import create_customer
from made.api.invoices import list_invoices
from made.api.metric_access import get_metric_access
from made.api.metrics import create_metric
from made.api.plans import create_plan
from made.api.subscriptions import create_subscription
from made.api.track import track_events
from made.models import BatchBody, CreateCustomerBody, CreateMetricBody, CreatePlanBody, CreateSubscriptionBody, ProblemView

client = AuthenticatedClient(
    base_url=os.environ["URL"],
    token=os.environ["KEY"],
    prefix="",
    auth_header_name="X-API-KEY",
    headers={"Accept": "application/json; numbers=text"},
)
now = datetime.now(timezone.utc)


def done(answer):
    assert not isinstance(answer, ProblemView), answer
    return answer


metric = done(create_metric.sync(client=client, body=CreateMetricBody(metric_name="made", event_name="api_call")))
tier = {"type": "per_unit", "range_start": 0, "cost_per_batch": "0.01", "metric_units_per_batch": 1}
version = {
    "currency_code": "USD",
    "recurring_charges": [{"name": "base", "amount": "0.10", "charge_timing": "in_advance"}],
    "components": [{"metric_id": metric.metric_id, "tiers": [tier]}],
}
plan = CreatePlanBody.from_dict({"plan_name": "Made", "plan_duration": "monthly", "initial_version": version})
plan = done(create_plan.sync(client=client, body=plan))
done(create_customer.sync(client=client, body=CreateCustomerBody(customer_id="made", email="made@acme.io")))
subscription = {"customer_id": "made", "plan_id": plan.plan_id, "start_date": now.strftime("%Y-%m-%d")}
subscription = done(create_subscription.sync(client=client, body=CreateSubscriptionBody.from_dict(subscription)))
assert subscription.end_date > now, "times are times"
event = {"customer_id": "made", "event_name": "api_call", "idempotency_id": "1", "time_created": now.isoformat()}
assert done(track_events.sync(client=client, body=BatchBody.from_dict({"batch": [event]}))).success == "all"
access = done(get_metric_access.sync(client=client, customer_id="made", metric_id=metric.metric_id))
assert access.access and access.access_per_subscription[0].metric_usage == "1", access

invoices, cursor = [], None
while True:
    page = list_invoices.sync_detailed(client=client, **({"cursor": cursor} if cursor else {}))
    invoices.extend(done(page.parsed))
    following = re.match('<([^>]*)>; rel="next"', page.headers.get("link", ""))
    if not following:
        break
    cursor = parse_qs(urlsplit(following[1]).query)["cursor"][0]
own = [invoice for invoice in invoices if invoice.customer.customer_id == "made"]
amount = own[0].line_items[0].amount
assert isinstance(amount, str) and Decimal(amount) == Decimal("0.1"), amount
assert len({invoice.invoice_id for invoice in invoices}) == len(invoices), "no row comes twice"
assert len(invoices) == int(os.environ["COPIES"]) + 2, len(invoices)
refused = create_customer.sync(client=client, body=CreateCustomerBody(customer_id="made", email="made@acme.io"))
assert isinstance(refused, ProblemView) and refused.title == "duplicate_resource", refused
print(f"{len(invoices)} invoices by a generated client")
