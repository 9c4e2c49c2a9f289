"""Silence at the ends of a recording."""

import io
import wave
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as some

from backoffice.recordings import trim as trimming
from backoffice.recordings.trim import SILENCE, OtherFormError, Trimmed, trim
from outside import tone

MARGIN = 800
"""Frames of the margin at 8 kHz."""


def trimmed(recording: bytes) -> tuple[bytes, Trimmed]:
    target = io.BytesIO()
    frames = trim(io.BytesIO(recording), target)
    return target.getvalue(), frames


def samples(recording: bytes) -> list[int]:
    with wave.Wave_read(io.BytesIO(recording)) as reader:
        return list(array("h", reader.readframes(reader.getnframes())))


@pytest.mark.parametrize("channels", [1, 2])
def test_silence_at_both_ends_goes_up_to_a_margin(channels: int) -> None:
    parts = ((9_000, 5), (400, 9_000), (3_000, 0), (1, 9_000), (70_000, 3))
    result, frames = trimmed(tone(*parts, channels=channels))
    assert frames == Trimmed(sum(number for number, _ in parts), MARGIN + 3_401 + MARGIN)
    wanted = ((MARGIN, 5), (400, 9_000), (3_000, 0), (1, 9_000), (MARGIN, 3))
    assert [abs(sample) for sample in samples(result)] == [
        abs(sample) for sample in samples(tone(*wanted, channels=channels))
    ]


def test_a_recording_that_is_silent_throughout_stays() -> None:
    recording = tone((20_000, SILENCE))
    result, frames = trimmed(recording)
    assert result == recording
    assert frames == Trimmed(20_000, 20_000)


def test_the_threshold_is_a_hundredth_of_the_scale() -> None:
    recording = tone((2_000, 0), (1, SILENCE), (2_000, 0), (1, SILENCE + 1), (2_000, 0))
    assert trimmed(recording)[1] == Trimmed(6_002, 2 * MARGIN + 1)


parts = some.lists(
    some.tuples(some.integers(1, 3_000), some.sampled_from([0, 100, SILENCE, SILENCE + 1, 32_767])),
    min_size=1,
    max_size=6,
)


@given(parts=parts, channels=some.integers(1, 2), block=some.sampled_from([1_000, 65_536]))
def test_it_is_never_longer_and_nothing_more_goes_the_second_time(
    parts: list[tuple[int, int]], channels: int, block: int
) -> None:
    recording = tone(*parts, channels=channels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trimming, "BLOCK_FRAMES", block)
        once, frames = trimmed(recording)
        twice, again = trimmed(once)
    assert len(once) <= len(recording)
    assert frames.after <= frames.before
    assert twice == once
    assert again.after == again.before
    loud = [sample for sample in samples(recording) if abs(sample) > SILENCE]
    assert [sample for sample in samples(once) if abs(sample) > SILENCE] == loud
    text = array("h", samples(recording)).tobytes()
    assert array("h", samples(once)).tobytes() in text


WHOLE = tone((4_000, 0), (10, 9_000))


@pytest.mark.parametrize(
    "recording",
    [
        b"",
        b"RIFF",
        b"ID3 and so on",
        tone(),
        WHOLE[:-1],
        WHOLE[:60],
        WHOLE.replace((2).to_bytes(2, "little") + (16).to_bytes(2, "little"), b"\x01\0\x08\0"),
        WHOLE.replace(b"fmt \x10\0\0\0\x01\0", b"fmt \x10\0\0\0\x07\0"),
    ],
    ids=["empty", "head", "other", "no frames", "cut", "cut short", "8 bits", "mu-law"],
)
def test_another_form_is_refused_before_anything_is_written(recording: bytes) -> None:
    target = io.BytesIO()
    with pytest.raises(OtherFormError):
        trim(io.BytesIO(recording), target)
    assert target.getvalue() == b""


@given(head=some.integers(0, 60), junk=some.binary(max_size=80))
def test_junk_is_trimmed_or_refused(head: int, junk: bytes) -> None:
    recording = WHOLE[:head] + junk
    try:
        result, _ = trimmed(recording)
    except OtherFormError:
        return
    assert len(result) <= max(len(recording), 44)
