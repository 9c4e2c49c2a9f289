"""`onbeat import kubernetes`, `eventbridge` and `rrule-scheduler`: documents of services."""

import json
from typing import Any

import pytest

from interfaces.imported import (
    AUTUMN,
    SPRING,
    bodies,
    differing,
    imported,
    lost,
    onbeat_fires,
    source_fires,
)
from onbeat.cli.imports import UnreadableSource

CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup, namespace: shop}
spec:
  schedule: "30 2 * * *"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 600
  suspend: true
  successfulJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 7200
      template:
        spec:
          restartPolicy: Never
          serviceAccountName: backup
          containers:
            - name: backup
              image: registry.example/backup:7
              command: [/srv/backup.sh]
              args: [--full, "1"]
              workingDir: /srv
              env:
                - {name: LEVEL, value: "3"}
                - {name: TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}
            - name: proxy
              image: proxy:1
"""


def cron_job(schedule: str) -> Any:
    text = f'kind: CronJob\nmetadata: {{name: x}}\nspec:\n  schedule: "{schedule}"\n'
    return imported("kubernetes", text, zone="Europe/Berlin", task="shell.run")


def test_a_cron_job_has_its_policies_and_its_command() -> None:
    result = imported("kubernetes", CRON_JOB)
    assert bodies(result)["backup"] == {
        "cron": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "dst_gap": "skip",
        "dst_fold": "both",
        "target": {
            "command": ["/srv/backup.sh", "--full", "1"],
            "env": {"LEVEL": "3"},
            "cwd": "/srv",
        },
        "overlap": "skip",
        "status": "paused",
        "retry": {"attempts_max": 3},
        "timeout": "2h",
        "grace": "10m",
        "catch_up": "none",
    }
    assert sorted(lost(result), key=str) == [
        (10, "successfulJobsHistoryLimit"), (18, "serviceAccountName"), (21, "image"), (27, "env"),
        (28, "container"), (3, "namespace"),
    ]  # fmt: skip


def test_references_to_variables_are_replaced_as_kubernetes_does() -> None:
    text = (
        "kind: CronJob\nmetadata: {name: x}\nspec:\n  schedule: '@daily'\n  jobTemplate: {spec: {template: "
        "{spec: {containers: [{name: a, command: [/bin/x, '--to=$(TO)'], args: [$(NO), $$(TO), $TO],"
        " env: [{name: HOST, value: h}, {name: TO, value: '$(HOST)/y'}]}]}}}}\n"
    )
    target = bodies(imported("kubernetes", text))["x"]["target"]
    assert target["command"] == ["/bin/x", "--to=h/y", "$(NO)", "$(TO)", "$TO"]
    assert target["env"] == {"HOST": "h", "TO": "h/y"}


def test_clocks_and_steps_of_days_are_those_of_robfig_cron() -> None:
    result = cron_job("30 2 */2 * 1")
    assert bodies(result)["x"]["cron"] == "30 2 1-31/2 * 1"
    # A step does not leave the day open in robfig/cron v3, so either day is enough; a time in a
    # gap is left out, one in a fold runs twice.
    assert source_fires(result, "x", SPRING) == ["03-29 00:30", "03-31 00:30", "04-01 00:30"]
    assert source_fires(result, "x", AUTUMN) == ["10-31 00:30", "10-31 01:30", "11-01 01:30"]
    for after in (SPRING, AUTUMN):
        assert onbeat_fires(result, "x", after) == source_fires(result, "x", after)


@pytest.mark.parametrize(
    ("schedule", "rule"),
    [("@hourly", {"cron": "@hourly"}), ("@every 1h30m", {"every": "1h30m"}),
     ("0 0 ? * 1-5", {"cron": "0 0 ? * 1-5"}), ("5/15 * * * *", {"cron": "5/15 * * * *"})],
)  # fmt: skip
def test_forms_of_a_schedule(schedule: str, rule: dict[str, str]) -> None:
    result = cron_job(schedule)
    assert rule.items() <= bodies(result)["x"].items()
    assert onbeat_fires(result, "x", SPRING) == source_fires(result, "x", SPRING)


@pytest.mark.parametrize("schedule", ["0 0 * * 7", "@every soon", "0 0 * *", "60 * * * *", ""])
def test_a_schedule_that_cannot_be_read_is_named(schedule: str) -> None:
    assert lost(cron_job(schedule)) == [(4, "schedule")]


def test_a_list_and_other_objects() -> None:
    listed = {"kind": "List", "items": [{"kind": "CronJob", "spec": {"schedule": "0 1 * * *"}}]}
    text = f"---\n{json.dumps(listed)}\n---\nkind: Service\n---\n"
    result = imported("kubernetes", text)
    assert list(bodies(result)) == []
    assert lost(result) == [(2, "command"), (4, "Service")]
    called = imported("kubernetes", text, task="shell.run")
    assert list(bodies(called)) == ["cronjob"]
    assert "time zone" in differing(called)


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2", "[" * 200 + "]" * 200, "a: b: c"])
def test_what_is_not_yaml_is_refused(text: str) -> None:
    with pytest.raises(UnreadableSource):
        imported("kubernetes", text)


def schedule(expression: str, **more: Any) -> Any:
    document = {"Name": "x", "ScheduleExpression": expression, "Target": {"Arn": "a"}, **more}
    return imported("eventbridge", json.dumps(document, indent=1))


def test_a_schedule_of_eventbridge() -> None:
    result = schedule(
        "cron(30 2 ? * MON-FRI *)",
        ScheduleExpressionTimezone="Europe/Berlin",
        FlexibleTimeWindow={"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
        State="DISABLED",
        EndDate="2028-01-01T00:00:00+01:00",
        KmsKeyArn="arn:key",
        Target={
            "Arn": "arn:aws:lambda:x", "Input": '{"a": 1}', "RoleArn": "r",
            "RetryPolicy": {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 3600},
            "DeadLetterConfig": {"Arn": "q"},
        },
    )  # fmt: skip
    assert bodies(result)["x"] == {
        "cron": "cron(30 2 ? * MON-FRI *)",
        "timezone": "Europe/Berlin",
        "dst_gap": "skip",
        "ends_at": "2027-12-31T23:00:00+00:00",
        "jitter": "15m",
        "status": "paused",
        "target": {
            "task": "aws.target",
            "kwargs": {"arn": "arn:aws:lambda:x", "input": '{"a": 1}'},
        },
        "retry": {"attempts_max": 4},
        "expires_after": "1h",
    }
    assert [name for _, name in lost(result)] == ["Target", "DeadLetterConfig", "KmsKeyArn"]
    assert differing(result) == ["FlexibleTimeWindow", "missed run"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rate(5 minutes)", ["03-27 12:05", "03-27 12:10", "03-27 12:15"]),
        ("at(2027-06-01T09:00:00)", ["06-01 07:00"]),
        # AWS: a time that does not exist is left out, one that comes twice runs once.
        ("cron(30 2 * * ? *)", ["03-29 00:30", "03-30 00:30", "03-31 00:30"]),
        ("cron(0 9 L * ? *)", ["03-31 07:00", "04-30 07:00", "05-31 07:00"]),
        ("cron(0 9 1W * ? *)", ["04-01 07:00", "05-03 07:00", "06-01 07:00"]),
        ("cron(0 9 LW * ? *)", ["03-31 07:00", "04-30 07:00", "05-31 07:00"]),
        ("cron(0 9 ? * 6#3 *)", ["04-16 07:00", "05-21 07:00", "06-18 07:00"]),
        ("cron(0 9 ? * 2L 2027)", ["03-29 07:00", "04-26 07:00", "05-31 07:00"]),
        ("cron(0/30 9 ? * SAT 2028)", ["01-01 08:00", "01-01 08:30", "01-08 08:00"]),
    ],
)
def test_expressions_mean_what_aws_says(expression: str, expected: list[str]) -> None:
    result = schedule(expression, ScheduleExpressionTimezone="Europe/Berlin")
    assert source_fires(result, "x", SPRING) == expected
    assert onbeat_fires(result, "x", SPRING) == expected


@pytest.mark.parametrize(
    "expression", ["every(5)", "rate(0 minutes)", "at(soon)", "cron(0 0 * *)", "cron(0 0 32 * ? *)"]
)
def test_an_expression_that_cannot_be_read_is_named(expression: str) -> None:
    assert lost(schedule(expression)) == [(3, "ScheduleExpression")]


def test_answers_of_lists_and_rules_of_events() -> None:
    rules = {
        "Rules": [
            {"Name": "a", "ScheduleExpression": "rate(1 hour)", "EventBusName": "default"},
            {"Name": "b", "EventPattern": '{"source": ["x"]}'},
        ]
    }
    result = imported("eventbridge", json.dumps(rules, indent=1))
    assert bodies(result)["a"]["every"] == "1h"
    assert [name for _, name in lost(result)] == ["Target", "EventPattern"]
    listed = {"Schedules": [{"Name": "c", "State": "ENABLED"}]}
    assert lost(imported("eventbridge", json.dumps(listed))) == [(1, "ScheduleExpression")]


def test_a_rate_with_a_start_is_counted_from_there() -> None:
    result = schedule("rate(2 hours)", StartDate="2027-03-27T13:30:00+00:00")
    assert bodies(result)["x"]["every"] == "R/2027-03-27T13:30:00Z/PT7200S"
    assert source_fires(result, "x", SPRING) == ["03-27 13:30", "03-27 15:30", "03-27 17:30"]
    assert onbeat_fires(result, "x", SPRING) == source_fires(result, "x", SPRING)


@pytest.mark.parametrize("indent", [None, 1])
def test_every_list_of_a_file_is_read(indent: int | None) -> None:
    def listed(**lists: Any) -> str:
        return json.dumps(lists, indent=indent)

    one, two, three = (
        {"Name": name, "ScheduleExpression": "rate(1 hour)", "Target": {"Input": '"Rules": ['}}
        for name in "abc"
    )
    text = f"{listed(Total=3, Rules=[one], Schedules=[two])}\n{listed(Schedules=[three], NextToken='x')}"
    result = imported("eventbridge", text)
    assert set(bodies(result)) == {"a", "b", "c"}
    lines = text.splitlines()
    for schedule in result.schedules:
        assert f'"{schedule.key}"' in "".join(lines[schedule.line - 1 : schedule.line + 1])
    (next_page,) = [line for line, name in lost(result) if name == "NextToken"]
    assert next_page is not None
    assert "NextToken" in lines[next_page - 1]


BACKUP = {
    "name": "Daily Backup",
    "rrule": "DTSTART:20250101T083000Z\nRRULE:FREQ=DAILY",
    "callback_url": "https://example.com/backup",
    "method": "POST",
    "headers": {"Content-Type": "application/json"},
    "body": "{}",
}


@pytest.mark.parametrize("join", [json.dumps, lambda many: "\n".join(map(json.dumps, many))])
def test_callbacks_with_their_rules_as_a_list_or_lines(join: Any) -> None:
    loose = {"name": "Loose", "rrule": "FREQ=DAILY", "callback_url": "https://example.com/l"}
    result = imported("rrule-scheduler", join([BACKUP, loose]))
    assert bodies(result)["daily-backup"] == BACKUP
    assert source_fires(result, "daily-backup", SPRING, 2) == ["03-28 08:30", "03-29 08:30"]
    assert differing(result)[0] == "no DTSTART"
    assert lost(result) == []


def test_starts_and_exceptions_in_fields_of_their_own() -> None:
    one = {
        "name": "x", "rrule": "FREQ=DAILY", "dtstart": "2027-03-01T09:00:00Z",
        "exdate": ["2027-03-28T09:00:00Z"], "callback_url": "https://example.com/x",
        "_id": {"$oid": "64b76c5986b6c9f24f1c0952"}, "colour": "red",
    }  # fmt: skip
    result = imported("rrule-scheduler", json.dumps({"schedules": [one]}))
    assert onbeat_fires(result, "x", SPRING, 2) == ["03-29 09:00", "03-30 09:00"]
    assert lost(result) == [(1, "field")]


@pytest.mark.parametrize(
    "change",
    [{"rrule": "FREQ=NEVER"}, {"callback_url": "ftp://x/y"}, {"name": ""}, {"rrule": 7}],
)
def test_what_the_source_took_and_onbeat_refuses_is_named(change: dict[str, Any]) -> None:
    result = imported("rrule-scheduler", "\n" + json.dumps(BACKUP | change))
    assert (result.schedules, lost(result)) == ([], [(2, "schedule")])


@pytest.mark.parametrize("text", ['{"name": ', "[1]", "[" + '{"a":' * 100_000, "nonsense"])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(UnreadableSource):
        imported("rrule-scheduler", text)
