"""The output of commands, without processes."""

import random

import pytest

from onbeat.model.limits import COMMAND_OUTPUT_BYTES_MAX, LOG_LINES_MAX
from onbeat.targets.command.output import LINE_CHARS_MAX, CommandOutput
from targets.commands import KeptEntries
from targets.runs import CLOCK

SECRET = "canary-4711"


def output_of(*chunks: bytes, log: KeptEntries | None = None) -> CommandOutput:
    output = CommandOutput((SECRET,), log, CLOCK.now)
    for chunk in chunks:
        output.add(chunk)
    output.end()
    return output


@pytest.mark.parametrize("seed", range(20))
def test_a_secret_is_hidden_wherever_the_chunks_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    parts = [SECRET, "größe", "\n", "x" * (LINE_CHARS_MAX - 5), "\0"]
    text = "".join(chance.choice(parts) for _ in range(12))
    data, chunks = text.encode(), []
    while data:
        size = chance.choice((1, 3, 700, 30_000))
        chunks.append(data[:size])
        data = data[size:]
    log = KeptEntries()
    output = output_of(*chunks, log=log)
    whole = text.replace(SECRET, "***").replace("\0", "\ufffd")
    assert "canary" not in output.kept.text() + "".join(log.texts)
    assert output.kept.size == len(whole.encode())


@pytest.mark.parametrize("size", [0, 1, COMMAND_OUTPUT_BYTES_MAX])
def test_an_output_within_the_bound_is_whole(size: int) -> None:
    assert output_of(b"x" * size).kept.text() == "x" * size


def test_of_a_longer_one_the_middle_is_left_out_between_characters() -> None:
    data = "ä€".encode() * 20_000
    text = output_of(data).kept.text()
    head, note, tail = text.split("\n")
    assert note.startswith("… 67,232 bytes")
    assert set(head) | set(tail) == set("ä€")
    assert data.decode().startswith(head)
    assert data.decode().endswith(tail)


@pytest.mark.parametrize(
    ("lines", "kept"), [(1, 1), (150, 150), (200, 200), (201, 200), (9_999, 200)]
)
def test_the_first_and_the_last_lines_are_logged(lines: int, kept: int) -> None:
    log = KeptEntries()
    data = "".join(f"{n}\r\n" for n in range(lines)).encode()
    output_of(data[:700], data[700:], log=log)
    assert len(log.texts) == kept <= LOG_LINES_MAX
    assert (log.texts[0], log.texts[-1]) == ("0", str(lines - 1))
    gone = [text for text in log.texts if "left out" in text]
    assert gone == ([f"{lines - 199:,} lines of output are left out here"] if lines > 200 else [])


def test_the_end_for_an_error_has_no_blank_lines() -> None:
    assert output_of(b"abc\ndef\n\n").kept.end(5) == "c\ndef"
