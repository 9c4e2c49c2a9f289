"""Braintree on this machine: XML over HTTP, in a process of its own.

It checks credentials, keeps sales by order id, rejects the same sale twice as a duplicate, and goes
wrong as a network does. Run as a program it prints its port.
"""

import asyncio
import json
import subprocess
import sys
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from aiohttp import web

MERCHANT, PUBLIC_KEY, PRIVATE_KEY = "merchant", "public", "private_canary_77aa"
AUTHORIZATION = "Basic " + b64encode(f"{PUBLIC_KEY}:{PRIVATE_KEY}".encode()).decode()

DECLINES = {  # by token: the code of the processor, and its kind
    "insufficient-funds": ("2001", "soft_declined"),
    "expired-card": ("2004", "hard_declined"),
}
TOKENS = {"visa", "slow", "stuck", *DECLINES}


class BraintreeServer:
    """The process, as tests use it. Its methods block."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def call(self, path: str, /, **values: object) -> Any:
        body = json.dumps(values).encode()
        with urlopen(Request(f"{self.url}/_config/{path}", body), timeout=20) as answer:
            return json.load(answer)

    def reset(self) -> None:
        """As new: no sales, no faults."""
        self.call("reset")

    def fail(self, kind: str, times: int = 1, path: str = "transactions") -> None:
        """The next requests of the path go wrong: see `fault`."""
        self.call("fail", kind=kind, times=times, path=path)

    def refuse(self, code: str, attribute: str, times: int = 1) -> None:
        """The next sales are no valid requests."""
        self.fail(f"refuse {code} {attribute}", times)

    def settle(self, order: str) -> None:
        """What was pending is paid."""
        self.call("settle", order=order)

    @property
    def charges(self) -> Mapping[str, list[int]]:
        """The cents of all that was charged, by order id."""
        result: Mapping[str, list[int]] = self.call("charges")
        return result


@contextmanager
def braintree() -> Iterator[BraintreeServer]:
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            yield BraintreeServer(int(process.stdout.readline()))
        finally:
            process.kill()


@dataclass
class Sale:
    id: str
    order: str
    amount: Decimal
    token: str
    status: str
    code: str = "1000"
    kind: str = "approved"
    rejection: str = ""

    def xml(self) -> str:
        fields = {
            "id": self.id,
            "type": "sale",
            "amount": str(self.amount),
            "status": self.status,
            "order-id": self.order,
            "processor-response-code": self.code,
            "processor-response-type": self.kind,
            "gateway-rejection-reason": self.rejection,
        }
        return element("transaction", *(element(name, escape(fields[name])) for name in fields))


def element(name: str, *content: str, **attributes: str) -> str:
    given = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{given}>{''.join(content)}</{name}>"


class Sales:
    def __init__(self) -> None:
        self.all: list[Sale] = []
        self.planned: dict[str, list[str]] = defaultdict(list)

    def sell(self, order: str, amount: Decimal, token: str) -> Sale:
        sale = Sale(f"tx{len(self.all)}", order, amount, token, "submitted_for_settlement")
        if any(each.order == order and is_alive(each) for each in self.all):
            sale.status, sale.rejection = "gateway_rejected", "duplicate"
        elif token in DECLINES:
            sale.status = "processor_declined"
            sale.code, sale.kind = DECLINES[token]
        elif token in {"slow", "stuck"}:
            sale.status = "settlement_pending"
        self.all.append(sale)
        return sale

    async def post(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != AUTHORIZATION:
            return web.Response(status=401)
        if request.match_info["merchant"] != MERCHANT:
            return web.Response(status=403)
        path = request.match_info["path"]
        tree = ET.fromstring(await request.text())
        planned = self.planned[path]
        kind = planned.pop(0) if planned else ""
        if kind.isdigit():
            return web.Response(status=int(kind), text=AUTHORIZATION)
        if kind == "drop":
            return dropped(request)
        answer = {
            "transactions": self.sale,
            "advanced_search_ids": self.search,
            "advanced_search": self.fetch,
        }[path.removeprefix("transactions/")](tree, kind)
        if kind == "drop after":
            return dropped(request)
        if kind == "hang after":
            await asyncio.Event().wait()
        return answer

    async def void(self, request: web.Request) -> web.Response:
        (sale,) = [each for each in self.all if each.id == request.match_info["id"]]
        if sale.status not in {"submitted_for_settlement", "settlement_pending"}:
            return answered(invalid("91504", "base"), 422)
        if sale.token == "stuck":
            return answered(invalid("91504", "base"), 422)
        sale.status = "voided"
        return answered(sale.xml())

    def sale(self, tree: ET.Element, kind: str) -> web.Response:
        order, token = text(tree, "order_id"), text(tree, "payment_method_token")
        assert text(tree, "options/submit_for_settlement") == "true"
        assert 0 < len(order) <= 255
        if kind.startswith("refuse"):
            return answered(invalid(*kind.split(" ")[1:]), 422)
        if token not in TOKENS:
            return answered(invalid("91518", "payment_method_token"), 422)
        sale = self.sell(order, Decimal(text(tree, "amount")), token)
        if is_alive(sale):
            return answered(sale.xml(), 201)
        message = element("message", "Declined")
        no_errors = element("errors", element("errors", type="array"))
        error = element("api-error-response", no_errors, message, sale.xml())
        return answered(error, 422)

    def search(self, tree: ET.Element, kind: str) -> web.Response:
        order = text(tree, "order_id/is")
        found = [each for each in self.all if each.order == order and kind != "empty"]
        ids = element("ids", *(element("item", each.id) for each in found), type="array")
        return answered(element("search-results", element("page-size", "50", type="integer"), ids))

    def fetch(self, tree: ET.Element, kind: str) -> web.Response:
        ids = {item.text for item in tree.iterfind("ids/item")}
        found = [each.xml() for each in self.all if each.id in ids]
        return answered(element("credit-card-transactions", *found))


def is_alive(sale: Sale) -> bool:
    return sale.status in {"submitted_for_settlement", "settlement_pending"}


def text(tree: ET.Element, path: str) -> str:
    found = tree.findtext(path)
    assert found is not None, path
    return found


def invalid(code: str, attribute: str) -> str:
    error = element(
        "error",
        element("code", code),
        element("attribute", attribute, type="symbol"),
        element("message", f"{attribute} is invalid."),
    )
    of_sale = element("transaction", element("errors", error, type="array"))
    none = element("errors", type="array")
    return element("api-error-response", element("errors", none, of_sale), element("message", "No"))


def answered(body: str, status: int = 200) -> web.Response:
    return web.Response(text=body, status=status, content_type="application/xml")


def dropped(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def charges(sales: Iterable[Sale]) -> Mapping[str, list[int]]:
    result: dict[str, list[int]] = defaultdict(list)
    for sale in sales:
        if sale.status == "submitted_for_settlement":
            result[sale.order].append(int(sale.amount * 100))
    return result


async def main() -> None:
    sales = Sales()

    async def configure(request: web.Request) -> web.Response:
        values = await request.json()
        match request.match_info["action"]:
            case "reset":
                sales.all.clear()
                sales.planned.clear()
            case "fail":
                sales.planned[values["path"]] += [values["kind"]] * values["times"]
            case "settle":
                for sale in sales.all:
                    if sale.order == values["order"]:
                        sale.status = "submitted_for_settlement"
            case "charges":
                return web.json_response(charges(sales.all))
        return web.json_response(None)

    app = web.Application()
    app.router.add_post("/_config/{action}", configure)
    app.router.add_put("/merchants/{merchant}/transactions/{id}/void", sales.void)
    app.router.add_post("/merchants/{merchant}/{path:.+}", sales.post)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
