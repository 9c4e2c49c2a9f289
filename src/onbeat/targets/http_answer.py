"""Reads the answer to one request from the bytes of its connection, strictly and within bounds.

Strictly: where two readers could find different ends of an answer, or different headers, there is
none. So a line ends with CR and LF, a header is on one line, and the length of the body is given
once, in one way (RFC 9112). A chunked body is the only coding, since requests ask for no other.
"""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from onbeat.model.limits import (
    CALLBACK_BYTES_KEPT_MAX,
    CALLBACK_BYTES_READ_MAX,
    CALLBACK_BYTES_RECEIVED_MAX,
    CALLBACK_INTERIM_ANSWERS_MAX,
    CALLBACK_INTERIM_BYTES_MAX,
    CALLBACK_RESPONSE_HEADER_BYTES_MAX,
    CALLBACK_RESPONSE_HEADERS_MAX,
)
from onbeat.targets.http_errors import BrokeOff, NoAnswer, OverBounds, TooManyHeaders
from onbeat.targets.http_response import ASYNC_HEADER, Response

HEAD_BYTES_MAX: Final = CALLBACK_RESPONSE_HEADER_BYTES_MAX + 8_192  # with the status line
CHUNK_LINE_BYTES_MAX: Final = 4_096  # a chunk's size and its extensions
MORE: Final = -1  # in place of a position: the next part is not complete

START: Final = b"HTTP/1."
TEXT: Final = rb"[\t\x20-\x7e\x80-\xff]*+"
FIELD: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++:" + TEXT
HEAD: Final = re.compile(
    rb"(?P<line>HTTP/1\.(?P<minor>[01]) (?P<status>[0-9]{3})(?: " + TEXT + rb")?)"
    rb"(?:\r\n" + FIELD + rb")*+"
)
TRAILER: Final = re.compile(FIELD)
CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*+|;" + TEXT + rb")\r\n")
LENGTH: Final = re.compile(rb"[0-9]{1,18}")
LONE_LINE_FEED: Final = re.compile(rb"(?<!\r)\n")

# The only fields that count, each at the beginning of a line.
FIELDS: Final = re.compile(
    rb"\r\n((?i:content-length|transfer-encoding|connection|location|retry-after|"
    + ASYNC_HEADER.encode()
    + rb")):[ \t]*+([^\r]*+)"
)
ASYNC: Final = ASYNC_HEADER.lower().encode()
FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
WITHOUT_BODY: Final = frozenset(
    {HTTPStatus.SWITCHING_PROTOCOLS, HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}
)

Step = Callable[["AnswerReader", bytes, int], int]
"""Reads the next part from a position; returns the position after it, or `MORE`."""


class AnswerReader:
    """The answer to one request, with the interim answers (1xx) before it.

    `received` counts the bytes that came for it. Once it `is_complete`, `is_reusable` tells whether
    the connection can carry another request.
    """

    __slots__ = (
        "count",
        "fields",
        "fresh",
        "has_head",
        "interim_answers",
        "interim_bytes",
        "is_complete",
        "is_for_head",
        "is_reusable",
        "kept",
        "left",
        "received",
        "rest",
        "status",
        "step",
        "trailer_bytes",
        "trailers",
    )

    def __init__(self, *, is_for_head: bool) -> None:
        self.is_for_head = is_for_head
        self.step: Step = AnswerReader.read_head
        self.rest = b""
        self.fresh = 0  # where in the data that is read now the bytes begin that just came
        self.received = 0
        self.interim_answers = 0
        self.interim_bytes = 0
        self.has_head = False
        self.status = 0
        self.fields: Mapping[bytes, bytes] = {}
        self.left = 0
        self.kept = bytearray()
        self.count = 0
        self.trailers = 0
        self.trailer_bytes = 0
        self.is_complete = False
        self.is_reusable = False

    def feed(self, data: bytes) -> None:
        """Reads what has come. Raises `AnswerError`."""
        self.received += len(data)
        self.fresh = len(self.rest)
        if self.rest:
            data = self.rest + data
        at = 0
        while not self.is_complete:
            after = self.step(self, data, at)
            if after == MORE:
                break
            at = after
        if self.is_complete:
            self.is_reusable = self.is_reusable and at == len(data)
            return
        self.rest = data[at:]
        if self.received > CALLBACK_BYTES_RECEIVED_MAX:
            raise OverBounds

    def end(self) -> None:
        """Takes note that nothing more comes, which ends some answers.

        Raises `NoAnswer` without an answer, `OverBounds` for something else, and `BrokeOff` in the
        middle of one.
        """
        if not self.has_head:
            lines = self.rest.rfind(b"\r\n")
            if lines >= 0 and HEAD.fullmatch(self.rest, 0, lines) is None:
                raise OverBounds
            raise NoAnswer
        if self.step is not AnswerReader.read_until_close:
            raise BrokeOff
        self.is_complete = True

    def response(self) -> Response:
        fields = self.fields
        body = bytes(self.kept)
        is_taken = fields.get(ASYNC, b"").strip().lower() == b"true"
        return Response(
            status=self.status,
            body=body,
            cut=self.count > len(body),
            location=text_of(fields.get(b"location")),
            retry_after=text_of(fields.get(b"retry-after")),
            is_async=is_taken and self.status == HTTPStatus.ACCEPTED,
        )

    def read_head(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n\r\n", max(at, self.fresh - 3))
        if end < 0:
            self.check_start(data, at)
            return MORE
        head = HEAD.fullmatch(data, at, end) if end - at <= HEAD_BYTES_MAX else None
        if head is None:
            raise OverBounds
        lines = data.count(b"\r\n", at, end)
        size = end - head.end("line") - 2 * lines
        if lines > CALLBACK_RESPONSE_HEADERS_MAX or size > CALLBACK_RESPONSE_HEADER_BYTES_MAX:
            raise TooManyHeaders
        status = int(head["status"])
        after = end + 4
        if 100 <= status < 200 and status != HTTPStatus.SWITCHING_PROTOCOLS:
            self.note_interim(after - at)
            return after
        self.has_head = True
        self.status = status
        self.fields = fields_of(data, at, end)
        self.find_body(head["minor"])
        return after

    def check_start(self, data: bytes, at: int) -> None:
        """Raises `OverBounds` for the beginning of what cannot become a head."""
        count = len(data) - at
        if (
            count > HEAD_BYTES_MAX
            or data[at : at + len(START)] != START[:count]
            or LONE_LINE_FEED.search(data, max(at, self.fresh)) is not None
        ):
            raise OverBounds

    def note_interim(self, size: int) -> None:
        self.interim_answers += 1
        self.interim_bytes += size
        if (
            self.interim_answers > CALLBACK_INTERIM_ANSWERS_MAX
            or self.interim_bytes > CALLBACK_INTERIM_BYTES_MAX
        ):
            raise OverBounds

    def find_body(self, minor: bytes) -> None:
        """How the body ends (RFC 9112, 6.3), and whether its connection stays open."""
        fields = self.fields
        length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
        if coding is not None and (
            length is not None or minor == b"0" or coding.lower() != b"chunked"
        ):
            raise OverBounds
        if length is not None and LENGTH.fullmatch(length) is None:
            raise OverBounds
        self.is_reusable = stays_open(minor, fields.get(b"connection"))
        if self.is_for_head or self.status in WITHOUT_BODY:
            self.is_complete = True
            self.is_reusable &= self.status != HTTPStatus.SWITCHING_PROTOCOLS
        elif coding is not None:
            self.step = AnswerReader.read_chunk_size
        elif length is None:
            self.is_reusable = False
            self.step = AnswerReader.read_until_close
        else:
            self.left = int(length)
            self.is_complete = not self.left
            self.step = AnswerReader.read_length

    def read_length(self, data: bytes, at: int) -> int:
        after = self.keep(data, at)
        if after != MORE and not self.left:
            self.is_complete = True
        return after

    def read_until_close(self, data: bytes, at: int) -> int:
        self.left = len(data) - at
        return self.keep(data, at)

    def read_chunk_size(self, data: bytes, at: int) -> int:
        """Reads whole chunks as far as they are there, and the size of the one after them."""
        first = at
        while (line := CHUNK.match(data, at)) is not None:
            start = line.end()
            if start - at > CHUNK_LINE_BYTES_MAX:
                raise OverBounds
            self.left = size = int(line[1], 16)
            if not size:
                self.step = AnswerReader.read_trailer
                return start
            end = start + size
            if data[end : end + 2] != b"\r\n" or self.count + size >= CALLBACK_BYTES_READ_MAX:
                self.step = AnswerReader.read_chunk
                return start
            self.count += size
            space = CALLBACK_BYTES_KEPT_MAX - len(self.kept)
            if space:
                self.kept += data[start : min(end, start + space)]
            at = end + 2
        if line_end(data, at, CHUNK_LINE_BYTES_MAX) != MORE:
            raise OverBounds
        return MORE if at == first else at

    def read_chunk(self, data: bytes, at: int) -> int:
        after = self.keep(data, at)
        if after != MORE and not self.left:
            self.step = AnswerReader.read_chunk_end
        return after

    def read_chunk_end(self, data: bytes, at: int) -> int:
        found = data[at : at + 2]
        if found == b"\r\n":
            self.step = AnswerReader.read_chunk_size
            return at + 2
        if found not in {b"", b"\r"}:
            raise OverBounds
        return MORE

    def read_trailer(self, data: bytes, at: int) -> int:
        """Reads one field after the last chunk, which is not kept, or the end of them."""
        end = line_end(data, at, CALLBACK_RESPONSE_HEADER_BYTES_MAX)
        if end == MORE:
            return MORE
        if end == at:
            self.is_complete = True
            return end + 2
        self.trailers += 1
        self.trailer_bytes += end - at
        if TRAILER.fullmatch(data, at, end) is None:
            raise OverBounds
        if (
            self.trailers > CALLBACK_RESPONSE_HEADERS_MAX
            or self.trailer_bytes > CALLBACK_RESPONSE_HEADER_BYTES_MAX
        ):
            raise OverBounds
        return end + 2

    def keep(self, data: bytes, at: int) -> int:
        """Takes what is `left` of the body as far as it is there; of a long body its beginning.

        A body that is longer than what is read is complete there, and its connection is not used
        again.
        """
        end = min(len(data), at + self.left)
        if end == at:
            return MORE
        self.left -= end - at
        self.count += end - at
        space = CALLBACK_BYTES_KEPT_MAX - len(self.kept)
        if space:
            self.kept += data[at : min(end, at + space)]
        if self.count >= CALLBACK_BYTES_READ_MAX:
            self.is_complete = True
            self.is_reusable = False
        return end


def fields_of(data: bytes, start: int, end: int) -> Mapping[bytes, bytes]:
    """The fields that count, by their names in lower case; of several the first one.

    Raises `OverBounds` where the length of the body is given twice.
    """
    found: dict[bytes, bytes] = {}
    for name, value in FIELDS.findall(data, start, end):
        low = name.lower()
        if low not in found:
            found[low] = value.rstrip(b" \t")
        elif low in FRAMING:
            raise OverBounds
        elif low == b"connection":
            found[low] += b"," + value
    return found


def stays_open(minor: bytes, connection: bytes | None) -> bool:
    """Whether the server keeps the connection, by its version and the `Connection` header."""
    if connection is None:
        return minor == b"1"
    options = {option.strip(b" \t") for option in connection.lower().split(b",")}
    return b"close" not in options and (minor == b"1" or b"keep-alive" in options)


def line_end(data: bytes, at: int, most: int) -> int:
    """Where the line ends that begins there, or `MORE`. Raises `OverBounds` for a long line."""
    end = data.find(b"\r\n", at, at + most + 2)
    if end >= 0:
        return end
    if len(data) - at > most or data.find(b"\n", at) >= 0:
        raise OverBounds
    return MORE


def text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="surrogateescape")
