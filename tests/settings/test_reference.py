"""The reference page and the names that follow from the record."""

from datetime import timedelta
from pathlib import Path

import pytest

from onbeat.settings.reference import reference_page
from onbeat.settings.spans import read_span, span_text
from onbeat.settings.table import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_reference_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == reference_page()


def test_flags_and_variables_are_each_one_settings():
    flags = [setting.flag for setting in TABLE.values() if setting.flag]
    assert len(set(flags)) == len(flags)
    assert len({setting.environment for setting in TABLE.values()}) == len(TABLE)


def test_no_secret_has_a_flag():
    assert [setting.flag for setting in TABLE.values() if setting.key.secret] == [None]


@pytest.mark.parametrize("setting", TABLE.values(), ids=lambda setting: setting.path)
def test_each_default_is_what_its_own_text_reads_as(setting):
    unset = setting.default in ((), None) and setting.key.unset == "none"
    assert unset or setting.key.read(setting.default_text) == setting.default


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("1.5 h", 5400), ("250ms", 0.25), ("2d", 172_800),
     ("PT5M", 300), ("P1DT1H", 90_000), ("P2W", 1_209_600), ("1.5", 1.5), (7, 7), (0.5, 0.5)],
)  # fmt: skip
def test_spans_are_read(text, seconds):
    assert read_span(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "5 min", "1h-3m", "s", "1e3s", None, True, []]
)
def test_what_is_no_span_is_refused(text):
    assert read_span(text) is None


@pytest.mark.parametrize("text", ["0s", "1d2h3m4s5ms", "90d", "1ms"])
def test_span_texts_read_back(text):
    assert span_text(read_span(text)) == text
