"""More planted bugs of findings: of CH-7, of the start, use and end of a program, of simulations."""

from typing import Final

from planted.patches import MEMORY, Bug, bug

FINDINGS: Final[tuple[Bug, ...]] = (
    bug(
        "CH-7b",
        "a PostgreSQL that starts up is taken for a bad setting",
        (
            "stores/postgres/errors.py",
            "SETTING = (\n    asyncpg.ClientConfigurationError,\n",
            "SETTING = (\n    asyncpg.CannotConnectNowError,\n    asyncpg.ClientConfigurationError,\n",
        ),
        tests="interfaces/test_cli_start.py -k starts_up",
    ),
    bug(
        "CH-7d",
        "what an outage has put off comes back all at once",
        (
            "rules/circuit_breaker.py",
            "    if count < RAMP_JOBS_MIN:\n",
            "    if count < RAMP_JOBS_MIN * 1_000_000:\n",
        ),
        tests="rules/test_circuit_breaker.py",
    ),
    bug(
        "CH-7e",
        "a name server that does not answer costs attempts",
        (
            "targets/http_response.py",
            "    return isinstance(error, aiohttp.ClientConnectorDNSError) and error.errno in LOOKUP_TROUBLES\n",
            "    return isinstance(error, aiohttp.ClientConnectorDNSError) and error.errno == -99\n",
        ),
        tests="targets/test_shortage.py -k name_server",
    ),
    bug(
        "CH-7f",
        "the death of a process of this machine is waited for as if it were elsewhere",
        (
            "rules/liveness.py",
            "dict.fromkeys(ended, Evidence.LEFT) | dict.fromkeys(gone, Evidence.ENDED)\n",
            "{id: Evidence.ENDED for id in gone if id in silent}\n",
        ),
        tests="engine/test_rescuer.py",
    ),
    bug(
        "CH-7g",
        "a claim reads past everything that an old snapshot keeps",
        (
            "rules/claim_marks.py",
            "        if not self.marks or scope != self.scope or self.is_read_due(now):\n",
            "        if scope is not None or not self.marks or self.is_read_due(now):\n",
        ),
        tests="rules/test_claim_marks.py stores/postgres/test_claim_marks.py",
    ),
    bug(
        "A-1",
        "a program that gives no telemetry logs nothing",
        (
            "app/backend.py",
            "from onbeat.telemetry.log_events import LogEvents\n",
            "from onbeat.telemetry.composite import NullTelemetry\n",
        ),
        (
            "app/backend.py",
            'parts.get("telemetry") or LogEvents()\n',
            'parts.get("telemetry") or NullTelemetry()\n',
        ),
        tests="app/test_logging.py",
    ),
    bug(
        "A-3",
        "on PostgreSQL a short keep waits for the end of the day",
        (
            "stores/postgres/partitions.py",
            "    if max(ages) == NEVER:\n",
            "    if max(ages) >= NEVER:\n",
        ),
        tests="stores/postgres/test_schema.py -k keep_under_two_days",
    ),
    bug(
        "A-4",
        "options of the wrong kind are taken, and break at the stop",
        ("app/options.py", "        check_kinds(self)\n", ""),
        tests="app/test_options.py",
    ),
    bug(
        "A-10",
        "a pause is shown as a change",
        (
            "rules/plans.py",
            "    return PAUSED if edited.status is ScheduleStatus.PAUSED else CHANGED\n",
            "    return CHANGED if edited.status is ScheduleStatus.PAUSED else CHANGED\n",
        ),
        tests=f"{MEMORY} -k cancelled_by_a_pause",
    ),
    bug(
        "A-19",
        "a submission that is dropped as known is not counted",
        (
            "operations/jobs.py",
            "    if added < len(stored):\n",
            "    if added > len(stored):\n",
        ),
        tests="operations/test_jobs.py operations/test_submissions.py -k duplicate or sent",
    ),
    bug(
        "B-3",
        "messages go on to a broker that is away, as if it had answered",
        (
            "targets/message.py",
            "            call.fail(str(error))\n",
            "            call.succeed()\n",
        ),
        tests="targets/test_message.py",
    ),
    bug(
        "B-3b",
        "each message connects for itself to a broker that is away",
        (
            "targets/message.py",
            "self.asking = self.asking or asyncio.create_task(self.broker.ping())\n",
            "self.asking = asyncio.create_task(self.broker.ping())\n",
        ),
        tests="targets/test_message.py",
    ),
    bug(
        "ECO-B2",
        "a file that has the tables of an application is refused",
        (
            "stores/sqlite/migrate.py",
            "        if entry.name.lower() in ours:\n",
            "        if entry.name.lower() not in ours:\n",
        ),
        tests="stores/sqlite/test_applications.py",
    ),
    bug(
        "ECO-B6",
        "instants at the edge of time overflow",
        (
            "rules/calendar.py",
            "    except OverflowError:\n",
            "    except ZeroDivisionError:\n",
        ),
        tests="interfaces/test_edges_of_time.py",
    ),
    bug(
        "SIM-1",
        "a job that the worker has handed back begins when the answer to its claim comes",
        (
            "engine/worker.py",
            "            jobs = [job for job in jobs if job not in self.handed_back]\n",
            "",
        ),
        tests="engine/test_worker.py -k handed_back",
    ),
    bug(
        "SIM-2",
        "a planner plans what another one has planned since, and what has been pruned",
        (
            "rules/plans.py",
            "    return plan.version == version and is_next\n",
            "    return plan.version == version\n",
        ),
        tests=f"{MEMORY} -k slower_planner",
    ),
)
