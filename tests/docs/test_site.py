"""The site of `make docs`: what is in its navigation, and where links lead. `make check` builds it."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from docs.pages import PAGES, ROOT, name_of

DOCS = ROOT / "docs"


class Loader(yaml.SafeLoader):
    """Reads what mkdocs does, but for the names of Python functions."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


@pytest.fixture(scope="module")
def configuration() -> dict[str, Any]:
    result: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)
    return result


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", DOCS / "site_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed(part: Any) -> list[str]:
    """The pages of a part of the navigation, in order."""
    match part:
        case str():
            return [part]
        case dict():
            return [page for value in part.values() for page in listed(value)]
        case _:
            return [page for entry in part for page in listed(entry)]


def test_every_page_is_in_the_navigation_once(configuration, hook) -> None:
    class Config:
        nav = configuration["nav"]

    pages = listed(hook.on_config(Config).nav)
    known = {str(page.relative_to(DOCS)) for page in PAGES if page.is_relative_to(DOCS)}
    assert sorted(pages) == sorted(known | {hook.DECISIONS, *hook.ELSEWHERE})


def test_nothing_is_fetched_and_every_fault_is_told(configuration) -> None:
    assert configuration["theme"]["font"] is False
    assert configuration["plugins"] == ["search"]
    assert configuration["strict"] is True
    told = [rule for part in configuration["validation"].values() for rule in part.values()]
    assert set(told) == {"warn"}
    assert "http" not in (DOCS / "assets" / "site.css").read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("guides/upgrade.md", "[log](../../CHANGELOG.md#unreleased)", "[log](../changelog.md#unreleased)"),
        ("guides/upgrade.md", "[jobs](send-jobs.md)", "[jobs](send-jobs.md)"),
        ("guides/deploy.md", "[folder](../../deploy)", "folder"),
        ("index.md", "[decisions](decisions)", "[decisions](decisions/index.md)"),
        ("changelog.md", "[guide](docs/guides/flows.md)", "[guide](guides/flows.md)"),
        ("index.md", "[CEL](https://cel.dev)", "[CEL](https://cel.dev)"),
        ("index.md", "```sh\n[a](../b)\n```", "```sh\n[a](../b)\n```"),
        ("index.md", "![picture](pictures/now.png)", "![picture](pictures/now.png)"),
    ],
)  # fmt: skip
def test_links_lead_to_pages_of_the_site(page, link, expected, hook, monkeypatch) -> None:
    monkeypatch.delenv("ONBEAT_REPOSITORY", raising=False)
    folder = hook.ELSEWHERE.get(page, DOCS / page).parent
    assert hook.with_links(f"See\n{link}\n", page, folder) == f"See\n{expected}\n"


def test_links_out_of_the_site_lead_into_the_repository_that_is_named(hook, monkeypatch) -> None:
    monkeypatch.setenv("ONBEAT_REPOSITORY", "https://example.com/onbeat/")
    changed = hook.with_links("[folder](../../deploy)", "guides/deploy.md", DOCS / "guides")
    assert changed == "[folder](https://example.com/onbeat/blob/HEAD/deploy)"


def test_the_decisions_are_listed_by_their_headings(hook) -> None:
    page = hook.decisions_page()
    linked = re.findall(r"^- \[(.+)\]\((.+)\)$", page, re.MULTILINE)
    assert [DOCS / "decisions" / file for _, file in linked] == sorted(DOCS.glob("decisions/*.md"))
    assert all(
        (DOCS / "decisions" / file).read_text("utf-8").startswith(f"# {title}\n")
        for title, file in linked
    )


@pytest.mark.parametrize("page", [page for page in PAGES if page.is_relative_to(DOCS)], ids=name_of)
def test_a_page_has_one_title(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
