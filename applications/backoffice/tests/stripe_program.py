"""localstripe with what it lacks, for tests. It prints its port.

It keeps idempotency keys, as Stripe does for a day, searches payment intents by their metadata,
declines as Stripe's test cards do, and goes wrong in the ways that a network does.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from aiohttp import web
from localstripe import resources
from localstripe.errors import UserError
from localstripe.resources import Charge, PaymentIntent, PaymentMethod
from localstripe.server import app, unflatten_data

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CARDS = {
    "pm_card_visa": "4242424242424242",
    "pm_card_visa_chargeDeclined": "4000000000000002",
    "pm_card_chargeDeclinedInsufficientFunds": "4000000000009995",
    "pm_card_chargeDeclinedStolenCard": "4000000000009979",
    "pm_card_chargeDeclinedExpiredCard": "4000000000000069",
    "pm_card_authenticationRequired": "4000002760003184",
    "pm_card_requiresAction": "4000002500003155",
    "pm_card_processing": "4000000000000077",
}
FAILURES = {  # by number: the code, and that of the bank
    "4000000000000002": ("card_declined", "generic_decline"),
    "4000000000009995": ("card_declined", "insufficient_funds"),
    "4000000000009979": ("card_declined", "stolen_card"),
    "4000000000000069": ("expired_card", None),
    "4000002760003184": ("authentication_required", "authentication_required"),
}
EXPLAINED = {
    "description",
    "automatic_payment_methods",
    "return_url",
    "statement_descriptor_suffix",
}
"""Parameters that localstripe does not know, and that change nothing here."""


class Faults:
    """Requests that go wrong before or after the work is done."""

    def __init__(self) -> None:
        self.planned: dict[str, list[str]] = defaultdict(list)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        planned = self.planned[request.path]
        return await fault(planned.pop(0), request, handler) if planned else await handler(request)


async def fault(kind: str, request: web.Request, handler: Handler) -> web.StreamResponse:
    match kind:
        case "drop":
            return dropped(request)
        case "drop after":
            await handler(request)
            return dropped(request)
        case "hang after":
            await handler(request)
            await asyncio.Event().wait()
        case "empty":
            return web.json_response({"object": "search_result", "data": [], "has_more": False})
        case "finish":
            # The owner has acted just before.
            finish(PaymentIntent._api_retrieve(request.path.split("/")[3]))
            return await handler(request)
        case "echo":
            # Worse than Stripe, which shows the end of a key only.
            key = request.headers["Authorization"]
            error = {"message": f"Invalid key: {key}", "code": key}
            return web.json_response({"error": error}, status=401)
        case _ if kind.startswith("refuse"):
            _, code, parameter = kind.split(" ")
            error = {"type": "invalid_request_error", "code": code, "param": parameter}
            return web.json_response({"error": error}, status=400)
        case _:
            error = {"type": "api_error", "message": "It went wrong."}
            return web.json_response({"error": error}, status=int(kind))
    raise AssertionError(kind)


def dropped(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Keys:
    """The answers that are replayed to a repeated idempotency key."""

    def __init__(self) -> None:
        self.locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.answers: dict[str, tuple[str, int, bytes]] = {}

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        key = request.headers.get("Idempotency-Key")
        if key is None or request.method != "POST":
            return await handler(request)
        body = request.path.encode() + await request.read()
        async with self.locks[key]:
            return await self.once(key, sha256(body).hexdigest(), request, handler)

    async def once(
        self, key: str, digest: str, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if key not in self.answers:
            answer = await handler(request)
            assert isinstance(answer, web.Response)
            assert isinstance(answer.body, bytes)
            if answer.status >= 500:
                return answer
            self.answers[key] = (digest, answer.status, answer.body)
        known, status, text = self.answers[key]
        if known != digest:
            error = {"type": "idempotency_error", "message": "The parameters are not the same."}
            return web.json_response({"error": error}, status=400)
        return web.Response(body=text, status=status, content_type="application/json")


def number_of(charge: Any) -> str:
    return str(PaymentMethod._api_retrieve(charge.payment_method)._card_number)


def test_card(id: str) -> Any:
    """By the name that Stripe gives it."""
    if id not in CARDS:
        return None
    card = {"number": CARDS[id], "exp_month": 12, "exp_year": 2030, "cvc": "123"}
    return PaymentMethod(type="card", card=card)


def fail_charge(charge: Any) -> None:
    charge.status = "failed"
    charge.failure_code, charge.decline_code = FAILURES[number_of(charge)]
    charge.failure_message = "Your card was declined."


def raise_failure(charge: Any) -> None:
    intent = PaymentIntent._api_retrieve(charge.payment_intent)
    error = {**intent.last_payment_error, "payment_intent": intent._export()}
    raise UserError(402, charge.failure_message, error)


def last_payment_error(intent: Any) -> Any:
    charge = intent.latest_charge
    if charge is None or charge.status != "failed":
        return None
    return {"code": charge.failure_code, "decline_code": charge.decline_code}


initialize_charge = Charge._initialize_charge


def initialize_unless_slow(charge: Any, *whens: Any) -> None:
    if number_of(charge) != CARDS["pm_card_processing"]:
        initialize_charge(charge, *whens)


create_intent = PaymentIntent._api_create.__func__


def create_explained(cls: Any, /, **data: Any) -> Any:
    assert len(data.get("statement_descriptor_suffix", "")) <= 22
    return create_intent(cls, **{key: data[key] for key in data.keys() - EXPLAINED})


def amend() -> None:
    resources.Store.dump_to_disk = lambda _: None  # it goes to a file in /tmp at each change
    PaymentMethod._try_get_canonical_test_article = staticmethod(test_card)
    PaymentMethod._charging_is_declined = lambda card: card._card_number in FAILURES
    PaymentMethod._requires_authentication = lambda card: (
        card._card_number == CARDS["pm_card_requiresAction"]
    )
    Charge._set_auth_failure = fail_charge
    Charge._raise_failure = raise_failure
    Charge._initialize_charge = initialize_unless_slow
    PaymentIntent.last_payment_error = property(last_payment_error)
    PaymentIntent._api_create = classmethod(create_explained)


def intents() -> list[Any]:
    return [each for name, each in resources.store.items() if name.startswith("payment_intent:")]


def charges() -> dict[str, list[int]]:
    """The cents of those that succeeded, by the key of their intent."""
    result: dict[str, list[int]] = defaultdict(list)
    for name, each in resources.store.items():
        if name.startswith("charge:") and each.status == "succeeded":
            intent = PaymentIntent._api_retrieve(each.payment_intent)
            result[intent.metadata["key"]].append(each.amount)
    return result


def finish(intent: Any) -> None:
    """The owner has acted, or the bank has."""
    if intent.next_action:
        intent.next_action = None
        intent.payment_method = "pm_card_visa"
        intent._create_charge(None)
    else:
        intent.latest_charge._trigger_payment()


@web.middleware
async def search(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path != "/v1/payment_intents/search":
        return await handler(request)
    query = unflatten_data(request.query)["query"]
    found = [
        each._export()
        for each in intents()
        if query in {f"metadata['{name}']:'{text}'" for name, text in each.metadata.items()}
    ]
    return web.json_response({"object": "search_result", "data": found, "has_more": False})


class Controls:
    """What tests say to the process, under `/_config`."""

    def __init__(self, faults: Faults, keys: Keys) -> None:
        self.faults = faults
        self.keys = keys

    async def post(self, request: web.Request) -> web.Response:
        return web.json_response(self.answer(request.match_info["action"], await request.json()))

    def answer(self, action: str, values: dict[str, Any]) -> Any:
        match action:
            case "reset":
                resources.store.clear()
                self.faults.planned.clear()
                self.keys.answers.clear()
            case "fail":
                self.faults.planned[values["path"]] += [values["kind"]] * values["times"]
            case "heal":
                self.faults.planned.clear()
            case "expire":
                self.keys.answers.clear()
            case "finish":
                finish(PaymentIntent._api_retrieve(values["intent"]))
            case "charges":
                return charges()
            case "intents":
                return [each._export() for each in intents()]
        return None


async def main() -> None:
    amend()
    faults, keys = Faults(), Keys()
    app.router.add_post("/_config/{action}", Controls(faults, keys).post)
    # Faults come first, then keys; the search comes behind the check of credentials.
    app.middlewares[:0] = [faults.middleware, keys.middleware]
    app.middlewares.insert(4, search)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
