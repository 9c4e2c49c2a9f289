from datetime import timedelta

import pytest

from onbeat.model.errors import Invalid
from onbeat.model.limits import REDIRECTS_MAX, STATUSES_MAX
from onbeat.rules.callback_policy import (
    checked_connect_timeout,
    checked_redirects,
    checked_success,
    hop_after,
    is_redirect,
    is_success,
)

HERE = "https://api.example.com/a/b?c=1"
HEADERS = {
    "Content-Type": "application/json",
    "Authorization": "Bearer abc",
    "X-Api-Key": "k",
    "webhook-signature": "v1,x",
    "Onbeat-Report-Url": "https://onbeat.example/r",
    "Onbeat-Token": "3",
    "X-Kind": "plain",
}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, ()),
        (["2xx"], ()),
        ("any", ("any",)),
        ("3xx", ("3xx",)),
        ([200, "any"], ("any",)),
        ([200, "200", "3XX", 404], ("200", "3xx", "404")),
    ],
)
def test_statuses_are_stored_once(given: object, stored: tuple[str, ...]) -> None:
    assert checked_success(given) == stored  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], f"success must be a list of 1 to {STATUSES_MAX} statuses"),
        (["200"] * (STATUSES_MAX + 1), f"success must be a list of 1 to {STATUSES_MAX} statuses"),
        ("all", "success: 'all' is no status"),
        ([600], "success: '600' is no status"),
        ([99], "success: '99' is no status"),
        (["2x"], "success: '2x' is no status"),
        (["2xxx"], "success: '2xxx' is no status"),
        (["٢٠٠"], "success: '٢٠٠' is no status"),
    ],
)
def test_what_is_no_status_is_refused(given: object, says: str) -> None:
    with pytest.raises(Invalid, match=says) as caught:
        checked_success(given)  # type: ignore[arg-type]
    assert caught.value.field == "success"


@pytest.mark.parametrize(
    ("status", "statuses", "succeeds"),
    [
        (204, (), True),
        (304, (), False),
        (200, ("202",), False),
        (202, ("202", "4xx"), True),
        (404, ("202", "4xx"), True),
        (500, ("any",), True),
        (799, ("any",), True),
    ],
)
def test_success_is_what_the_policy_says(
    status: int, statuses: tuple[str, ...], succeeds: bool
) -> None:
    assert is_success(status, statuses) is succeeds


def test_numbers_have_bounds() -> None:
    assert checked_redirects(REDIRECTS_MAX) == REDIRECTS_MAX
    assert checked_connect_timeout(None) is None
    assert checked_connect_timeout(timedelta(seconds=5)) == timedelta(seconds=5)
    for count in (-1, REDIRECTS_MAX + 1):
        with pytest.raises(Invalid, match=f"redirects must be from 0 to {REDIRECTS_MAX}"):
            checked_redirects(count)
    for span in (timedelta(), timedelta(minutes=6)):
        with pytest.raises(Invalid, match=r"connect_timeout must be from 0\.01 s to 300 s"):
            checked_connect_timeout(span)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_needs_a_location(status: int) -> None:
    assert is_redirect(status, "/x")
    assert not is_redirect(status, None)
    assert not is_redirect(status, "")


@pytest.mark.parametrize("status", [200, 300, 304, 305, 306])
def test_other_answers_are_no_redirects(status: int) -> None:
    assert not is_redirect(status, "/x")


@pytest.mark.parametrize(
    ("status", "method", "becomes", "keeps_body"),
    [
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (301, "PUT", "PUT", True),
        (302, "DELETE", "DELETE", True),
        (303, "POST", "GET", False),
        (303, "PUT", "GET", False),
        (303, "HEAD", "HEAD", True),
        (307, "POST", "POST", True),
        (308, "PATCH", "PATCH", True),
    ],
)
def test_the_method_follows_the_rules_of_http(
    status: int, method: str, becomes: str, keeps_body: bool
) -> None:
    hop = hop_after(status, "/x", method=method, url=HERE, headers=HEADERS, body=b"b")
    assert (hop.method, hop.body) == (becomes, b"b" if keeps_body else None)
    assert ("Content-Type" in hop.headers) is keeps_body
    assert ("webhook-signature" in hop.headers) is keeps_body
    assert hop.headers["Authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("x", "https://api.example.com/a/x"),
        ("/x", "https://api.example.com/x"),
        ("?d=2", "https://api.example.com/a/b?d=2"),
        ("https://API.example.com:443/x", "https://api.example.com:443/x"),
    ],
)
def test_a_location_of_the_same_origin_gets_all_headers(location: str, url: str) -> None:
    hop = hop_after(307, location, method="POST", url=HERE, headers=HEADERS, body=b"b")
    assert (hop.url, hop.headers) == (url, HEADERS)


@pytest.mark.parametrize(
    "location",
    ["//other.example/x", "http://api.example.com/x", "https://api.example.com:8443/x"],
)
def test_another_origin_gets_no_right(location: str) -> None:
    hop = hop_after(307, location, method="POST", url=HERE, headers=HEADERS, body=b"b")
    assert hop.headers == {
        "Content-Type": "application/json",
        "Onbeat-Token": "3",
        "X-Kind": "plain",
    }
    assert hop.body == b"b"


@pytest.mark.parametrize(
    "location", ["ftp://x/", "https://user:word@x/", "http://[::1", "h ttp://"]
)
def test_a_location_that_is_no_url_is_refused(location: str) -> None:
    with pytest.raises(Invalid):
        hop_after(307, location, method="GET", url=HERE, headers={}, body=None)
