"""What the pages say of the code, held against the code."""

import inspect
import re
import tomllib
from collections.abc import Iterator
from datetime import timedelta

import pytest
from msgspec.structs import fields

import onbeat
from docs.pages import ROOT
from onbeat.app.call import READERS, CallOptions
from onbeat.app.jobs import Jobs
from onbeat.app.queues import Queues
from onbeat.app.schedule_drafts import Policies
from onbeat.app.schedules import Schedules
from onbeat.model.attempt import OutcomeName
from onbeat.model.errors import OnbeatError
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import (
    GRACE_DEFAULT_MAX,
    GRACE_DEFAULT_MIN,
    LOST_MAX,
    PLAN_JOBS_MAX,
    RELEASED_MAX,
)
from onbeat.model.retry import RetryPolicy
from onbeat.model.role import Role
from onbeat.model.schedule import CatchUp, Overlap, Schedule
from onbeat.model.signals import Cancel
from onbeat.operations.jobs import CANCELLED_BY_CALLER
from onbeat.operations.table import OPERATIONS
from onbeat.rules.condition import FALSE
from onbeat.rules.dependents import doom_of
from onbeat.rules.expiry import EXPIRED
from onbeat.rules.overlap import REPLACED, SKIPPED
from onbeat.rules.plans import CHANGED, DELETED, MISFIRED, PAUSED
from onbeat.settings import Settings
from onbeat.targets.context import Context
from onbeat.wire.errors import TABLE


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def spoken(name: str) -> str:
    """The page on one line, so that a sentence may be looked for."""
    return " ".join(page(name).split())


def words(name: str) -> set[str]:
    """Everything that stands in code marks, cut into names."""
    text = re.sub(r"^```.*?^```$", "", page(name), flags=re.DOTALL | re.MULTILINE)
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


def test_the_reference_names_every_public_name() -> None:
    assert set(onbeat.__all__) <= words("docs/reference/python.md")


@pytest.mark.parametrize("facade", [Schedules, Jobs, Queues, Context])
def test_the_reference_names_every_verb(facade: type) -> None:
    public = {
        name
        for name, member in inspect.getmembers(facade)
        if not name.startswith("_") and (isinstance(member, property) or member.__doc__)
    }
    asynchronous = {name for name in public if name.startswith("a") and name[1:] in public}
    inner = {
        "check_target",
        "finish_within",
        "by_key",
        "draft",
        "spec_of",
        "declare",
        "put_declared",
    }
    assert public - asynchronous - inner <= words("docs/reference/python.md")


def test_the_policies_of_a_schedule_are_named() -> None:
    assert set(Policies.__annotations__) <= words("docs/reference/python.md")


def test_the_options_of_a_job_are_named() -> None:
    assert {*CallOptions.__annotations__} == {*READERS}
    assert {*READERS} <= words("docs/guides/send-jobs.md")


def test_the_requests_that_take_a_key_are_named() -> None:
    listed = page("docs/reference/rest.md").partition("These requests accept the header: ")[2]
    named = set(re.findall(r"`(?:POST )?([^`]+)`", listed.partition("\n\n")[0].partition(". ")[0]))
    assert len(named) == len([one for one in OPERATIONS if one.takes_key])
    assert all(any(one.path.endswith(end) for end in named) for one in OPERATIONS if one.takes_key)


def test_every_request_is_in_the_table_of_rest() -> None:
    rows = re.findall(r"^\| (`[A-Z]+ /.*?) \|", page("docs/reference/rest.md"), re.MULTILINE)
    named = {path for row in rows for path in paths_in(row)}
    assert [one.path for one in OPERATIONS if one.path not in named] == []


def paths_in(row: str) -> Iterator[str]:
    """A path that follows another one without a method has its beginning."""
    begin = ""
    for method, path in re.findall(r"`((?:[A-Z]+ )?)(/[^`?]*)", row):
        if method:
            begin = path.rpartition("/")[0]
        yield path if method or path.startswith("/api/") else begin + path


def test_every_error_has_its_code_and_status() -> None:
    rows = page("docs/reference/errors.md")
    for _, answer in TABLE:
        assert f"`{answer.code}` {answer.status}" in rows
    public = {
        name
        for name in onbeat.__all__
        if isinstance(result := getattr(onbeat, name), type) and issubclass(result, OnbeatError)
    }
    assert public <= words("docs/reference/errors.md")


REASONS = [
    EXPIRED,
    MISFIRED,
    SKIPPED,
    REPLACED,
    CHANGED,
    PAUSED,
    DELETED,
    CANCELLED_BY_CALLER,
    f"{FALSE}: …",
    doom_of(JobId("…"), JobState.FAILED).reason,
    Cancel().reason,
]


@pytest.mark.parametrize("reason", REASONS)
def test_reasons_are_quoted_as_they_are(reason: str) -> None:
    assert f"`{reason}`" in page("docs/reference/errors.md")


def test_the_states_are_five() -> None:
    shown = page("docs/explain/state-machine.md")
    assert [state for state in JobState if f"`{state}`" not in shown] == []
    assert len(JobState) == 5


def test_the_glossary_has_the_words_of_the_code() -> None:
    closed = [*OutcomeName, *Role, *CatchUp, *Overlap, *JobState]
    known = spoken("docs/glossary.md")
    spelled = [word for word in closed if not re.search(rf"\b{word}\b", known)]
    assert not spelled


def test_the_budgets_are_as_said() -> None:
    shown = spoken("docs/explain/state-machine.md")
    assert f"| lost attempts | the death of the worker | {LOST_MAX} |" in shown
    assert f"| releases | a shutdown that did not wait for the job | {RELEASED_MAX} |" in shown
    assert f"handed back {RELEASED_MAX} times" in shown


def test_the_default_grace_is_as_said() -> None:
    assert (timedelta(seconds=1), timedelta(minutes=1)) == (GRACE_DEFAULT_MIN, GRACE_DEFAULT_MAX)
    message = "a schedule has until its next occurrence, at least 1 s and at most 1 min"
    assert message in spoken("docs/guides/catch-up-after-an-outage.md")


def test_policies_and_their_defaults_are_as_said() -> None:
    shown = page("docs/guides/catch-up-after-an-outage.md")
    defaults = {field.name: field.default for field in fields(Schedule)}
    assert f"`{defaults['catch_up']}` (default)" in shown
    assert f"`{defaults['overlap']}` (default)" in shown
    assert all(f"| `{policy}`" in shown for policy in [*CatchUp, *Overlap])
    assert f"in portions of {PLAN_JOBS_MAX:,}" in shown


def test_the_default_retry_is_as_said() -> None:
    policy, shown = RetryPolicy(), page("docs/guides/retry-well.md")
    assert f"| `attempts_max` | {policy.attempts_max} |" in shown
    assert f"| `backoff` | `{policy.backoff}` |" in shown
    assert (policy.delay, policy.delay_max) == (timedelta(seconds=1), timedelta(hours=1))
    assert policy.jitter


def test_defaults_that_the_prose_gives_are_those_of_the_settings() -> None:
    settings = Settings()
    assert settings.worker.lease == timedelta(seconds=15)
    assert settings.worker.drain_timeout == timedelta(seconds=30)
    assert settings.worker.concurrency == 100
    assert settings.planner.horizon == timedelta(minutes=10)
    assert settings.http.timeout == timedelta(seconds=30)
    assert (settings.prune.after, settings.prune.failed_after) == (
        timedelta(days=7),
        timedelta(days=30),
    )


def test_one_page_has_every_extra_of_users() -> None:
    extras = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
    of_developers = {"test", "lint", "docs", "audit", "bench"}
    empty = {name for name, packages in extras.items() if not packages}
    rows = re.findall(r"^\| (`.*?) \|", page("docs/start/install.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named == {*extras} - of_developers - empty


def test_the_extras_that_are_offered_exist() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    for name in ("README.md", "docs/start/install.md"):
        offered = set(re.findall(r"onbeat\[(\w+)\]", page(name)))
        assert offered
        assert offered <= set(project["optional-dependencies"])


def test_the_licence_is_the_one_that_the_package_names() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in page("LICENSE")


def test_the_changelog_knows_this_version() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    assert f"\n## {project['version']}\n" in page("CHANGELOG.md")


def test_the_readme_can_be_read_in_one_go() -> None:
    assert page("README.md").count("\n") <= 180


def test_the_layers_are_those_that_are_checked() -> None:
    contracts = tomllib.loads(page("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    shown = page("docs/explain/architecture.md")
    lines = [line.split("   ")[0].strip() for line in shown.splitlines()]
    places = [lines.index(layer) for layer in layers]
    assert places == sorted(places)
