"""Where an answer begins and ends, held against h11: what is taken is what it reads, and no more."""

from collections.abc import Sequence
from typing import NamedTuple

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.limits import (
    CALLBACK_BYTES_KEPT_MAX,
    CALLBACK_BYTES_READ_MAX,
    CALLBACK_BYTES_RECEIVED_MAX,
    CALLBACK_INTERIM_ANSWERS_MAX,
    CALLBACK_INTERIM_BYTES_MAX,
    CALLBACK_RESPONSE_HEADER_BYTES_MAX,
    CALLBACK_RESPONSE_HEADERS_MAX,
)
from onbeat.targets.http_answer import CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX, AnswerReader
from onbeat.targets.http_errors import (
    AnswerError,
    BrokeOff,
    NoAnswer,
    OverBounds,
    TooManyHeaders,
)
from onbeat.targets.http_response import Response

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Taken(NamedTuple):
    """What a reader makes of bytes: an answer, and whether its connection may carry another."""

    status: int
    body: bytes
    is_reusable: bool


def by_us(method: str, pieces: Sequence[bytes]) -> Taken | None:
    """None where there is no answer once the connection has ended."""
    reader = AnswerReader(is_for_head=method == "HEAD")
    try:
        for number, piece in enumerate(pieces):
            reader.feed(piece)
            if reader.is_complete:
                # What comes later closes the connection in another place.
                is_reusable = reader.is_reusable and not any(pieces[number + 1 :])
                return Taken(reader.response().status, reader.response().body, is_reusable)
        reader.end()
    except (AnswerError, NoAnswer):
        return None
    return Taken(reader.response().status, reader.response().body, is_reusable=False)


def by_h11(method: str, pieces: Sequence[bytes]) -> Taken | None:
    peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=1_000_000)
    peer.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    peer.send(h11.EndOfMessage())
    status, body = 0, b""
    try:
        for piece in [*filter(None, pieces), b""]:
            peer.receive_data(piece)
            while (event := peer.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                match event:
                    case h11.Response():
                        status = event.status_code
                    case h11.Data():
                        body += event.data
                    case h11.EndOfMessage():
                        is_kept = peer.our_state is peer.their_state is h11.DONE
                        # The end of the connection was the end of the answer.
                        return Taken(status, body, is_kept and piece != b"")
                    case h11.ConnectionClosed():
                        return None
    except h11.RemoteProtocolError:
        return None
    return None


# Answers from their grammar.

blanks = st.sampled_from([b"", b" ", b"\t", b"  "])
methods = st.sampled_from(["GET", "HEAD", "POST"])
values = st.text('abc, ;=-:"é', max_size=12).map(lambda text: text.strip().encode())
others = st.tuples(
    st.sampled_from([b"Date", b"X-a", b"Server", b"Content-Type", b"Location", b"Set-Cookie"]),
    values,
)
interims = st.lists(
    st.builds(
        lambda status, fields: head(b"HTTP/1.1", status, b"X", fields),
        st.sampled_from([b"100", b"102", b"103", b"199"]),
        st.lists(others, max_size=2),
    ),
    max_size=3,
)


def head(
    version: bytes, status: bytes, reason: bytes, fields: Sequence[tuple[bytes, bytes]]
) -> bytes:
    lines = [b"%s %s %s" % (version, status, reason), *(b"%s: %s" % each for each in fields)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    result = b""
    while body:
        size = draw(st.integers(1, len(body)))
        form = draw(st.sampled_from([b"%x", b"%X", b"0%x", b"000%x"]))
        extension = draw(st.sampled_from([b"", b"", b" ", b"\t ", b";a=b", b';a="b c"', b";"]))
        result += form % size + extension + b"\r\n" + body[:size] + b"\r\n"
        body = body[size:]
    trailers = draw(st.sampled_from([b"", b"", b"X: y\r\n", b"X: y\r\nZ:\r\n"]))
    return result + draw(st.sampled_from([b"0", b"00", b"0;x"])) + b"\r\n" + trailers + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    body = draw(st.binary(max_size=40))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    version = draw(st.sampled_from([b"HTTP/1.1"] * 4 + [b"HTTP/1.0"]))
    fields = draw(st.lists(others, max_size=3))
    if framing == "length":
        name = draw(st.sampled_from([b"Content-Length", b"content-length", b"CONTENT-LENGTH"]))
        fields.append((name, b"%s%d%s" % (draw(blanks), len(body), draw(blanks))))
    if framing == "chunked" and version == b"HTTP/1.1":
        name = draw(st.sampled_from([b"Transfer-Encoding", b"transfer-encoding"]))
        fields.append((name, draw(st.sampled_from([b"chunked", b"Chunked", b" chunked\t"]))))
        body = draw(chunked(body))
    if draw(st.booleans()):
        options = st.sampled_from([b"close", b"Close", b"keep-alive", b"x, close", b"x", b""])
        fields.append((b"Connection", draw(options)))
    statuses = st.sampled_from([b"200"] * 4 + [b"201", b"204", b"304", b"404", b"503", b"999"])
    reason = draw(st.sampled_from([b"OK", b"", b"Not so \xff", b"a\tb"]))
    fields = draw(st.permutations(fields))
    return b"".join(draw(interims)) + head(version, draw(statuses), reason, fields) + body


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


HOSTILE = (
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\n\n", b"\x00", b"\x0b", b"\x7f", b" ", b"\t", b":"),
    *(b"\r\n ", b"\r\n\t", b",", b";", b"0", b"-1", b"+1", b"0x1", b"5, 5", b"1_0", b"\xff"),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length : 5\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n"),
    *(b"Transfer-Encoding: gzip, chunked\r\n", b"Connection: close\r\n", b"X : y\r\n"),
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n"),
)


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """An answer with some bytes taken out, put in, or replaced."""
    data = draw(answers())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        more = draw(st.one_of(st.sampled_from(HOSTILE), st.binary(max_size=2)))
        data = data[:at] + more + data[at + draw(st.integers(0, 3)) :]
    return data


@given(methods, answers(), st.data())
def test_every_proper_answer_is_taken_as_h11_takes_it(
    method: str, answer: bytes, data: st.DataObject
) -> None:
    ours, theirs = by_us(method, data.draw(cut(answer))), by_h11(method, [answer])
    assert ours is not None
    assert theirs is not None
    assert ours[:2] == theirs[:2]
    if b"HTTP/1.0" not in answer:  # with `keep-alive` we use such connections again
        follows = method == "HEAD" or ours.status in {204, 304}
        assert ours.is_reusable == theirs.is_reusable or follows


@given(methods, spoiled(), st.data())
def test_whatever_is_taken_h11_takes_as_the_same(
    method: str, answer: bytes, data: st.DataObject
) -> None:
    ours, theirs = by_us(method, data.draw(cut(answer))), by_h11(method, [answer])
    # Statuses that h11 does not know: below 100, and a switch of protocols that nobody asked for.
    if ours is None or ours.status < 100 or ours.status == 101:
        return
    assert theirs is not None
    assert ours[:2] == theirs[:2]
    if b"HTTP/1.0" not in answer:
        assert theirs.is_reusable or not ours.is_reusable


@given(methods, spoiled(), st.data())
def test_it_does_not_matter_how_the_bytes_are_cut(
    method: str, answer: bytes, data: st.DataObject
) -> None:
    whole = by_us(method, [answer])
    assert by_us(method, data.draw(cut(answer))) == whole
    assert by_us(method, [bytes([byte]) for byte in answer]) == whole


# What is refused.

REFUSED = {
    "another protocol": b"SSH-2.0-x\r\n",
    "an old version": b"HTTP/0.9 200 OK\r\n\r\n",
    "a later version": b"HTTP/2.0 200 OK\r\n\r\n",
    "a blank line first": b"\r\nHTTP/1.1 200 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "two blanks before the status": b"HTTP/1.1  200 OK\r\n\r\n",
    "a control character in the reason": b"HTTP/1.1 200 \x1b\r\n\r\n",
    "lines that end with a line feed": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "one line that ends with a line feed": OK + b"A: b\nContent-Length: 0\r\n\r\n",
    "a carriage return within a line": OK + b"A: b\rContent-Length: 0\r\n\r\n",
    "a folded header": OK + b"A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "a folded first header": OK + b" A: b\r\n\r\n",
    "a line without a colon": OK + b"A b\r\n\r\n",
    "a blank before the colon": OK + b"Content-Length : 0\r\n\r\n",
    "no name": OK + b": x\r\n\r\n",
    "a name with a blank": OK + b"A b: c\r\n\r\n",
    "a zero byte": OK + b"A: \x00\r\n\r\n",
    "both ways to give a length": OK
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "the same length twice": OK + b"Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello",
    "a list of lengths": OK + b"Content-Length: 5, 5\r\n\r\nhello",
    "a negative length": OK + b"Content-Length: -1\r\n\r\n",
    "a length with a sign": OK + b"Content-Length: +5\r\n\r\nhello",
    "a length of other digits": OK + "Content-Length: ٥\r\n\r\nhello".encode(),
    "a length with an underline": OK + b"Content-Length: 1_0\r\n\r\nhello12345",
    "no number of a length": OK + b"Content-Length: \r\n\r\n",
    "an enormous length": OK + b"Content-Length: " + b"9" * 19 + b"\r\n\r\n",
    "another coding": OK + b"Transfer-Encoding: gzip\r\n\r\n",
    "two codings": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "two headers of codings": OK
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no size of a chunk": CHUNKED + b"\r\n",
    "a size that is no number": CHUNKED + b"zz\r\n",
    "a size with a prefix": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "a size with a sign": CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n",
    "a blank before the size": CHUNKED + b" 5\r\nhello\r\n0\r\n\r\n",
    "an enormous size": CHUNKED + b"f" * 17 + b"\r\n",
    "a size that ends with a line feed": CHUNKED + b"5\nhello\r\n0\r\n\r\n",
    "a line feed in an extension": CHUNKED + b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "a chunk longer than it says": CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n",
    "a chunk that ends with a line feed": CHUNKED + b"5\r\nhello\n0\r\n\r\n",
    "a trailer that is none": CHUNKED + b"0\r\nnone\r\n\r\n",
    "a folded trailer": CHUNKED + b"0\r\nA: b\r\n c\r\n\r\n",
    "trailers that end with a line feed": CHUNKED + b"0\r\nA: b\n\r\n",
    "a long extension": CHUNKED + b"5;" + b"a" * CHUNK_LINE_BYTES_MAX,
    "a long head": OK + b"A: " + b"a" * HEAD_BYTES_MAX,
    "a long reason": b"HTTP/1.1 200 " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n",
    "many trailers": CHUNKED + b"0\r\n" + b"A: b\r\n" * (CALLBACK_RESPONSE_HEADERS_MAX + 1),
    "long trailers": CHUNKED
    + b"0\r\n"
    + (b"A: " + b"a" * 8_000 + b"\r\n") * (CALLBACK_RESPONSE_HEADER_BYTES_MAX // 8_000 + 1),
    "chunks with more around them than is received": CHUNKED
    + b"1\r\na\r\n" * (CALLBACK_BYTES_RECEIVED_MAX // 6 + 1),
}


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_proper_is_refused_as_soon_as_it_is_there(answer: bytes) -> None:
    """And not only once the connection ends, or the deadline has passed."""
    with pytest.raises(OverBounds):
        AnswerReader(is_for_head=False).feed(answer)


def read(answer: bytes, *, is_for_head: bool = False) -> AnswerReader:
    reader = AnswerReader(is_for_head=is_for_head)
    reader.feed(answer)
    return reader


# Bounds.


def with_headers(count: int, size: int = 1) -> bytes:
    return OK + b"Content-Length: 0\r\n" + (b"A:" + b"b" * size + b"\r\n") * (count - 1) + b"\r\n"


def test_so_many_headers_are_taken_and_no_more() -> None:
    assert read(with_headers(CALLBACK_RESPONSE_HEADERS_MAX)).is_complete
    with pytest.raises(TooManyHeaders):
        read(with_headers(CALLBACK_RESPONSE_HEADERS_MAX + 1))


def test_so_long_headers_are_taken_and_no_longer() -> None:
    space = CALLBACK_RESPONSE_HEADER_BYTES_MAX - len(b"Content-Length: 0") - len(b"A:")
    assert read(with_headers(2, space)).is_complete
    with pytest.raises(TooManyHeaders):
        read(with_headers(2, space + 1))


def test_so_many_interim_answers_are_taken_and_no_more() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    final = OK + b"Content-Length: 0\r\n\r\n"
    assert read(interim * CALLBACK_INTERIM_ANSWERS_MAX + final).is_complete
    with pytest.raises(OverBounds):
        read(interim * (CALLBACK_INTERIM_ANSWERS_MAX + 1))


def test_so_long_interim_answers_are_taken_and_no_longer() -> None:
    def interim(size: int) -> bytes:
        start = b"HTTP/1.1 103 Early Hints\r\nA:"
        return start + b"a" * (size - len(start) - 4) + b"\r\n\r\n"

    half = CALLBACK_INTERIM_BYTES_MAX // 2
    read(interim(half) * 2)
    with pytest.raises(OverBounds):
        read(interim(half) + interim(half + 1))


def test_of_a_long_body_the_beginning_is_kept_and_its_connection_is_not_used_again() -> None:
    size = CALLBACK_BYTES_READ_MAX
    for length, is_whole in ((size - 1, True), (size, False), (size * 9, False)):
        reader = read(OK + b"Content-Length: %d\r\n\r\n" % length)
        while not reader.is_complete:
            reader.feed(b"a" * min(65_536, reader.left))
        response = reader.response()
        assert response.body == b"a" * CALLBACK_BYTES_KEPT_MAX
        assert response.cut
        assert reader.is_reusable is is_whole
        assert reader.count <= size


def test_a_body_of_just_what_is_kept_is_not_cut() -> None:
    body = b"a" * CALLBACK_BYTES_KEPT_MAX
    response = read(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body).response()
    assert response == Response(status=200, body=body)


# Ends.


@pytest.mark.parametrize(
    ("head", "is_for_head"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", False),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", False),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", False),
        (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", False),
        (OK + b"Content-Length: 5\r\n\r\n", True),
        (OK + b"\r\n", True),
        (CHUNKED, True),
    ],
)
def test_an_answer_without_a_body_ends_with_its_head(head: bytes, is_for_head: bool) -> None:
    reader = read(head, is_for_head=is_for_head)
    assert reader.is_complete
    assert reader.is_reusable
    assert reader.response().body == b""
    assert not read(head + b"hello", is_for_head=is_for_head).is_reusable


@pytest.mark.parametrize("more", [b"\r\n", b"\x00", b"HTTP/1.1 200 OK\r\n\r\n"])
@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 2\r\n\r\nok",
        OK + b"Content-Length: 0\r\n\r\n",
        CHUNKED + b"2\r\nok\r\n0\r\n\r\n",
        CHUNKED + b"0\r\nA: b\r\n\r\n",
    ],
)
def test_what_comes_after_an_answer_ends_the_use_of_its_connection(
    answer: bytes, more: bytes
) -> None:
    assert read(answer).is_reusable
    assert read(answer + more).is_complete
    assert not read(answer + more).is_reusable


@pytest.mark.parametrize(
    ("lines", "is_reusable"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: X, CLOSE\t, Y\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: closed\r\n", True),
        (b"HTTP/1.1 200 OK\r\nX-Connection: close\r\n", True),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive, close\r\n", False),
    ],
)
def test_the_server_says_whether_its_connection_stays(lines: bytes, is_reusable: bool) -> None:
    assert read(lines + b"Content-Length: 0\r\n\r\n").is_reusable is is_reusable


def test_a_switch_of_protocols_that_nobody_asked_for_ends_the_connection() -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    reader = read(head)
    assert reader.is_complete
    assert reader.response().status == 101
    assert not reader.is_reusable


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", NoAnswer),
        (b"HTTP/1.1 200", NoAnswer),
        (OK + b"Content-Length: 5\r\n", NoAnswer),
        (b"HTTP/1.1 100 Continue\r\n\r\n", NoAnswer),
        (OK + b"no header\r\n", OverBounds),
        (b"HTTP/1.1 200OK\r\n", OverBounds),
        (OK + b"Content-Length: 5\r\n\r\nhell", BrokeOff),
        (CHUNKED, BrokeOff),
        (CHUNKED + b"5\r\nhello", BrokeOff),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", BrokeOff),
    ],
)
def test_the_end_of_the_connection_ends_no_answer_that_says_its_length(
    answer: bytes, error: type[Exception]
) -> None:
    reader = read(answer)
    assert not reader.is_complete
    with pytest.raises(error):
        reader.end()


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_without_a_length_ends_with_its_connection(version: bytes) -> None:
    reader = read(b"HTTP/%s 200 OK\r\n\r\nhel" % version)
    reader.feed(b"lo")
    assert not reader.is_complete
    reader.end()
    assert reader.response().body == b"hello"
    assert not reader.is_reusable


def test_of_headers_that_count_the_first_one_does() -> None:
    lines = b"Retry-After:  7 \r\nlocation: /a\xff\r\nLocation: /b\r\nretry-after: 8\r\n"
    response = read(OK + lines + b"X-Location: /c\r\nContent-Length: 0\r\n\r\n").response()
    assert (response.location, response.retry_after) == ("/a\udcff", "7")
    assert not response.is_async


@pytest.mark.parametrize(
    ("status", "value", "is_async"),
    [(202, "true", True), (202, " TRUE ", True), (202, "false", False), (200, "true", False)],
)
def test_only_an_accepted_request_is_reported_later(
    status: int, value: str, is_async: bool
) -> None:
    head = f"HTTP/1.1 {status} X\r\nOnbeat-Async: {value}\r\nContent-Length: 0\r\n\r\n"
    assert read(head.encode()).response().is_async is is_async
