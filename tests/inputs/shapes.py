"""Texts of about `n` characters that have made parsers slow."""

from collections.abc import Callable
from typing import Any

Shape = Callable[[int], Any]
"""Makes an input of a size: twice as large for twice the number."""


def repeated(unit: str, head: str = "", tail: str = "") -> Shape:
    return lambda n: head + unit * (n // len(unit)) + tail


def in_bytes(unit: str, head: str = "", tail: str = "") -> Shape:
    text = repeated(unit, head, tail)
    return lambda n: text(n).encode()


TEXTS: tuple[Shape, ...] = (
    repeated("a"),
    repeated(" "),
    repeated(" ", "a", "a"),
    repeated("é"),
    repeated("\U0001f600"),
    repeated("a "),
    repeated("a.", "", "://"),
    repeated("a://"),
    repeated("(" * 8),
    repeated('"'),
    repeated('\\"', '"'),
    repeated("`"),
    repeated(" - at `"),
    repeated("-"),
    repeated("0"),
    repeated("9"),
    repeated("1", "1e"),
    repeated("9", "0.", "x"),
    repeated(","),
    repeated(";"),
    repeated("a=;"),
    repeated("a,"),
    repeated("%"),
    repeated("\t"),
    repeated("\n"),
    repeated("\r\n "),
    repeated("/"),
    repeated("//@"),
    repeated("@"),
    repeated(":"),
    repeated("[", "", "]"),
    repeated("a-"),
    repeated("P1Y"),
    repeated("1h"),
)
"""For whatever is a text."""

RULES: tuple[Shape, ...] = (
    repeated("x\n ", "FREQ=DAILY;"),
    repeated("\n ", "FREQ=DAILY"),
    repeated('"', "DTSTART;TZID="),
    repeated(';A="', "DTSTART"),
    repeated(';A="b"', "DTSTART"),
    repeated(";A", "DTSTART"),
    repeated("-A", "DTSTART"),
    repeated("0,", "FREQ=DAILY;BYHOUR="),
    repeated("FREQ=DAILY;"),
    repeated("1MO,-1FR,", "FREQ=MONTHLY;BYDAY=", "MO"),
    repeated("RRULE:FREQ=DAILY\n"),
    repeated("EXRULE:FREQ=DAILY\n"),
    repeated("20260101T000000Z,", "RDATE:", "20260101T000000Z"),
    repeated("20260101T000000Z,", "RRULE:FREQ=DAILY\nEXDATE:", "20260101T000000Z"),
    repeated("20260101/PT1H,", "RDATE;VALUE=PERIOD:"),
    repeated("RDATE;TZID=Europe/Berlin:20260329T023000\n"),
    repeated("RDATE;TZID=Europe/Nowhere:99990101T000000\n"),
    repeated("9", "FREQ=DAILY;COUNT="),
)

TEMPLATES: tuple[Shape, ...] = (
    repeated("{{ data.a }}"),
    repeated("{{ data.a | upcase }}"),
    repeated("{{"),
    repeated("}}"),
    repeated("{{ ", "", "}}"),
    repeated("{%"),
    repeated("{% if data %}"),
    repeated("{% if data %}", "", "{% endif %}" * 20),
    repeated("{% assign x = data.a %}"),
    repeated("{% comment %}"),
    repeated("{% raw %}{{"),
    repeated("| upcase ", "{{ data.a ", "}}"),
    repeated("| append: data.a ", "{{ data.a ", "}}"),
    repeated("data[", "{{ ", "}}"),
    repeated(".a", "{{ data", "}}"),
    repeated(" and data", "{% if data", "%}{% endif %}"),
    repeated("a", "{{ '", "' }}"),
    repeated("'", "{{ ", "}}"),
    repeated("9", "{{ ", "}}"),
    repeated("a", "{% for i in data.b %}{{ i }}", "{% endfor %}"),
    repeated("{% for i in data.b %}{% endfor %}"),
    repeated("-", "{{", "}}"),
    repeated("{#"),
    repeated(" ", "{{", "}}"),
    repeated(" ", "{{ data", "}}"),
    repeated(" ", "{% else", "%}"),
    repeated("{% raw %}", "{% comment %}"),
    repeated("{% doc %}", "{% comment %}", "{% endcomment %}"),
    repeated("{{ data.a }}" + " " * 80),
)
"""Marks of Liquid, whole and broken."""

CRONS: tuple[Shape, ...] = (
    repeated("*,", "", "* * * * *"),
    repeated("*,", "0 0 0 1 1 * ", "*"),
    repeated("1970-9998,", "0 0 0 1 1 * ", "2000"),
    repeated("*/2,", "0 0 0 1 1 * ", "2000"),
    repeated("H/2,", "", "H * * * *"),
    repeated("1W,", "0 0 ", "1W * *"),
    repeated("MON#2,", "0 0 * * ", "MON#2"),
    repeated("9", "0 0 ", " * *"),
    repeated("1-", "0 0 ", " * *"),
    repeated("* "),
    repeated("X", "TZ=", " * * * * *"),
)

BODIES: tuple[Shape, ...] = (
    repeated('\\"', "[" * 65 + '"'),
    repeated("\\", "[" * 65 + '"'),
    repeated('"', "[" * 65),
    repeated("["),
    repeated("]"),
    repeated("[],", "[", "[]]"),
    repeated('{"a":'),
    repeated("[" * 63 + "]" * 63 + ",", "[", "[]]"),
    repeated('"a":0,', "{", '"a":0}'),
    repeated('"\\u0000",', "[", "0]"),
    repeated('"\\ud800",', "[", "0]"),
    repeated("1234567890123456789,", "[", "0]"),
    repeated("1"),
    repeated("1", "[1e", "]"),
    repeated("1", "[0.", "]"),
    repeated("a", '{"', '":0}'),
    repeated("`", '{"', '":0}'),
    repeated(" - at `$", '{"', '":0}'),
    repeated("a", '{"name":"', '"}'),
    repeated("1,", '{"name":[', "1]}"),
    repeated(" "),
    repeated("\t\n", "{", "}"),
    repeated("é"),
    repeated("truefalsenull"),
)

JSON: tuple[Shape, ...] = (
    *(lambda n, shape=shape: shape(n).encode() for shape in BODIES),
    lambda n: b"{" + b",".join(b'"%x":0' % i for i in [*range(n // 8), n // 8 - 1]) + b"}",
    lambda n: b"\xff" * n,
    lambda n: b'["' + b"\xc3" * n + b'"]',
)

CHUNKS = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

ANSWERS: tuple[Shape, ...] = (
    in_bytes("a", "HTTP/1.1 200 "),
    in_bytes(" ", "HTTP/1.1 200 ", "\r\n\r\n"),
    in_bytes("\t ", "HTTP/1.1 200 OK\r\nA:", "\r\n\r\n"),
    in_bytes("a", "HTTP/1.1 200 OK\r\n", "\r\n\r\n"),
    in_bytes("a", "HTTP/1.1 200 OK\r\n", ": b\r\n\r\n"),
    in_bytes("A: b\r\n", "HTTP/1.1 200 OK\r\n", "\r\n"),
    in_bytes("A: b\r\n", "HTTP/1.1 200 OK\r\n", " c\r\n\r\n"),
    in_bytes("\r\n", "HTTP/1.1 200 OK\r\n "),
    in_bytes("\r", "HTTP/1.1 200 OK\r\nA: "),
    in_bytes("Location:", "HTTP/1.1 200 OK\r\n", "\r\n\r\n"),
    in_bytes("close, ", "HTTP/1.1 200 OK\r\nConnection: ", "\r\n\r\n"),
    in_bytes("9", "HTTP/1.1 200 OK\r\nContent-Length: ", "\r\n\r\n"),
    in_bytes("HTTP/1.1 100 Continue\r\n\r\n"),
    in_bytes("a", "HTTP/1.1 200 OK\r\n\r\n"),
    in_bytes("1\r\na\r\n", CHUNKS),
    in_bytes("0", CHUNKS),
    in_bytes(" ", CHUNKS + "1", "a\r\n"),
    in_bytes("a;", CHUNKS + "1;", "\r\n"),
    in_bytes("A: b\r\n", CHUNKS + "0\r\n", "\r\n"),
    in_bytes(" ", CHUNKS + "0\r\nA:", "b\r\n\r\n"),
)
"""Answers of an endpoint, whole and broken."""
