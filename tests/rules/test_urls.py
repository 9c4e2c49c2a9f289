from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.limits import HEADER_BYTES_MAX, HEADERS_MAX, URL_CHARS_MAX
from onbeat.rules.ip_policy import parse_allowed
from onbeat.rules.urls import (
    checked_headers,
    checked_method,
    checked_secret,
    checked_url,
    refusal_at_creation,
    shown_url,
    url_parts,
)

ACCEPTED = {
    "http://example.com": "http://example.com",
    "http://example.com/": "http://example.com/",
    "https://example.com/a/b?c=d&e=f": "https://example.com/a/b?c=d&e=f",
    "HTTPS://Example.COM/Path": "https://example.com/Path",
    "https://example.com:8443/x": "https://example.com:8443/x",
    "https://example.com:443/": "https://example.com:443/",
    "http://example.com:080/": "http://example.com:80/",
    "http://example.com?x=1": "http://example.com?x=1",
    "http://example.com/#part": "http://example.com/",
    "http://example.com#@10.0.0.1/": "http://example.com",
    "http://example.com/a/../b/./c": "http://example.com/a/../b/./c",
    "http://example.com//a": "http://example.com//a",
    "http://example.com/%2e%2E/%00": "http://example.com/%2e%2E/%00",
    "http://example.com/a;b=c:d@e": "http://example.com/a;b=c:d@e",
    "http://example.com/?u=http://a@b/": "http://example.com/?u=http://a@b/",
    "http://example.com/x?a[]=1": "http://example.com/x?a[]=1",
    'http://example.com/{id}?q="<x>"': "http://example.com/%7Bid%7D?q=%22%3Cx%3E%22",
    "http://example.com/a|b^c`d": "http://example.com/a%7Cb%5Ec%60d",
    "http://xn--bcher-kva.example/": "http://xn--bcher-kva.example/",
    "http://under_score.example/": "http://under_score.example/",
    "http://a-b.example./": "http://a-b.example./",
    "http://web1/": "http://web1/",
    "http://1.example/": "http://1.example/",
    "http://127.0.0.1:9/": "http://127.0.0.1:9/",
    "http://[::1]:8080/x": "http://[::1]:8080/x",
    "http://[2001:DB8:0::0001]/": "http://[2001:db8::1]/",
    "http://[::ffff:1.2.3.4]/": "http://[::ffff:102:304]/",
    "http://example.com:65535/": "http://example.com:65535/",
}

REFUSED = {
    "": "not a URL",
    "example.com": "not a URL",
    "/x": "not a URL",
    "//example.com/x": "not a URL",
    "foo:bar": "not a URL",
    "javascript:alert(1)": "not a URL",
    "mailto:a@example.com": "not a URL",
    "http:example.com": "not a URL",
    "http:/example.com": "not a URL",
    "ftp://example.com/x": "scheme",
    "file:///etc/hosts": "scheme",
    "gopher://example.com/": "scheme",
    "http+unix://x/": "scheme",
    "http://": "host",
    "http:///x": "host",
    "http://?x": "host",
    "http://:80/": "host",
    "http://#example.com": "host",
    "http://user@example.com/": "user name",
    "http://user:password@example.com/": "user name",
    "http://a@b@example.com/": "user name",
    "http://example.com%40evil.example/": "not a host name",
    "http://127.0.0.1\\@example.com/": "backslash",
    "http://example.com\\.evil.example/": "backslash",
    "http:\\\\example.com": "backslash",
    "http://example.com/a b": "blanks",
    "http://exa mple.com/": "blanks",
    " http://example.com/": "blanks",
    "http://example.com/\r\nX: y": "blanks",
    "http://example.com/\n": "blanks",
    "http://example.com/\x00": "blanks",
    "http://example.com\t/": "blanks",
    "http://example.com/\x7f": "blanks",
    "http://bücher.example/": "xn--",
    "http://example.com/ü": "%XX",
    "http://１２７.0.0.1/": "xn--",
    "http://example。com/": "xn--",
    "http://example.com:0/": "port",
    "http://example.com:65536/": "port",
    "http://example.com:/": "port",
    "http://example.com:80:80/": "port",
    "http://example.com:8a/": "port",
    "http://example.com:-1/": "port",
    "http://example.com:+80/": "port",
    "http://.example.com/": "not a host name",
    "http://example..com/": "not a host name",
    "http://example.com../": "not a host name",
    "http://./": "not a host name",
    "http://-a.example/": "not a host name",
    "http://a,b.example/": "not a host name",
    f"http://{'a' * 64}.example/": "not a host name",
    f"http://{'a.' * 127}example/": "not a host name",
    "http://127.1/": "four decimal numbers",
    "http://2130706433/": "four decimal numbers",
    "http://0x7f.1/": "four decimal numbers",
    "http://0177.0.0.1/": "four decimal numbers",
    "http://127.0.0.1./": "four decimal numbers",
    "http://1.2.3.4.5/": "four decimal numbers",
    "http://256.0.0.1/": "four decimal numbers",
    "http://[::1/": "host",
    "http://::1/": "host|port",
    "http://[]/": "IPv6",
    "http://[1.2.3.4]/": "IPv6",
    "http://[v1.x]/": "IPv6",
    "http://[fe80::1%25eth0]/": "zone|IPv6",
    "http://[fe80::1%eth0]/": "zone|IPv6",
    "http://[::1]x/": "host",
    "http://example.com/%": "hexadecimal",
    "http://example.com/%zz": "hexadecimal",
    "http://example.com/?x=%1": "hexadecimal",
}


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(ACCEPTED) + len(REFUSED) >= 60


@pytest.mark.parametrize(("text", "kept"), ACCEPTED.items())
def test_a_url_is_kept_in_one_form(text: str, kept: str) -> None:
    assert checked_url(text) == kept
    assert checked_url(kept) == kept


@pytest.mark.parametrize(("text", "kept"), ACCEPTED.items())
def test_the_client_reads_the_same_host_from_it(text: str, kept: str) -> None:
    parts = url_parts(text)
    url = URL(kept, encoded=True)
    assert (url.raw_host, url.port) == (parts.host, parts.port_or_default)


@pytest.mark.parametrize(("text", "why"), REFUSED.items())
def test_what_could_be_misread_is_refused_with_its_field(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as caught:
        checked_url(text, field="callback_url")
    assert caught.value.field == "callback_url"


URL_CHARS = st.text(st.sampled_from("htps:/@.[]%?#\\1270xafe-_ \n\x00ü"), max_size=30)


@given(URL_CHARS)
@example("127.0.0.1\\@ex.com")
def test_any_text_is_refused_or_read_alike_by_both_readers(text: str) -> None:
    try:
        parts = url_parts(f"http://{text}")
    except Invalid:
        return
    url = URL(str(parts), encoded=True)
    assert (url.raw_host, url.port, url.raw_user) == (parts.host, parts.port_or_default, None)


def test_a_url_has_a_longest_length() -> None:
    start = "http://example.com/"
    longest = start + "a" * (URL_CHARS_MAX - len(start))
    assert checked_url(longest) == longest
    with pytest.raises(TooLarge):
        checked_url(longest + "a")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/a?token=s3cret", "https://example.com/a"),
        ("https://example.com?token=s3cret#x", "https://example.com"),
        ("https://u:s3cret@example.com:81/a", "https://example.com:81/a"),
        ("no url at all s3cret", "the callback"),
    ],
)
def test_a_shown_url_keeps_what_may_be_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


TABLE = Path(__file__).parent.parent / "targets" / "spellings.tsv"
ROWS = [
    line.split("\t")
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("host", "address", "who"), ROWS)
def test_no_spelling_of_an_address_passes_creation_for_whom_it_is_not(
    host: str, address: str, who: str
) -> None:
    for private_allowed in (False, True):
        may = who == "public" or (who == "private" and private_allowed)
        try:
            url = checked_url(f"http://{host}:8080/x")
        except Invalid:
            continue
        assert (refusal_at_creation(url, private_allowed=private_allowed) is None) == may


def test_a_name_is_left_to_the_connection() -> None:
    assert refusal_at_creation("http://example.com/", private_allowed=False) is None
    assert refusal_at_creation("http://localhost.example/", private_allowed=False) is None


def test_the_operators_list_counts_at_creation() -> None:
    allowed = parse_allowed(["10.0.0.0/8", "localhost"])

    def refused(url: str) -> str | None:
        return refusal_at_creation(url, private_allowed=False, allowed=allowed)

    assert refused("http://10.1.2.3/") is None
    assert refused("http://localhost:81/") is None
    assert refused("http://192.168.0.1/") is not None
    assert refused("http://app.localhost/") is not None


@pytest.mark.parametrize(
    "text", ["get", "GET", "Post", "PUT", "patch", "DELETE", "head", "options"]
)
def test_a_method_is_kept_in_capitals(text: str) -> None:
    assert checked_method(text) == text.upper()


@pytest.mark.parametrize(
    "text", ["", "CONNECT", "TRACE", "GET ", "GET\r\n", "P OST", "poſt", "BREW"]
)
def test_an_unknown_method_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(Invalid, match="GET, HEAD, POST") as caught:
        checked_method(text)
    assert caught.value.field == "method"


def test_headers_are_kept_without_the_blanks_around_their_values() -> None:
    assert checked_headers({"X-A": " b c\t", "authorization": "Bearer x", "X-Empty": ""}) == {
        "X-A": "b c",
        "authorization": "Bearer x",
        "X-Empty": "",
    }


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "host",
        "HOST",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "Upgrade",
        "TE",
        "Trailer",
        "Expect",
        "Accept-Encoding",
        "Idempotency-Key",
        "traceparent",
        "tracestate",
        "Proxy-Authorization",
        "Proxy-Connection",
        "webhook-id",
        "Webhook-Signature",
        "WEBHOOK-anything",
        "Onbeat-Job-Id",
        "onbeat-x",
        "HTTP2-Settings",
        "idempotency_key",
        "Webhook_Signature",
    ],
)
def test_a_header_that_onbeat_sets_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="set by Onbeat") as caught:
        checked_headers({"X-Ok": "1", name: "x"})
    assert caught.value.field == f"headers.{name}"


@pytest.mark.parametrize(
    "name",
    [
        "X-Forwarded-For",
        "x-forwarded-host",
        "X-FORWARDED-PROTO",
        "X_Forwarded_For",
        "X-Forwarded",
        "Forwarded",
        "Via",
        "X-Real-IP",
        "True-Client-IP",
        "CF-Connecting-IP",
        "X-Original-URL",
        "Max-Forwards",
    ],
)
def test_a_header_by_which_proxies_vouch_for_others_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="a proxy's to set") as caught:
        checked_headers({"X-Ok": "1", name: "x"})
    assert caught.value.field == f"headers.{name}"


@pytest.mark.parametrize("name", ["X-Forward", "Forwarded-By-Us", "X-Viaduct", "X_Api_Key"])
def test_names_that_only_look_like_it_pass(name: str) -> None:
    assert checked_headers({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "name", ["", "a b", "a:", "a\r\n", "ü", "a\x00", "(a)", 'a"', "a/b", "a,b"]
)
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="not the name of a header"):
        checked_headers({name: "x"})


@pytest.mark.parametrize(
    "value", ["a\r\nb: c", "a\nb", "a\rb", "a\x00", "\x0b", "ü", "\x7f", "a\u2028b"]
)
def test_a_value_that_could_end_the_header_is_refused(value: str) -> None:
    with pytest.raises(Invalid, match="plain ASCII") as caught:
        checked_headers({"X-A": value}, field="target.http.headers")
    assert caught.value.field == "target.http.headers.X-A"


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_headers_that_pass_are_one_line_each_on_the_wire(headers: dict[str, Any]) -> None:
    try:
        checked = checked_headers(headers)
    except Invalid:
        return
    wire = "".join(f"{name}: {value}\r\n" for name, value in checked.items()).encode("ascii")
    assert wire.count(b"\r") == wire.count(b"\n") == len(headers)
    assert b"\x00" not in wire
    for line, (name, value) in zip(wire.split(b"\r\n"), headers.items(), strict=False):
        blankless = value.strip(" \t")
        assert line.decode() == f"{name}: {blankless}"


def test_headers_are_bounded_in_number_and_length() -> None:
    many = {f"X-{number}": "" for number in range(HEADERS_MAX)}
    assert checked_headers(many) == many
    with pytest.raises(TooLarge):
        checked_headers(many | {"X-More": ""})
    assert checked_headers({"X-A": "b" * HEADER_BYTES_MAX})
    with pytest.raises(TooLarge):
        checked_headers({"X-A": "b" * (HEADER_BYTES_MAX + 1)})


def test_a_header_given_in_two_cases_is_refused() -> None:
    with pytest.raises(Invalid, match="twice"):
        checked_headers({"X-A": "1", "x-a": "2"})


@given(st.binary(min_size=24, max_size=64))
def test_a_secret_of_proper_length_is_kept(secret: bytes) -> None:
    text = "whsec_" + b64encode(secret).decode()
    assert checked_secret(text) == text
    assert checked_secret(text.rstrip("=")) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "s3cret",
        b64encode(bytes(32)).decode(),
        "whsec_" + b64encode(bytes(23)).decode(),
        "whsec_" + b64encode(bytes(65)).decode(),
        "whsec_" + "!" * 40,
        "whsec_" + "A" * 33,
        "whsec_" + "ü" * 40,
        "whsec_" + "-_" * 20,
        "whpk_" + b64encode(bytes(32)).decode(),
    ],
)
def test_another_secret_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(Invalid, match="24 to 64 random bytes") as caught:
        checked_secret(text)
    assert caught.value.field == "secret"
    assert len(text) < 8 or text not in str(caught.value)
