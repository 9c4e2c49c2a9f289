"""Silence at both ends of a recording goes. Without clock, chance or network."""

import wave
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import SEEK_END
from typing import IO, Final

SILENCE: Final = 327
"""No sample of a silent frame is further from 0: 1 % of the full scale, or -40 dB."""
BLOCK_FRAMES: Final = 65_536
MARGIN_SECONDS: Final = 0.1
"""So much of the silence stays at both ends, that no word is cut."""
SAMPLE_BYTES: Final = 2


class OtherFormError(ValueError):
    """The file is no 16-bit PCM in a WAV, so it is left as it is."""


@dataclass(frozen=True)
class Trimmed:
    """Frames of the file, and of what is left."""

    before: int
    after: int


def trim(source: IO[bytes], target: IO[bytes]) -> Trimmed:
    """Write `source` to `target` without the silence at its ends; reads it in blocks.

    The result is never longer, and trimming it again changes nothing. A recording that is silent
    throughout stays as long as it is. Raises `OtherFormError`, before anything is written.
    """
    with opened(source) as reader:
        check_form(reader, source)
        begin, end = audible(reader)
        with wave.open(target, "wb") as writer:
            writer.setparams(reader.getparams())
            writer.setnframes(end - begin)
            for at in range(begin, end, BLOCK_FRAMES):
                writer.writeframesraw(block(reader, at, end).tobytes())
        return Trimmed(reader.getnframes(), end - begin)


def opened(source: IO[bytes]) -> wave.Wave_read:
    try:
        return wave.Wave_read(source)
    except (wave.Error, EOFError, RuntimeError) as error:  # the last for a chunk behind the end
        raise OtherFormError(f"no PCM in a WAV: {error}") from error


def check_form(reader: wave.Wave_read, source: IO[bytes]) -> None:
    """A header that does not fit what follows, as after a crash of the server, is no basis."""
    if reader.getsampwidth() != SAMPLE_BYTES:
        raise OtherFormError(f"samples of {reader.getsampwidth()} bytes, not {SAMPLE_BYTES}")
    size = reader.getnframes() * reader.getnchannels() * SAMPLE_BYTES
    begin = source.tell()
    if not size or not reader.getframerate() or source.seek(0, SEEK_END) - begin < size:
        raise OtherFormError("its header does not fit its samples")
    source.seek(begin)


def audible(reader: wave.Wave_read) -> tuple[int, int]:
    """The frames from the first to behind the last that is loud, with margins; else all."""
    number, channels = reader.getnframes(), reader.getnchannels()
    first = next(louds(reader, range(0, number, BLOCK_FRAMES)), None)
    if first is None:
        return 0, number
    backwards = range((number - 1) // BLOCK_FRAMES * BLOCK_FRAMES, -1, -BLOCK_FRAMES)
    at, samples = next(louds(reader, backwards))
    begin = first[0] + next(loud_samples(first[1])) // channels
    end = at + (len(samples) - 1 - next(loud_samples(samples[::-1]))) // channels + 1
    margin = int(reader.getframerate() * MARGIN_SECONDS)
    return max(begin - margin, 0), min(end + margin, number)


def louds(reader: wave.Wave_read, starts: Iterable[int]) -> "Iterator[tuple[int, array[int]]]":
    """The blocks that are not silent, with where they start."""
    for at in starts:
        samples = block(reader, at, reader.getnframes())
        if max(samples) > SILENCE or min(samples) < -SILENCE:
            yield at, samples


def loud_samples(samples: "array[int]") -> Iterator[int]:
    return (index for index, sample in enumerate(samples) if abs(sample) > SILENCE)


def block(reader: wave.Wave_read, begin: int, end: int) -> "array[int]":
    """The samples of a block of frames, which begins there and ends at `end` at the latest."""
    reader.setpos(begin)
    return array("h", reader.readframes(min(BLOCK_FRAMES, end - begin)))
