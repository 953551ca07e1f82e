"""Every call of the lotus-python client, unmodified and strict: it refuses answers that its own models do not describe.

Run by lotus_python.rs, which prepares the catalogue and names it in the environment.
"""

import os
from datetime import datetime, timedelta, timezone

import lotus
from lotus.client import Client
from lotus.request import APIError

URL, KEY = os.environ["URL"], os.environ["KEY"]
METRIC, FEATURE = os.environ["METRIC"], os.environ["FEATURE"]
STARTER, BUSINESS, ADDON = os.environ["STARTER"], os.environ["BUSINESS"], os.environ["ADDON"]
NOW = datetime.now(timezone.utc)
TODAY = NOW.strftime("%Y-%m-%d")

# What the client has, but cannot do: each fails before anything is sent, or asks for something else.
BROKEN_IN_THE_CLIENT = {"batch_create_customers", "get_plan"}

called = set()


class Recorded:
    """A client that notes which of its calls were made."""

    def __init__(self, **options):
        self.client = Client(api_key=KEY, host=URL, strict=True, **options)

    def __getattr__(self, name):
        called.add(name)
        return getattr(self.client, name)


def refused(status, call, **arguments):
    try:
        answer = call(**arguments)
    except APIError as error:
        assert error.status == status, error
        return error.payload
    raise AssertionError(f"not refused: {answer}")


failures = []
client = Recorded(on_error=lambda error, batch: failures.append(error), flush_at=100)
packed = Recorded(gzip=True, sync_mode=True)


def customers():
    made = client.create_customer(customer_id="acme", customer_name="Acme", email="billing@acme.io", properties={"a": 1})
    assert made["customer_id"] == "acme" and made["subscriptions"] == []
    provided = client.create_customer(
        customer_id="globex",
        customer_name="Globex",
        email="billing@globex.io",
        payment_provider="stripe",
        payment_provider_id="cus_1",
    )
    assert provided["payment_provider_id"] == "cus_1"
    payload = refused(
        400, client.create_customer, customer_id="acme", customer_name="Again", email="again@acme.io"
    )
    assert payload["title"] == "duplicate_resource"
    assert client.get_customer(customer_id="acme")["email"] == "billing@acme.io"
    assert {each["customer_id"] for each in client.list_customers()} == {"acme", "globex"}
    assert refused(404, client.get_customer, customer_id="nobody")["title"] == "not_found"


def credits():
    soon, later = NOW + timedelta(days=10), NOW + timedelta(days=20)
    made = client.create_credit(
        customer_id="acme",
        amount=12.5,
        currency_code="USD",
        description="welcome",
        effective_at=NOW - timedelta(hours=1),
        expires_at=soon,
    )
    assert made["amount_remaining"] == 12.5 and made["drawdowns"] == []
    paid = client.create_credit(
        customer_id="acme", amount=5, currency_code="USD", amount_paid=4, amount_paid_currency_code="USD"
    )
    assert paid["amount_paid"] == 4 and paid["amount_paid_currency"]["code"] == "USD"
    changed = client.update_credit(credit_id=made["credit_id"], description="hello", expires_at=later)
    assert changed["description"] == "hello" and changed["expires_at"] > soon
    assert client.void_credit(credit_id=paid["credit_id"])["status"].value == "inactive"
    listed = client.list_credits(
        customer_id="acme",
        currency_code="USD",
        status=["active", "inactive"],
        effective_after=NOW - timedelta(days=1),
        effective_before=NOW + timedelta(days=1),
        expires_after=NOW,
        expires_before=later + timedelta(days=1),
        issued_after=NOW - timedelta(days=1),
        issued_before=NOW + timedelta(days=1),
    )
    assert [each["credit_id"] for each in listed] == [made["credit_id"]]


def subscriptions():
    filters = [{"property_name": "region", "value": "eu"}]
    made = client.create_subscription(
        customer_id="acme",
        plan_id=STARTER,
        start_date=TODAY,
        auto_renew=True,
        is_new=True,
        subscription_filters=filters,
        metadata={"crm": "42"},
    )
    assert made["subscription_filters"] == filters and made["metadata"] == {"crm": "42"}
    listed = client.list_subscriptions(
        customer_id="acme",
        plan_id=STARTER,
        status=["active", "not_started"],
        range_start=NOW - timedelta(days=1),
        range_end=NOW + timedelta(days=1),
    )
    assert [each["subscription_id"] for each in listed] == [made["subscription_id"]]
    assert client.list_subscriptions(customer_id="acme", status=["ended"]) == []
    ending = (NOW + timedelta(days=5)).strftime("%Y-%m-%d")
    changed = client.update_subscription(
        subscription_id=made["subscription_id"], turn_off_auto_renew=True, end_date=ending, metadata={"crm": "43"}
    )
    assert changed["auto_renew"] is False and changed["end_date"].strftime("%Y-%m-%d") == ending
    # The client's checks are swapped: it lets through what becomes of usage under the name of the invoicing.
    switched = client.switch_subscription_plan(
        made["subscription_id"], switch_plan_id=BUSINESS, invoicing_behavior="keep_separate"
    )
    assert switched["billing_plan"]["plan_id"] == BUSINESS
    ended = client.cancel_subscription(
        subscription_id=switched["subscription_id"],
        flat_fee_behavior="prorate",
        usage_behavior="bill_none",
        invoicing_behavior="invoice_now",
    )
    assert ended["end_date"] <= datetime.now(timezone.utc)
    version = next(plan for plan in client.list_plans() if plan["plan_id"] == STARTER)
    by_version = packed.create_subscription(
        customer_id="globex", version_id=os.environ["STARTER_VERSION"], start_date=TODAY, end_date=ending
    )
    assert by_version["billing_plan"]["version"] == version["active_version"]
    return by_version["subscription_id"]


def addons(subscription):
    attached = client.attach_addon(
        subscription_id=subscription, addon_id=ADDON, quantity=2, metadata={"order": 7}
    )
    assert attached["addon"]["addon_id"] == ADDON and attached["metadata"] == {"order": 7}
    assert attached["fully_billed"] is True, "what is charged once was billed when it was attached"
    cancelled = client.cancel_addon(
        subscription_id=subscription,
        addon_id=ADDON,
        flat_fee_behavior="refund",
        usage_behavior="bill_full",
        invoicing_behavior="add_to_next_invoice",
    )
    assert cancelled["addon_subscription_id"] == attached["addon_subscription_id"]


def events():
    for number in range(250):
        client.track_event(
            customer_id="globex", event_name="api_call", idempotency_id=f"call-{number}", properties={"region": "eu"}
        )
    # The same once more: they count once.
    for number in range(250):
        client.track_event(customer_id="globex", event_name="api_call", idempotency_id=f"call-{number}")
    client.flush()
    assert failures == [], failures
    packed.track_event(customer_id="globex", event_name="api_call", time_created=NOW, properties={"bytes": 1.5})
    packed.track_event(customer_id="globex", event_name="api_call", time_created=NOW.isoformat(), idempotency_id=7)
    bad = refused(400, packed.track_event, customer_id="globex", event_name="api_call", time_created="2001-01-01")
    assert bad["success"] == "none"


def access():
    checked = client.check_metric_access(customer_id="globex", metric_id=METRIC)
    assert checked["access"] is True
    assert checked["access_per_subscription"][0]["metric_usage"] == 252
    # The client loses the filters on their way into the query; they were never told, so nothing is filtered.
    filters = [{"property_name": "region", "value": "eu"}]
    lost = client.check_metric_access(customer_id="globex", metric_id=METRIC, subscription_filters=filters)
    assert len(lost["access_per_subscription"]) == 1
    feature = client.check_feature_access(customer_id="globex", feature_id=FEATURE)
    assert feature["access"] is True and feature["feature"]["feature_id"] == FEATURE
    lost = client.check_feature_access(customer_id="globex", feature_id=FEATURE, subscription_filters=filters)
    assert lost["access"] is True

    # Two calls that the client itself calls old.
    for question in ({"event_name": "api_call"}, {"metric_id": METRIC}):
        (usage,) = client.get_customer_metric_access(customer_id="globex", **question)
        assert usage["plan_id"] == STARTER, usage
        (component,) = usage["usage_per_component"]
        assert component["metric_usage"] == 252 and component["metric_total_limit"] == 1000, component
    (granted,) = client.get_customer_feature_access(customer_id="globex", feature_name="support")
    assert granted["access"] is True and granted["plan_id"] == STARTER, granted
    (denied,) = client.get_customer_feature_access(customer_id="globex", feature_name="sso")
    assert denied["access"] is False


def plans():
    listed = client.list_plans(
        duration="monthly",
        exclude_tags=["legacy"],
        include_tags=["public"],
        include_tags_all=["public"],
        version_currency_code="USD",
        version_custom_type="all",
        version_status=["active", "ended"],
    )
    assert {plan["plan_id"] for plan in listed} == {STARTER, BUSINESS}
    # The client looks for a customer of that name.
    assert refused(404, client.get_plan, plan_id=STARTER)["title"] == "not_found"


def through_the_module():
    """The functions of the package are the calls of one shared client."""
    lotus.api_key, lotus.host, lotus.strict = KEY, URL, True
    assert lotus.get_customer(customer_id="acme")["customer_id"] == "acme"
    lotus.track_event(customer_id="acme", event_name="api_call", idempotency_id="module-1")
    lotus.shutdown()
    assert lotus.list_subscriptions(customer_id="acme", status=["ended"])


customers()
credits()
subscription = subscriptions()
events()
access()
addons(subscription)
plans()
through_the_module()
client.shutdown()
client.join()

public = {name for name in vars(Client) if not name.startswith("_") and callable(getattr(Client, name))}
left_out = public - called - BROKEN_IN_THE_CLIENT
assert not left_out, f"never called: {left_out}"
print(f"{len(public)} calls of lotus-python {lotus.__version__} work")
