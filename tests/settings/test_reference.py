"""The reference page and the names that follow from the record."""

from pathlib import Path

import pytest

from onbeat.settings.reference import reference_page
from onbeat.settings.setting import Setting
from onbeat.settings.table import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page()


def test_flags_and_variables_are_each_one_settings() -> None:
    flags = [setting.flag for setting in TABLE.values() if setting.flag]
    shared = {flag for flag in flags if flags.count(flag) > 1}
    assert shared == {"--log-level"}, "of all loggers, and of single ones"
    assert len({setting.environment for setting in TABLE.values()}) == len(TABLE)


def test_no_secret_has_a_flag():
    assert [setting.flag for setting in TABLE.values() if setting.key.secret] == [None] * 5


@pytest.mark.parametrize("setting", TABLE.values(), ids=lambda setting: setting.path)
def test_each_default_is_what_its_own_text_reads_as(setting: Setting) -> None:
    unset = setting.default in ((), {}, None) and setting.key.unset == "none"
    assert unset or setting.key.read(setting.default_text) == setting.default
