"""Each input of the table costs in proportion to its size, and is refused from its bound on."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from cost import assert_linear
from inputs.page import reference_page
from inputs.readers import REFUSALS
from inputs.table import TABLE, Input
from onbeat.wire.errors import status_of

PAGE = Path(__file__).parents[2] / "docs/reference/limits.md"
INPUTS = [pytest.param(input, id=input.name) for input in TABLE]
BOUNDED = [pytest.param(input, id=input.name) for input in TABLE if input.code]


@pytest.mark.parametrize("input", INPUTS)
def test_an_input_costs_in_proportion_to_its_size(input: Input) -> None:
    def reading(given: Any) -> Any:
        def read() -> None:
            with contextlib.suppress(*REFUSALS):
                input.read(given)

        return read

    for place, shape in enumerate(input.shapes):
        once, twice = shape(input.size), shape(2 * input.size)
        assert_linear(reading(once), reading(twice), f"{input.name}, shape {place}")


@pytest.mark.parametrize("input", BOUNDED)
def test_an_input_is_taken_to_its_bound_and_not_beyond(input: Input) -> None:
    input.read(input.fits)
    with pytest.raises(REFUSALS) as caught:
        input.read(input.over)
    assert status_of(caught.value).code == input.code
    assert 0 < len(str(caught.value)) < 1_000


def test_no_input_stands_there_twice() -> None:
    names = [input.name for input in TABLE]
    assert len(set(names)) == len(names)


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == reference_page(), "write it anew: make docs"
