"""Measure the cost of recurrences: `python benchmarks/recurrence.py`.

Every figure is from this machine and this run; other libraries answer the same queries in the same
process. Results go to benchmarks/results/recurrence.json.
"""

import gc
import json
import platform
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim
from dateutil.rrule import rrulestr

import onbeat.recurrence
from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import RecurrenceSpec, cron, rrule
from onbeat.recurrence.recurrence import value_of
from onbeat.recurrence.zones import load_zone

RESULTS = Path(__file__).parent / "results" / "recurrence.json"
ASKED = datetime(2026, 5, 20, 12, 34, 56, tzinfo=UTC)
NEW_YORK = "America/New_York"

# Rule, and its limits in microseconds: in UTC, with a zone.
RULES = {
    "FREQ=DAILY": (5, 8),
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,FR": (5, 8),
    "FREQ=MONTHLY;BYDAY=-1FR": (5, 8),
    "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU": (5, 8),
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29": (5, 8),
    "FREQ=MINUTELY;INTERVAL=5": (5, 8),
    "FREQ=HOURLY": (5, 8),
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1": (15, 15),
    "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO": (15, 15),
    "FREQ=HOURLY;INTERVAL=5;BYDAY=MO": (15, 15),
    "FREQ=SECONDLY;INTERVAL=90;BYHOUR=3": (15, 15),
    "FREQ=MINUTELY;INTERVAL=7;BYMONTH=1;BYHOUR=9": (15, 15),
}
CRONS = ["*/5 * * * *", "0 3 * * *", "30 2 * * MON-FRI", "0 9 L * *", "0 0 29 2 *",
         "15 10 * * 5#3", "0 12 15W * *"]  # fmt: skip
NEVER = [
    "FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=31;BYMONTH=2",
    "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=HOURLY;INTERVAL=2;BYHOUR=1",
    "FREQ=MONTHLY;BYMONTHDAY=1;BYDAY=2SU",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
    "FREQ=HOURLY;INTERVAL=168;BYDAY=TU",
]


def main() -> None:
    results = {
        "machine": machine(),
        "import_ms": import_ms(),
        "after_us": after_costs(),
        "cron_us": cron_costs(),
        "transition_day_us": transition_costs(),
        "compile_us": compile_costs(),
        "count_bound_us": count_costs(),
        "never_ms": never_costs(),
        "age_ratio": age_ratios(),
        "million_mixed_s": mixed_cost(),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print("\nwritten to benchmarks/results/recurrence.json")


def machine() -> dict[str, object]:
    fields = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
    }
    print(f"Python {fields['python']}, {fields['system']} {fields['machine']}")
    return fields


def best(call: Callable[[], object], seconds: float = 0.05, rounds: int = 5) -> float:
    """Microseconds a call, the minimum of some rounds, which excludes noise of the machine."""
    started = perf_counter()
    call()
    number = max(1, min(20_000, int(seconds / max(perf_counter() - started, 1e-7) / 2)))
    gc.disable()
    figures = []
    for _ in range(rounds):
        started = perf_counter()
        for _ in range(number):
            call()
        figures.append((perf_counter() - started) / number * 1e6)
    gc.enable()
    return round(min(figures), 2)


def row(name: str, *figures: object, bar: str = "") -> None:
    print(
        f"{name:<58}"
        + "".join(f"{figure:>12}" for figure in figures)
        + (f"   {bar}" if bar else "")
    )


def block(rule: str, zone: str | None, start: str = "19700101T090000") -> str:
    return f"DTSTART;TZID={zone or 'UTC'}:{start}\nRRULE:{rule}"


def import_ms() -> float:
    # The package `onbeat` imports everything; a bare substitute shows the engine alone.
    where = Path(onbeat.recurrence.__file__).parent.parent
    code = (
        "import sys, types; top = types.ModuleType('onbeat');"
        f"top.__path__ = [{str(where)!r}]; sys.modules['onbeat'] = top;"
        "import msgspec; from time import perf_counter as now; begun = now();"
        "import onbeat.recurrence; print((now() - begun) * 1e3)"
    )
    figures = [
        float(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, check=True, text=True
            ).stdout
        )
        for _ in range(5)
    ]
    row("import of the engine, without msgspec, ms", round(min(figures), 1), bar="30")
    return round(min(figures), 1)


def after_costs() -> dict[str, dict[str, float]]:
    print()
    row(
        "after(), µs; DTSTART 1970, asked 2026",
        "core UTC",
        "core NY",
        "public NY",
        "dateutil",
        bar="bars",
    )
    costs = {}
    for rule, bars in RULES.items():
        utc, new_york = rrule(block(rule, None)), rrule(block(rule, NEW_YORK))
        ask = int(ASKED.timestamp()) * 1_000_000
        costs[rule] = {
            "utc": best(lambda value=utc, ask=ask: value.after_us(ask)),
            "new_york": best(lambda value=new_york, ask=ask: value.after_us(ask)),
            "public": best(lambda value=new_york: value.after(ASKED)),
            "dateutil": dateutil_cost(rule),
        }
        row(rule, *costs[rule].values(), bar=f"{bars[0]} / {bars[1]}")
    return costs


def dateutil_cost(rule: str) -> float:
    """Its cost grows with the age of DTSTART, so sub-daily rules start a month before the query."""
    short = any(freq in rule for freq in ("HOURLY", "MINUTELY", "SECONDLY"))
    years_old, month_old = datetime(1970, 1, 1, 9, tzinfo=UTC), datetime(2026, 4, 20, 9, tzinfo=UTC)
    start = (month_old if short else years_old).replace(tzinfo=None)
    theirs = rrulestr(rule, dtstart=start)
    request = ASKED.replace(tzinfo=None)
    return best(lambda: theirs.after(request), rounds=1)


def cron_costs() -> dict[str, dict[str, float]]:
    print()
    row("cron after(), µs", "core UTC", "core NY", "cronsim", "croniter", bar="5 / 8")
    costs = {}
    local = ASKED.astimezone(ZoneInfo(NEW_YORK))
    for text in CRONS:
        utc, new_york = cron(text), cron(text, tz=NEW_YORK)
        ask = int(ASKED.timestamp()) * 1_000_000
        costs[text] = {
            "utc": best(lambda value=utc, ask=ask: value.after_us(ask)),
            "new_york": best(lambda value=new_york, ask=ask: value.after_us(ask)),
            "cronsim": other(lambda text=text: next(CronSim(text, local))),
            "croniter": other(lambda text=text: croniter(text, local).get_next(datetime)),
        }
        row(text, *costs[text].values())
    return costs


def other(call: Callable[[], object]) -> float:
    """Another library's cost, or -1 if it does not support the rule."""
    try:
        return best(call, rounds=2)
    except Exception:  # noqa: BLE001  each library has its own errors
        return -1


def transition_costs() -> dict[str, float]:
    print()
    row("on a transition day, New York, µs", "core", bar="40")
    costs = {}
    day = datetime(2026, 3, 8, 6, 0, tzinfo=UTC)
    ask = int(day.timestamp()) * 1_000_000
    for rule in ("FREQ=DAILY", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "FREQ=HOURLY;BYHOUR=1,2,3"):
        value = rrule(block(rule, NEW_YORK))
        costs[rule] = best(lambda value=value: value.after_us(ask))
        row(rule, costs[rule])
    return costs


def compile_costs() -> dict[str, float]:
    print()
    row("compile, cold, µs", "onbeat", bar="100 RRULE, 200 cron; zone 5 ms")
    costs = {}
    for name, specs in {
        "rrule": [rrule_spec(minute, 18 + minute % 10) for minute in range(600)],
        "rrule, days shared": [rrule_spec(minute, 18) for minute in range(1000, 1600)],
        "cron": [
            RecurrenceSpec(
                "cron", f"{minute % 60} {minute % 24} {minute // 24 % 28 + 1} * *", tz="UTC"
            )
            for minute in range(600)
        ],
    }.items():
        started = perf_counter()
        for spec in specs:
            value_of(spec)
        costs[name] = round((perf_counter() - started) / len(specs) * 1e6, 1)
        row(name, costs[name])
    load_zone.cache_clear()
    started = perf_counter()
    load_zone("Europe/Lisbon")
    costs["zone"] = round((perf_counter() - started) * 1e6, 1)
    row("first use of a zone", costs["zone"])
    return costs


def rrule_spec(minute: int, day: int) -> RecurrenceSpec:
    start = f"20200101T{minute % 24:02}{minute % 60:02}{minute // 60:02}Z"
    rule = f"FREQ=MONTHLY;BYMONTHDAY={day};BYMONTH={minute % 12 + 1}"
    text = f"DTSTART:{start}\nRRULE:{rule}"
    return RecurrenceSpec("rrule", text, tz="UTC")


def count_costs() -> dict[str, float]:
    print()
    row("COUNT bound over 60 years, µs", "onbeat", bar="100; 1000 with BYSETPOS or limits")
    costs = {}
    for rule in (
        "FREQ=DAILY;COUNT=21915",
        "FREQ=WEEKLY;BYDAY=MO,FR;COUNT=6260",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=720",
        "FREQ=HOURLY;BYHOUR=9,17;COUNT=20000",
        "FREQ=MINUTELY;COUNT=9000000",
    ):
        with_count = RecurrenceSpec("rrule", block(rule, None), tz="UTC")
        without = RecurrenceSpec("rrule", block(rule.rsplit(";", 1)[0], None), tz="UTC")
        costs[rule] = round(
            best(lambda spec=with_count: value_of(spec))
            - best(lambda spec=without: value_of(spec)),
            1,
        )
        row(rule, costs[rule])
    return costs


def never_costs() -> dict[str, float]:
    print()
    row("refusing what never fires, ms", "onbeat", bar="50")
    costs = {}
    for rule in NEVER:
        started = perf_counter()
        try:
            rrule(block(rule, None, "20210104T000000"))
        except BadRecurrence:
            costs[rule] = round((perf_counter() - started) * 1e3, 2)
        else:
            costs[rule] = -1
        row(rule, costs[rule])
    return costs


def age_ratios() -> dict[str, float]:
    print()
    row("DTSTART 1970 against yesterday, ratio", "onbeat", bar="1.5")
    ask = int(ASKED.timestamp()) * 1_000_000
    ratios = {}
    for rule in RULES:
        old = rrule(block(rule, NEW_YORK))
        new = rrule(block(rule, NEW_YORK, "20260519T090000"))
        # In turns, so that another program's load affects both alike.
        costs = [
            (
                best(lambda value=old: value.after_us(ask), 0.01, 3),
                best(lambda value=new: value.after_us(ask), 0.01, 3),
            )
            for _ in range(5)
        ]
        ratios[rule] = round(min(cost for cost, _ in costs) / min(two for _, two in costs), 2)
        row(rule, ratios[rule])
    return ratios


def mixed_cost() -> float:
    """A million next occurrences: 100,000 are measured, over 3,000 schedules, and scaled."""
    chance = random.Random(7)
    zones = [
        "UTC",
        NEW_YORK,
        "Europe/Berlin",
        "Asia/Kolkata",
        "Australia/Sydney",
        "America/Sao_Paulo",
    ]
    values = []
    for index in range(3000):
        zone = chance.choice(zones)
        if index % 3 == 0:
            values.append(cron(f"{chance.randrange(60)} {chance.randrange(24)} * * *", tz=zone))
        else:
            day = f"{chance.randrange(1990, 2026)}0{chance.randrange(1, 9)}1{chance.randrange(9)}"
            start = f"{day}T{chance.randrange(10, 24)}3000"
            values.append(rrule(block(chance.choice(list(RULES)), zone, start)))
    asks = [
        (
            chance.choice(values),
            int((ASKED + timedelta(seconds=chance.randrange(300 * 86400))).timestamp()) * 1_000_000,
        )
        for _ in range(100_000)
    ]
    started = perf_counter()
    for value, ask in asks:
        value.after_us(ask)
    seconds = round((perf_counter() - started) * 10, 2)
    print()
    row("a million mixed (100,000 measured, times 10), s", seconds, bar="15")
    return seconds


if __name__ == "__main__":
    main()
