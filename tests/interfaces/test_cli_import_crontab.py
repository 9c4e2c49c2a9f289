"""`onbeat import crontab`: each line is a schedule, a setting, or a named difference."""

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

# As Debian ships it.
ETC_CRONTAB = """\
# /etc/crontab: system-wide crontab
SHELL=/bin/bash
PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin

17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }
"""
CRON_D = "*/10 * * * * www-data [ -x /usr/bin/sync ] && /usr/bin/sync\n@reboot root /sbin/up\n"


SETTINGS = 'SHELL=/bin/bash\nPATH = "/opt/bin:/my bin"\nLEVEL=3\n'


def command_of(body: dict[str, object]) -> dict[str, object]:
    target = body["target"]
    assert isinstance(target, dict)
    return target


def test_a_line_is_a_command_with_its_shell_and_variables() -> None:
    result = imported("crontab", f"{SETTINGS}30 2 * * * /srv/backup.sh -f\n")
    body = bodies(result)["backup"]
    assert body["cron"] == "30 2 * * *"
    # PATH decides which code runs, so no environment of a command may have it.
    shell = ["/bin/bash", "-c", "export PATH='/opt/bin:/my bin'\n/srv/backup.sh -f"]
    assert command_of(body) == {"command": shell, "env": {"LEVEL": "3"}}
    assert body["retry"] == {"attempts_max": 1}
    assert "commands" in differing(result)


def test_a_line_is_a_call_of_a_task_that_is_named() -> None:
    result = imported("crontab", f"{SETTINGS}30 2 * * * /srv/backup.sh -f\n", task="shell.run")
    assert bodies(result)["backup"]["target"] == {
        "task": "shell.run",
        "kwargs": {
            "command": ["/bin/bash", "-c", "/srv/backup.sh -f"],
            "env": {"PATH": "/opt/bin:/my bin", "LEVEL": "3"},
        },
    }
    assert "commands" not in differing(result)


def test_variables_hold_for_the_lines_below_them() -> None:
    text = "A=1\n0 1 * * * one\nA=2\nCRON_TZ=Europe/Berlin\n0 1 * * * two\n"
    found = bodies(imported("crontab", text))
    assert command_of(found["one"])["env"] == {"A": "1"}
    assert command_of(found["two"])["env"] == {"A": "2"}
    assert "timezone" not in found["one"]
    assert found["two"]["timezone"] == "Europe/Berlin"


def test_percent_signs_are_the_input_unless_they_are_escaped() -> None:
    found = bodies(imported("crontab", "0 1 * * * mail -s 100\\% x%Hello%you\n"))
    assert command_of(found["mail"]) == {
        "command": ["/bin/sh", "-c", "mail -s 100% x"],
        "stdin": "Hello\nyou\n",
    }


def test_the_crontab_of_debian_names_the_users() -> None:
    result = imported("crontab", ETC_CRONTAB, system=True)
    assert [one.body["cron"] for one in result.schedules] == [
        "17 * * * *",
        "25 6 * * *",
        "47 6 * * 7",
    ]
    assert lost(result) == [(5, "user"), (6, "user"), (7, "user")]


def test_a_file_of_cron_d_and_a_start_of_the_machine() -> None:
    result = imported("crontab", CRON_D, system=True)
    assert len(result.schedules) == 1
    assert lost(result) == [(1, "user"), (2, "@reboot")]


@pytest.mark.parametrize(
    "line",
    ["0 25 * * * x", "5/15 * * * * x", "0~30 * * * * x", "* * * *", "@often x", "0 0 * * fri-mon x",
     "0 0 31 2 * x", f"0 0 * * * {'x' * 10_001}", "CRON_TZ=Mars/Olympus"],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named_by_its_number(line: str) -> None:
    result = imported("crontab", f"\n# a comment\n{line}\n")
    assert result.schedules == []
    assert [number for number, _ in lost(result)] == [3]


def test_mail_and_zones_of_commands_are_differences() -> None:
    result = imported("crontab", "MAILTO=a@example.com\nTZ=Asia/Tokyo\n0 1 * * * x\n")
    assert lost(result) == [(1, "MAILTO")]
    assert differing(result) == ["TZ", "time zone", "commands", "missed run"]
    assert lost(imported("crontab", 'MAILTO=""\n0 1 * * * x\n')) == []


def test_either_day_is_enough_unless_a_day_begins_with_a_star() -> None:
    result = imported("crontab", "0 9 1 * mon either\n0 9 */2 * mon both\n", zone="UTC")
    # crontab(5): 29 March 2027 is a Monday.
    assert source_fires(result, "either", SPRING) == ["03-29 09:00", "04-01 09:00", "04-05 09:00"]
    assert source_fires(result, "both", SPRING) == ["03-29 09:00", "04-05 09:00", "04-19 09:00"]
    for key in ("either", "both"):
        assert onbeat_fires(result, key, SPRING) == source_fires(result, key, SPRING)


def test_changed_clocks_are_those_of_debian() -> None:
    text = "30 2 * * * fixed\n30 * * * * wild\n"
    result = imported("crontab", text, zone="Europe/Berlin")
    # In the gap a fixed time runs at its end; in the fold once.
    assert source_fires(result, "fixed", SPRING, 2) == ["03-28 01:00", "03-29 00:30"]
    assert source_fires(result, "fixed", AUTUMN, 2) == ["10-31 00:30", "11-01 01:30"]
    assert len(source_fires(result, "wild", AUTUMN, 24)) == 24
    for key in ("fixed", "wild"):
        for after in (SPRING, AUTUMN):
            ours = onbeat_fires(result, key, after, 24)
            assert ours == source_fires(result, key, after, 24)


def test_keys_of_equal_commands_differ() -> None:
    result = imported("crontab", "0 1 * * * /a/x.sh\n0 2 * * * /b/x.sh\n0 3 * * * x-2\n")
    assert [one.key for one in result.schedules] == ["x", "x-2", "x-2-2"]


def test_variables_are_bounded_and_named() -> None:
    result = imported("crontab", f"A={'x' * 1_900}\nB={'x' * 200}\n0 1 * * * x\n")
    assert lost(result) == [(2, "line")]
    assert list(command_of(bodies(result)["x"])["env"]) == ["A"]  # type: ignore[call-overload]
