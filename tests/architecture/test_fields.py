"""That the model alone lists what jobs and schedules are made of, and all that repeats it agrees."""

import re
from pathlib import Path

import pytest

from onbeat.app.call import CallOptions
from onbeat.app.schedule_drafts import Policies
from onbeat.cli import jobs, schedules
from onbeat.model.job import JobSpec
from onbeat.model.schedule import ScheduleSpec
from onbeat.wire.jobs import JobBody, JobInfo
from onbeat.wire.schedules import ScheduleAnswer, ScheduleBody

SOURCE = Path(__file__).parents[2] / "src" / "onbeat"
KIT = SOURCE / "testing"

FILES_MAX = 17
# Labels of Prometheus and of host names are other things.
OTHER_LABELS = {
    *("telemetry/metrics.py", "telemetry/otlp_metrics.py", "rules/urls.py"),
    "rules/fault_spread.py",  # counts those of jobs
    "wire/schedule_files.py",  # has one of its own, by which it knows what came from a file
    "wire/load_marks.py",  # the same, for the jobs of a load
}

# Fields that no caller names: ids, and what the service or the schedule decides.
OF_THE_SERVICE = {
    *("id", "created_at", "updated_at", "start_by", "zone_data"),
    *("schedule_id", "occurrence", "cause", "flow", "awaits_flow", "traceparent", "tracestate"),
    *("owner", "release", "pause_reason"),
}
CHOSEN_OF_JOBS = {*JobSpec.__struct_fields__} - OF_THE_SERVICE - {"overlap"}
CHOSEN_OF_SCHEDULES = {*ScheduleSpec.__struct_fields__} - OF_THE_SERVICE

# Where a caller names a field otherwise than the record.
OTHERWISE = {
    "edges": {"after"},
    "due_at": {"run_at"},
    "expires_at": {"expires_in"},
    "recurrence": {"rrule", "cron", "every", "at"},
    "target": {"url", "task"},
    "retry": {"retry_delay"},
    "gather": {"gather_for"},
}


def options_of(command) -> set[str]:
    return {parameter.name for parameter in command.params}


def missing(fields: set[str], there: set[str]) -> set[str]:
    return {name for name in fields if not ({name} | OTHERWISE.get(name, set())) & there}


def test_the_name_of_an_option_stands_in_few_files() -> None:
    others = {SOURCE / path for path in OTHER_LABELS}
    files = {path for path in SOURCE.rglob("*.py") if KIT not in path.parents} - others
    found = [path for path in files if re.search(r"\blabels\b", path.read_text())]
    assert len(found) <= FILES_MAX, sorted(str(path.relative_to(SOURCE)) for path in found)


@pytest.mark.parametrize(
    "there",
    [
        pytest.param({*JobBody.__struct_fields__}, id="body"),
        pytest.param({*JobInfo.__struct_fields__} | {"retry", "timeout"}, id="answer"),
        pytest.param({*CallOptions.__annotations__} | {"target"}, id="python"),
        pytest.param(options_of(jobs.add), id="command line"),
    ],
)
def test_every_field_of_a_job_that_a_caller_chooses_is_in(there) -> None:
    assert missing(CHOSEN_OF_JOBS, there) == set()


@pytest.mark.parametrize(
    "there",
    [
        pytest.param({*ScheduleBody.__struct_fields__}, id="body"),
        pytest.param({*ScheduleAnswer.__struct_fields__}, id="answer"),
        pytest.param({*Policies.__annotations__} | {"key", "recurrence", "target"}, id="python"),
        pytest.param(options_of(schedules.add), id="command line"),
        pytest.param({*schedules.CLEARABLE} | {"name", "recurrence", "target", "on"}, id="clear"),
    ],
)
def test_every_field_of_a_schedule_that_a_caller_chooses_is_in(there) -> None:
    assert missing(CHOSEN_OF_SCHEDULES, there) == set()
