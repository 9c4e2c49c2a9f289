"""Addresses of uploads."""

import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from credits.uploads.addresses import escape_like, is_dated, is_local, paths_of, references

SITES = ("rapua.nz", "localhost:8090", "old.example/game")
PATH = "2025/11/18/same-filename.png"


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("/static/uploads/2025/11/18/image.png", True),
        ("/static/uploads/image.png", True),
        ("https://rapua.nz/static/uploads/image.png", True),
        ("HTTPS://Rapua.NZ/static/uploads/image.png", True),
        ("//rapua.nz/static/uploads/image.png", True),
        ("http://localhost:8090/static/uploads/image.png", True),
        ("https://old.example/game/static/uploads/image.png", True),
        ("https://old.example/static/uploads/image.png", False),
        ("https://www.rapua.nz/static/uploads/image.png", False),
        ("http://localhost/static/uploads/image.png", False),
        ("https://cdn.example.com/static/uploads/image.png", False),
        ("https://rapua.nz/other/path/image.png", False),
        ("elsewhere/static/uploads/image.png", False),
        ("/game/static/uploads/image.png", True),
        ("/Game/static/uploads/image.png", True),
        ("/other/static/uploads/image.png", False),
        ("../static/uploads/image.png", True),
        ("../../static/uploads/image.png", True),
        ("./static/uploads/image.png", True),
        ("..static/uploads/image.png", False),
        ("rapua.nz/static/uploads/image.png", True),
        ("https://rapua.nz:443/static/uploads/image.png", True),
        ("http://rapua.nz:80/static/uploads/image.png", True),
        ("https://rapua.nz:8443/static/uploads/image.png", False),
        ("https://me@rapua.nz/static/uploads/image.png", True),
        ("https://rapua.nz@cdn.example.com/static/uploads/image.png", False),
        ("/assets/logo.png", False),
        ("", False),
    ],
)
def test_s5_32_an_address_is_local_by_its_site(url: str, local: bool) -> None:
    assert is_local(url, SITES) is local


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("test.png", "test.png"),
        ("test_image.png", r"test\_image.png"),
        ("test%image.png", r"test\%image.png"),
        (r"test\image.png", r"test\\image.png"),
        ("", ""),
    ],
)
def test_s5_33_signs_of_like_are_escaped(text: str, escaped: str) -> None:
    assert escape_like(text) == escaped


def test_s5_a14_all_signs_of_like_are_escaped() -> None:
    assert escape_like(r"test_%\file.png") == r"test\_\%\\file.png"


@pytest.mark.parametrize(
    "path",
    [
        "2025/11/18/..",
        "2025/11/18/.",
        "2025/11/18/../../../etc/passwd",
        "2025/11/18/a/b.png",
        "../2025/11/18/a.png",
        "2025/11/a.png",
        "image.png",
        "2025/11/18/",
        "2025/11/18/ends with a blank ",
        "2025/11/18/" + 490 * "a",
        "٢٠٢٥/11/18/a.png",
        "",
    ],
)
def test_s5_d24_what_is_no_dated_path_names_no_file(path: str) -> None:
    assert not is_dated(path)
    assert paths_of(f"/static/uploads/{path}", SITES) == set()


@pytest.mark.parametrize("dots", ["%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e%2fgame.db", "%252e%252e"])
def test_s5_d24_quoted_dots_lead_nowhere(dots: str) -> None:
    for path in paths_of(f"/static/uploads/2025/11/18/{dots}", SITES):
        assert ".." not in path.split("/")
        assert path.count("/") == 3


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"url": f"/static/uploads/{PATH}"}),
        json.dumps({"images": [{"src": f"https://rapua.nz/static/uploads/{PATH}?v=2"}]}),
        json.dumps({"content": f"see ![it](/static/uploads/{PATH}), and more"}),
        json.dumps({"html": f'<img src="/static/uploads/{PATH}" alt="">'}),
        json.dumps({"html": f"<img srcset='/static/uploads/{PATH} 1x, /static/uploads/b.png 2x'>"}),
        json.dumps({"text": f"It is at https://rapua.nz/static/uploads/{PATH}."}),
        json.dumps({"url": f"/static/uploads/{PATH}"}).replace("/", "\\/"),
        json.dumps({f"/static/uploads/{PATH}": 1}),
        json.dumps({"url": f"static/uploads/{PATH}"}),
        json.dumps({"html": f"<img src=static/uploads/{PATH}>"}),
        json.dumps({"html": f"<img src=../static/uploads/{PATH}>"}),
        json.dumps({"html": f"<a href='https://old.example:443/game/static/uploads/{PATH}'>"}),
        json.dumps({"url": f"/static//uploads/{PATH}"}),
        json.dumps({"url": f"https://rapua.nz//static/./uploads/{PATH}"}),
        json.dumps({"url": f"/static/uploads/{PATH}".replace("18/", "18/./")}),
        json.dumps({"html": f"<img src='/static/uploads/{PATH}'>".replace("/", "&#x2F;")}),
        json.dumps({"url": f"/resize?of={quote(f'/static/uploads/{PATH}', safe='')}&width=90"}),
        json.dumps({"text": f"&#{5_000 * '9'}; /static/uploads/{PATH}"}),
        f"no JSON, but /static/uploads/{PATH} all the same",
    ],
)
def test_a_block_refers_to_a_file_in_many_forms(text: str) -> None:
    assert PATH in references(text, SITES)


@pytest.mark.parametrize("mark", ['"', "'"])
@pytest.mark.parametrize("name", ["a&b.png", "it's.png", 'q".png', "a&amp;b.png", "a<b>.png"])
def test_a_name_in_html_is_quoted_once_more(name: str, mark: str) -> None:
    path = f"2025/11/18/{name}"
    for written in (
        name,
        html.escape(name),
        quote(name),
        html.escape(quote(name)),
        html.escape(quote(name, "&'")),
    ):
        if mark not in written:
            text = f"<img src={mark}/static/uploads/2025/11/18/{written}?v=1&amp;w=2{mark} alt={mark}{mark}>"
            assert path in references(json.dumps({"html": text}), SITES), text


@pytest.mark.parametrize(
    "name", ["a(1).png", "my file.png", "a,b.png", "ünïcode.png", r"t_%\f.png"]
)
def test_odd_names_are_references_too(name: str) -> None:
    path = f"2025/11/18/{name}"
    url = f"/static/uploads/{path}"
    for text in (url, f'<img src="{url}">', f"![it]({url})" if " " not in name else url):
        assert path in references(json.dumps({"text": text}), SITES), text


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"url": f"https://cdn.example.com/static/uploads/{PATH}"}),
        json.dumps({"text": f"at https://cdn.example.com/static/uploads/{PATH}, once"}),
        json.dumps({"url": f"https://cdn.example.com/x/static/uploads/{PATH}"}),
        json.dumps({"url": "/static/uploads/2025/11/18/my-same-filename.png"}),
        json.dumps({"url": "/static/uploads/2025/11/19/same-filename.png"}),
    ],
)
def test_s5_d26_other_hosts_and_longer_names_refer_to_nothing_here(text: str) -> None:
    assert PATH not in references(text, SITES)


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)


@given(names.filter(lambda name: is_dated(f"2025/11/18/{name}")))
def test_whatever_its_name_a_file_is_found_in_the_json_of_its_address(name: str) -> None:
    path = f"2025/11/18/{name}"
    for ascii_only in (True, False):
        text = json.dumps({"url": f"/static/uploads/{path}"}, ensure_ascii=ascii_only)
        assert path in references(text, SITES)


@given(names.filter(lambda name: is_dated(f"2025/11/18/{name}")))
def test_whatever_its_name_a_file_is_found_in_html(name: str) -> None:
    text = f'<p>a <img src="/static/uploads/2025/11/18/{html.escape(name)}"> and more</p>'
    assert f"2025/11/18/{name}" in references(json.dumps({"html": text}), SITES)


def test_a_name_that_is_no_text_names_no_file() -> None:
    assert references('{"url": "/static/uploads/2025/11/18/\\ud800.png"}', SITES) == set()


@given(st.text() | st.text(st.sampled_from("/.%2eF25\\ 'x:"), max_size=40))
def test_no_address_names_a_file_outside(text: str) -> None:
    for path in paths_of(f"/static/uploads/{text}", SITES) | references(text, SITES):
        assert is_dated(path)
        assert ".." not in path.split("/")
