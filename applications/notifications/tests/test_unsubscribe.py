"""Links to unsubscribe, and the page behind them."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifications.config import Config
from notifications.database import Row
from notifications.links import BadLinkError, Wish, link, read_link
from receivers import Mails
from service import Service, answer, eventually, publish, running, web
from world import KEY, PAID, World

OLD = b"a-former-key-of-at-least-32-bytes"
ADA = Wish("ada", PAID, "mail")
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
wishes = st.builds(Wish, names, names, names)


def parts_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


@given(wishes)
def test_a_link_says_what_was_signed(wish: Wish) -> None:
    assert read_link((KEY,), parts_of(link("https://x.example", (KEY,), wish))) == wish


@given(wishes, wishes)
def test_no_signature_is_good_for_another_wish(one: Wish, other: Wish) -> None:
    signed = parts_of(link("", (KEY,), one))["s"]
    parts = {"r": other.recipient, "t": other.topic, "c": other.channel, "s": signed}
    if one == other:
        assert read_link((KEY,), parts) == one
    else:
        with pytest.raises(BadLinkError):
            read_link((KEY,), parts)


def test_parts_cannot_be_moved_into_each_other() -> None:
    parts = parts_of(link("", (KEY,), Wish("ab", "c", "mail")))
    with pytest.raises(BadLinkError):
        read_link((KEY,), parts | {"r": "a", "t": "bc"})


def test_a_former_key_still_checks_and_an_unknown_one_does_not() -> None:
    parts = parts_of(link("", (OLD,), ADA))
    assert read_link((KEY, OLD), parts) == ADA
    with pytest.raises(BadLinkError):
        read_link((KEY,), parts)


@dataclass
class Page:
    status: int
    kind: str
    text: str
    headers: dict[str, str]


class Site:
    def __init__(self, world: World, service: Service) -> None:
        self.world, self.service = world, service

    def ask(self, method: str, url: str, body: bytes | None = None) -> Page:
        path = url.removeprefix(self.world.config.public_url)
        request = urllib.request.Request(self.service.url + path, body, method=method)
        try:
            response = urllib.request.urlopen(request, timeout=20)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            text = response.read().decode()
            return Page(response.status, headers.get("content-type", ""), text, headers)

    def link(self, **changed: str) -> str:
        url = link(self.world.config.public_url, (KEY,), ADA)
        return f"{url.partition('?')[0]}?{urlencode(parts_of(url) | changed)}"

    def preferences(self) -> list[Row]:
        return self.world.rows("SELECT recipient, topic, channel, allowed FROM preferences")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The page as it is served, on one file for all tests of this module."""
    file = tmp_path_factory.mktemp("site") / "notices.db"
    world = World(Config(database=f"sqlite:///{file}", link_keys=(KEY,)))
    world.topic()
    with web(world) as service:
        yield Site(world, service)


@pytest.fixture(autouse=True)
def _no_preferences(request: pytest.FixtureRequest) -> None:
    if "site" in request.fixturenames:
        site: Site = request.getfixturevalue("site")
        site.world.many("DELETE FROM preferences WHERE recipient = ?", [("ada",)])
        site.world.recipient("ada", "mail")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_looking_at_the_page_changes_nothing(site: Site, method: str) -> None:
    page = site.ask(method, site.link())
    assert (page.status, page.kind) == (200, "text/html; charset=utf-8")
    assert ('<form method="post">' in page.text) is (method == "GET")
    assert site.preferences() == []


def test_a_post_unsubscribes_and_may_be_repeated(site: Site) -> None:
    """Also with the body that mail programs send for one click (RFC 8058)."""
    for body in (b"", b"List-Unsubscribe=One-Click"):
        page = site.ask("POST", site.link(), body)
        assert (page.status, "You will get no more notices" in page.text) == (200, True)
        assert site.preferences() == [("ada", PAID, "mail", 0)]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "changed",
    [{"r": "bob"}, {"t": "shop.other"}, {"c": "sms"}, {"s": ""}, {"s": "é"}, {"s": "x" * 43}],
)
def test_a_changed_link_is_refused_in_plain_text(
    site: Site, method: str, changed: dict[str, str]
) -> None:
    page = site.ask(method, site.link(**changed))
    assert (page.status, page.kind) == (403, "text/plain; charset=utf-8")
    assert "use the one in the message" in page.text
    assert site.preferences() == []


def test_a_link_without_its_parts_is_refused(site: Site) -> None:
    assert site.ask("POST", "/unsubscribe").status == 403


def test_the_page_shows_no_markup_of_others(site: Site) -> None:
    wish = Wish("<b>", "<script>alert(1)</script>", "\"'&")
    page = site.ask("GET", link(site.world.config.public_url, (KEY,), wish))
    assert page.status == 200
    assert "<script>" not in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; over &quot;&#x27;&amp;" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"  # the address is a secret
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"


def test_the_link_of_somebody_who_is_gone_does_no_harm(site: Site) -> None:
    url = link(site.world.config.public_url, (KEY,), Wish("gone", PAID, "mail"))
    page = site.ask("POST", url, b"")
    assert (page.status, "Nothing to do" in page.text) == (200, True)
    assert site.preferences() == []


def test_the_link_in_a_mail_stops_what_is_on_the_way(sqlite: World, mails: Mails) -> None:
    """Two processes on one file: a notice was tried, and would be tried again in 30 s."""
    sqlite.topic()
    sqlite.recipient("ada", "mail")
    with running(sqlite, mails) as (jobs,), web(sqlite) as page:
        publish(jobs, PAID, "first")
        jobs.eventually(lambda: mails.came, "the first mail came")
        mails.down = True
        publish(jobs, PAID, "second")
        jobs.eventually(lambda: mails.tried == 2, "the second one was tried")
        url = mails.texts("ada")[0].rpartition(" ")[2]
        assert Site(sqlite, page).ask("POST", url, b"").status == 200

        def outcomes() -> list[Row]:
            return sqlite.outcomes("event", "outcome", "why")

        wanted = [("first", "sent", ""), ("second", "cancelled", "unsubscribed")]
        eventually(lambda: outcomes() == wanted, "the second one is cancelled")
        mails.down = False
        publish(jobs, PAID, "third")
        wanted.append(("third", "skipped", "mail: unsubscribed"))
        eventually(lambda: outcomes() == wanted, "the third one is not even planned")
    assert mails.to == ["ada"]


def test_a_link_can_be_asked_for(sqlite: World) -> None:
    answered = answer(sqlite, "link", "show", "ada", PAID, "mail")["link"]
    assert read_link((KEY,), parts_of(answered)) == ADA
