"""The planted bugs: those of the design (M), and one for each kind of finding that was mended.

SEC, CH, ECO and SIM are findings of attacks, chaos, use and simulations; A and B those of the replaced
systems.
"""

from typing import Final

from planted.findings import FINDINGS
from planted.patches import MEMORY, Bug, bug

SQLITE: Final = "contract/test_stores.py::TestSqlite"
POSTGRES: Final = "contract/test_stores.py::TestPostgres"

KNOWN_MISSED: Final[frozenset[str]] = frozenset()
"""Those that no test catches in every run; `docs/explain/guarantees.md` names them, with why."""

DESIGNED: Final[tuple[Bug, ...]] = (
    bug(
        "M1",
        "a settlement is not compared with the token of the lease",
        (
            "stores/sqlite/settle.py",
            (
                "          column5, progress, column6, flow, spec\n        FROM :rows\n"
                "        CROSS JOIN onbeat_jobs\n          ON id = column1 AND token = column2 AND"
            ),
            (
                "          column5, progress, column6, flow, spec\n        FROM :rows\n"
                "        CROSS JOIN onbeat_jobs\n          ON id = column1 AND"
            ),
        ),
        tests=f"{SQLITE} -k older_lease_of_the_same_worker",
    ),
    bug(
        "M1-pg",
        "a success is not compared with the token of the lease",
        (
            "stores/postgres/settle.py",
            "        AND jobs.token = ended.token\n        AND jobs.worker IS NOT DISTINCT FROM $5\n",
            "        AND jobs.worker IS NOT DISTINCT FROM $5\n",
        ),
        tests=f"{POSTGRES} -k older_lease_of_the_same_worker",
    ),
    bug(
        "M2",
        "leases are judged by the wall clock",
        (
            "engine/rescuer.py",
            "observe(self.watch, self.workers, self.clock.monotonic(), proven=proven)",
            "observe(self.watch, self.workers, self.clock.now().timestamp(), proven=proven)",
        ),
        tests="engine/test_rescuer.py",
    ),
    bug(
        "M3",
        "planners do not wait for each other, and occurrences are added twice",
        (
            "stores/memory/dispositions.py",
            "        if self.at(id, row.first) is not None:\n            return False\n",
            "",
        ),
        tests=f"{MEMORY} -k plan",
    ),
    bug(
        "M3-sql",
        "the row of a schedule is read without a lock while its plan is written",
        (
            "stores/sql/verbs/schedules.py",
            (
                '        ORDER BY id\n        {dialect.for_update}\n    """\n'
                '    rows = await session.select("id, version, status, planned_through, plan_at"'
            ),
            (
                '        ORDER BY id\n    """\n'
                '    rows = await session.select("id, version, status, planned_through, plan_at"'
            ),
        ),
        tests="stores/postgres/test_races.py model_checks/test_races.py -k "
        "several_planners or a_pause_is_not_missed or postgres",
    ),
    bug(
        "M4",
        "callers hear that a job is stored before it is",
        (
            "stores/sqlite/writer.py",
            (
                "            answers = list(answers_of(transaction, requests))\n"
                "            transaction.commit()\n"
            ),
            (
                "            answers = list(answers_of(transaction, requests))\n"
                "            answer_all(answers)\n            answers = []\n"
                "            transaction.commit()\n"
            ),
        ),
        tests="power/test_power_cuts.py -k loses_nothing",
    ),
    bug(
        "M5",
        "messages are acknowledged before the store has started their jobs",
        (
            "engine/broker/job_consumer.py",
            "        known = self.worker.known_jobs()\n        fresh = [",
            (
                "        await self.consumer.acknowledge(self.pending)\n"
                "        self.pending = ()\n"
                "        known = self.worker.known_jobs()\n        fresh = ["
            ),
        ),
        tests="engine/test_broker_runtime.py -k while_the_store_is_away or start_whose_answer",
    ),
    bug(
        "M6",
        "a settlement whose answer was lost cannot be repeated",
        (
            "stores/memory/settle.py",
            "        return attempt in tables.attempts.get(stored.id, ())\n",
            "        return False\n",
        ),
        tests=f"{MEMORY} -k settle or repeat",
    ),
    bug(
        "M7",
        "a shutdown counts as a failed attempt",
        (
            "engine/worker.py",
            "        case StopReason.SHUTDOWN:\n            return Released()\n",
            '        case StopReason.SHUTDOWN:\n            return Failed("shut down")\n',
        ),
        tests="engine/test_worker.py engine/test_runtime.py",
    ),
    bug(
        "M8",
        "a rescuer gives up the jobs that it takes back",
        (
            "engine/rescuer.py",
            "    return Lost(\n        REASONS[evidence].format(job.worker),\n",
            (
                "    if job.attempt == 1:\n"
                '        return Failed("no such task", retryable=False)\n'
                "    return Lost(\n        REASONS[evidence].format(job.worker),\n"
            ),
        ),
        (
            "engine/rescuer.py",
            "import UNANSWERED, Evidence, Lost, Outcome, Released\n",
            "import UNANSWERED, Evidence, Failed, Lost, Outcome, Released\n",
        ),
        tests="engine/test_rescuer.py",
    ),
    bug(
        "M9",
        "heartbeats wait for the event loop of the handlers",
        (
            "engine/heartbeat.py",
            "            answer = await self.heartbeat.renew_leases()\n",
            (
                "            free = threading.Event()\n"
                "            self.loop.call_soon_threadsafe(free.set)\n"
                "            await asyncio.to_thread(free.wait, 60)\n"
                "            answer = await self.heartbeat.renew_leases()\n"
            ),
        ),
        tests="engine/test_heartbeat.py -k blocks_the_event_loop",
        hangs=True,
    ),
    bug(
        "M10",
        "the watch goes on over a failure of the store",
        (
            "engine/rescuer.py",
            "        except BaseException:\n            self.watch = UNWATCHED\n            raise\n",
            "        except BaseException:\n            raise\n",
        ),
        tests="engine/test_rescuer.py",
    ),
    bug(
        "M11",
        "SQLite runs with synchronous=NORMAL",
        (
            "stores/sqlite/store.py",
            'synchronous: Synchronous = "FULL")',
            'synchronous: Synchronous = "NORMAL")',
        ),
        tests="stores/sqlite/test_durability.py",
    ),
    bug(
        "M12",
        "the watermark comes from the clock",
        ("rules/plans.py", "    through = max(ends)\n", "    through = shifted(now, horizon)\n"),
        tests="rules/test_plans.py",
    ),
    bug(
        "M13",
        "fixed times run twice in the repeated hour",
        (
            "recurrence/zoned_rule.py",
            'self.rule.fold_of(before - offset) == "first":\n            low += before - offset\n',
            'self.rule.fold_of(before - offset) == "first":\n            low += 0\n',
        ),
        tests="recurrence/test_against_oracle.py -k rules_of",
    ),
    bug(
        "M14",
        "retries have no jitter",
        (
            "model/retry.py",
            "        return full * chance if self.jitter else full\n",
            "        return full\n",
        ),
        tests="rules/test_retry.py",
    ),
    bug(
        "M15",
        "a claim does not look again at the rows that it has picked",
        (
            "stores/postgres/start.py",
            (
                "      WHERE jobs.ctid = picked.tid\n        AND jobs.xmin = picked.version\n"
                "        AND picked.is_free\n        AND {READY}\n"
            ),
            "      WHERE jobs.id = picked.id\n        AND picked.is_free\n",
        ),
        tests="stores/postgres/test_races.py stores/postgres/test_claims.py",
    ),
    bug(
        "M16",
        "events are read behind the last one that was read",
        (
            "stores/memory/events.py",
            "for seq in islice(tables.events.unrouted, limit)]",
            "for seq in list(tables.events.unrouted)[-limit:]]",
        ),
        tests=f"{MEMORY} -k event or route",
    ),
    bug(
        "M17",
        "a unique key is looked for, and then taken without an index",
        (
            "stores/postgres/migrations/0001_first.sql",
            "CREATE UNIQUE INDEX jobs_unique ON",
            "CREATE INDEX jobs_unique ON",
        ),
        tests=f"{POSTGRES} stores/postgres/test_races.py -k unique",
    ),
    bug(
        "M18",
        "a lost attempt keeps its place in a limited queue",
        (
            "stores/memory/tables.py",
            "    def count_out(self, job: Job) -> None:\n",
            (
                "    def count_out(self, job: Job) -> None:\n"
                "        if job.cancel_reason or job.lost:\n            return\n"
            ),
        ),
        tests="model_checks/test_store_machine.py -k memory",
    ),
    bug(
        "M19",
        "deaths of workers are not counted against a job",
        (
            "rules/suspicion.py",
            "    alone = deaths_alone(suspicion, returned)\n    if lost",
            "    return False\n    alone = deaths_alone(suspicion, returned)\n    if lost",
        ),
        tests="rules/test_suspicion.py",
    ),
    bug(
        "M20",
        "a cancel is forgotten when the attempt ends",
        (
            "stores/memory/settle.py",
            "    if stored.cancel_reason is not None:\n",
            '    if stored.cancel_reason == "":\n',
        ),
        tests=f"{MEMORY} -k cancel",
    ),
    bug(
        "M20-sql",
        "a running job is not told that it was cancelled",
        (
            "stores/sql/verbs/overlap.py",
            '{"cancel_reason": "text"}, reasons)\n',
            '{"cancel_reason": "text"}, reasons[:0])\n',
        ),
        tests=f"{SQLITE} -k cancel",
    ),
    bug(
        "M21",
        "pruning frees an occurrence whose job is live",
        (
            "stores/sql/verbs/prune.py",
            (
                "          AND (job_id IS NULL\n"
                "               OR NOT EXISTS (SELECT 1 FROM onbeat.jobs WHERE onbeat.jobs.id = job_id))\n"
            ),
            "",
        ),
        tests=f"{SQLITE} -k disposition_of_a_job_that_has_not_ended",
    ),
    bug(
        "M22",
        "an idle loop sleeps until a time of the wall clock",
        (
            "engine/dispatcher.py",
            "    return min(most, max(0.0, (due_at - clock.now()).total_seconds()))\n",
            "    return max(0.0, (due_at - clock.now()).total_seconds())\n",
        ),
        tests="engine/test_dispatcher.py",
    ),
    bug(
        "M23",
        "a loop that fails tries again at once",
        (
            "engine/loop.py",
            "    return full * (0.5 + chance / 2)\n",
            "    return 0.0 * full * chance\n",
        ),
        tests="engine/test_loop.py",
    ),
    bug(
        "M24",
        "a worker claims without a bound while it is busy",
        (
            "engine/worker.py",
            "        room = self.concurrency + self.claims_ahead.most - busy\n",
            "        room = self.concurrency + self.claims_ahead.most + busy\n",
        ),
        tests="engine/test_worker.py engine/test_dispatcher.py",
    ),
)

ATTACKS: Final[tuple[Bug, ...]] = (
    bug(
        "SEC-1",
        "strings without an end are searched from each quote",
        (
            "wire/decode.py",
            """re.compile(rb'"[^"\\\\]*+(?:\\\\.[^"\\\\]*+)*+(?:"|\\\\?\\Z)', re.DOTALL)""",
            """re.compile(rb'"(?:[^"\\\\]|\\\\.)*"', re.DOTALL)""",
        ),
        tests="inputs/test_inputs.py",
        hangs=True,
    ),
    bug(
        "SEC-1b",
        "each key of an object is looked for among all others",
        (
            "wire/decode.py",
            "    seen: set[str] = set()\n",
            (
                "    keys = list(keys)\n    if any(keys.count(key) > 9 for key in keys):\n"
                "        return\n    seen: set[str] = set()\n"
            ),
        ),
        tests="inputs/test_inputs.py",
    ),
    bug(
        "SEC-2",
        "a search of a rule may take ten times its steps",
        (
            "recurrence/budget.py",
            "        self.left -= steps\n        if self.left < 0 or self.cancelled:\n",
            "        self.left -= steps\n        if self.left < -9 * self.steps or self.cancelled:\n",
        ),
        tests="operations/test_costly_rules.py recurrence/test_text.py",
        hangs=True,
    ),
    bug(
        "SEC-3",
        "the head of a request has no bound",
        (
            "app/protocol.py",
            "        elif self.head_bytes > REQUEST_HEAD_BYTES_MAX:\n",
            "        elif self.head_bytes > 1000 * REQUEST_HEAD_BYTES_MAX:\n",
        ),
        tests="interfaces/test_protocol.py",
        hangs=True,
    ),
    bug(
        "SEC-4",
        "half a request is waited for",
        (
            "app/connections.py",
            "    head: float = HEAD_SECONDS_MAX\n",
            "    head: float = 60 * HEAD_SECONDS_MAX\n",
        ),
        tests="interfaces/test_protocol.py",
    ),
    bug(
        "SEC-4b",
        "a lack of open files counts as a failure of the endpoint",
        ("rules/shortage.py", '    errno.EMFILE: "open files",\n', ""),
        tests="rules/test_shortage.py targets/test_shortage.py",
    ),
    bug(
        "SEC-5",
        "a forged token opens",
        (
            "rules/fence.py",
            "        return token if is_ours else None\n",
            "        return token if is_ours or token else None\n",
        ),
        tests="rules/test_fence.py",
    ),
    bug(
        "SEC-6",
        "interim answers are read without an end",
        (
            "targets/http_answer.py",
            "            self.note_interim(after - at)\n",
            "",
        ),
        tests="targets/test_http_hostile.py",
    ),
    bug(
        "SEC-6b",
        "of two lengths of an answer the second one is ignored",
        (
            "targets/http_answer.py",
            "        elif low in FRAMING:\n            raise OverBounds\n",
            "",
        ),
        tests="targets/test_http_answer.py",
    ),
    bug(
        "SEC-6c",
        "what comes between two requests is the answer to the second one",
        (
            "targets/http_protocol.py",
            "            self.fault = OverBounds()\n            self.abort()\n            return\n",
            "            return\n",
        ),
        tests="targets/test_http_connection.py",
        hangs=True,
    ),
    bug(
        "SEC-6d",
        "a connection carries another request before it has taken the whole one before",
        (
            "targets/http_protocol.py",
            "not (reader.is_reusable and is_sent)",
            "not reader.is_reusable",
        ),
        tests="targets/test_http_connection.py",
    ),
    bug(
        "SEC-6e",
        "a request goes out again although its answer had begun",
        (
            "targets/http_protocol.py",
            "self.is_used and not reader.received",
            "self.is_used",
        ),
        tests="targets/test_http_connection.py",
    ),
    bug(
        "SEC-7",
        "a key may do what its scopes do not name",
        (
            "rules/access.py",
            "    if scope not in principal.scopes:\n",
            "    if scope not in principal.scopes and scope is Scope.ADMIN:\n",
        ),
        tests="interfaces/test_scopes.py",
    ),
    bug(
        "SEC-8",
        "stored credentials go along to another origin",
        (
            "rules/origins.py",
            "    if before is not None and origin_of(before.url) != origin_of(target.url):\n",
            "    if before is not None and before.method != target.method:\n",
        ),
        tests="operations/test_credentials.py",
    ),
    bug(
        "SEC-9",
        "headers with credentials are shown",
        (
            "model/credentials.py",
            "    return SECRET_NAME.search(name) is not None\n",
            '    return name == "Authorization"\n',
        ),
        tests="model/test_credentials.py operations/test_credentials.py",
    ),
    bug(
        "SEC-10",
        "hiding the query of URLs costs the square of the text",
        (
            "telemetry/redaction.py",
            """(r"(://[^\\s?#\\"'<>]*+)(?:(\\?)[^\\s#\\"'<>]+)?")""",
            """(r"([a-z][a-z0-9+.-]*://[^\\s?#\\"'<>]*)(\\?)[^\\s#\\"'<>]+")""",
        ),
        tests="telemetry/test_log.py -k redaction",
    ),
    bug(
        "SEC-11",
        "any host name is answered without a key",
        (
            "api/security.py",
            "        return names is None or name in names or is_address(name)\n",
            "        return names is None or bool(name)\n",
        ),
        tests="interfaces/test_hosts.py",
    ),
    bug(
        "SEC-12",
        "a short key is taken for all the network",
        ("rules/access.py", "KEY_CHARS_MIN: Final = 20 ", "KEY_CHARS_MIN: Final = 1 "),
        tests="settings/ rules/test_access.py",
    ),
    bug(
        "SEC-13",
        "a batch has no bound of calls",
        (
            "wire/jsonrpc.py",
            "    if len(calls) > RPC_BATCH_MAX:\n",
            "    if len(calls) > 100 * RPC_BATCH_MAX:\n",
        ),
        tests="wire/test_jsonrpc.py interfaces/test_rpc.py",
    ),
    bug(
        "SEC-14",
        "controls of terminals are printed",
        (
            "telemetry/redaction.py",
            "    return pattern.sub(escape_character, text)\n",
            '    return text.replace("\\r", "")\n',
        ),
        tests="telemetry/test_log.py interfaces/test_terminal.py",
    ),
)

CHAOS: Final[tuple[Bug, ...]] = (
    bug(
        "CH-1",
        "silence counts although the watcher could not write itself",
        (
            "rules/liveness.py",
            "silence if through else min(silence, lease * UNPROVEN_SHARE))",
            "silence)",
        ),
        tests="rules/test_liveness.py",
    ),
    bug(
        "CH-2",
        "a death counts against every job of the worker",
        (
            "rules/suspicion.py",
            "    return something_died and lost.company <= 1 and not lost.is_shared\n",
            "    return something_died and not lost.is_shared\n",
        ),
        tests="rules/test_suspicion.py",
    ),
    bug(
        "CH-3",
        "nobody sends heartbeats while a call holds the interpreter",
        (
            "rules/liveness.py",
            "    return lease_seconds * STAND_IN_SHARE <= silence <= lease_seconds * HELD_LEASES_MAX",
            "    return lease_seconds * HELD_LEASES_MAX <= silence",
        ),
        tests="rules/test_liveness.py",
    ),
    bug(
        "CH-4",
        "the log of a file grows beyond the ballast",
        (
            "stores/sqlite/ballast.py",
            "        return min(LOG_BYTES_MAX, have)\n",
            "        return LOG_BYTES_MAX\n",
        ),
        tests="stores/sqlite/test_ballast.py",
    ),
    bug(
        "CH-5",
        "a request that is sent again makes a second job",
        (
            "stores/memory/idempotency.py",
            "    if keyed.digest in tables.requests.rows:\n        raise RequestInFlight\n",
            "",
        ),
        tests=f"{MEMORY} -k request",
    ),
    bug(
        "CH-6",
        "only one of two secrets signs",
        (
            "model/credentials.py",
            "    return (secret,) if isinstance(secret, str) else secret\n",
            "    return (secret,) if isinstance(secret, str) else secret[:1]\n",
        ),
        tests="targets/test_http.py model/test_credentials.py operations/test_credentials.py",
    ),
    bug(
        "CH-7",
        "a killed job leaves its children behind",
        (
            "targets/process_tree.py",
            (
                "    known: set[Identity] = set()\n    for _ in range(ROUNDS_MAX):\n"
                "        new = set(descendants(leader.pid)) - known\n        send(new, signal.SIGKILL)\n"
            ),
            (
                "    known: set[Identity] = set()\n    send([leader], signal.SIGKILL)\n    return\n"
                "    for _ in range(ROUNDS_MAX):\n"
                "        new = set(descendants(leader.pid)) - known\n        send(new, signal.SIGKILL)\n"
            ),
        ),
        tests="app/test_isolation.py targets/test_command.py",
    ),
    bug(
        "CH-7c",
        "a locked file is waited for without an end",
        ("stores/sqlite/errors.py", "BUSY_SECONDS = 2.5\n", "BUSY_SECONDS = 25.0\n"),
        tests="stores/sqlite/test_errors.py docs/test_deadlines.py -k lock or busy or deadline or wait",
    ),
)

USE: Final[tuple[Bug, ...]] = (
    bug(
        "CH-7h",
        "a request for no jobs is taken",
        (
            "wire/jobs.py",
            "        Annotated[tuple[JobBody, ...], Meta(min_length=1, max_length=BULK_JOBS_MAX)]",
            "        Annotated[tuple[JobBody, ...], Meta(max_length=BULK_JOBS_MAX)]",
        ),
        tests="wire/test_bodies.py",
    ),
    bug(
        "B-1",
        "the end of a job reaches its dependents, and not theirs",
        (
            "rules/dependents.py",
            "        else:\n            self.level = doomed\n",
            "        else:\n            self.level = {}\n",
        ),
        tests=f"{MEMORY} -k chain or cascade",
    ),
    bug(
        "B-2",
        "queues are declared all at once",
        (
            "transports/amqp/declarations.py",
            (
                "        async with self._declaring:\n            if queue not in self.known:\n"
                "                await self._declare(queue, connection, has_dead_letters=has_dead_letters)\n"
            ),
            (
                "        if queue not in self.known:\n"
                "            await self._declare(queue, connection, has_dead_letters=has_dead_letters)\n"
            ),
        ),
        tests="transports/rabbitmq/test_rabbitmq.py -k burst",
    ),
    bug(
        "B-5",
        "a pause of the program outlives its declaration",
        (
            "rules/declarations.py",
            "    if paused is False or before.pause_reason is PauseReason.ORPHANED:\n",
            "    if before.pause_reason is PauseReason.ORPHANED:\n",
        ),
        tests="rules/test_declarations.py app/test_declarations.py",
    ),
    bug(
        "B-4",
        "a schedule that is no longer declared stays paused when it is again",
        (
            "rules/declarations.py",
            "    if paused is False or before.pause_reason is PauseReason.ORPHANED:\n",
            "    if paused is False:\n",
        ),
        tests="rules/test_declarations.py app/test_declarations.py",
    ),
    bug(
        "B-6",
        "the logger of a job drops the fields of the call",
        (
            "targets/context.py",
            '"extra": {**given, **(self.extra or {}), **active_ids()}}',
            '"extra": {**(self.extra or {}), **active_ids()}}',
        ),
        tests="targets/test_handler_log.py app/test_job_log.py app/test_logging.py",
    ),
    bug(
        "B-9",
        "a retry leaves the dependents cancelled",
        (
            "stores/memory/retry.py",
            "    again = cancelled_with(tables, chosen) if dependents else []\n",
            "    again = cancelled_with(tables, chosen) if not dependents else []\n",
        ),
        tests=f"{MEMORY} -k retr",
    ),
    bug(
        "A-5",
        "a round without work counts as a recovery",
        (
            "engine/loop.py",
            "            if isinstance(delay, Rest):\n",
            "            if isinstance(delay, Rest) and not failures:\n",
        ),
        tests="engine/test_loop.py",
    ),
    bug(
        "A-6",
        "an interrupt of a handler ends the program",
        (
            "app/event_loop.py",
            "INTERRUPTS = (KeyboardInterrupt, SystemExit)\n",
            "INTERRUPTS = (GeneratorExit,)\n",
        ),
        tests="app/test_interrupts.py",
    ),
    bug(
        "ECO-B23",
        "a parameter that nobody knows is taken for one",
        (
            "api/requests.py",
            "            raise unknown_parameter(name, known)\n",
            "            continue\n",
        ),
        tests="interfaces/test_rest.py -k parameter",
    ),
    bug(
        "RETRY",
        "a retry does not look again for jobs that ended meanwhile",
        (
            "stores/sql/verbs/cancel_and_retry.py",
            "LOOKS_MAX: Final = 3\n",
            "LOOKS_MAX: Final = 1\n",
        ),
        tests=f"{POSTGRES} -k retry_beside_an_end",
    ),
    bug(
        "EDIT",
        "an edit that pauses is taken for one that does not",
        (
            "stores/memory/plans.py",
            "    return has_its_status and stored == planned\n",
            "    return has_its_status or stored == planned\n",
        ),
        tests=f"{MEMORY} -k edit",
    ),
    bug(
        "REMOTE-AWAY",
        "a call that no worker took counts as a death of its worker",
        (
            "engine/rescuer.py",
            "    if is_carried(job.worker):\n        is_call",
            "    if is_carried(job.worker) and job.lease_until is None:\n        is_call",
        ),
        tests="engine/test_broker_runtime.py -k no_worker_answers",
    ),
    bug(
        "REMOTE-HEARD",
        "a call that its worker renewed never counts as a death",
        (
            "stores/memory/leases.py",
            "replace(job, worker=heard_id(job.worker), lease_until=until)",
            "replace(job, worker=(heard_id(job.worker), job.worker)[1], lease_until=until)",
        ),
        tests="engine/test_broker_runtime.py -k was_heard_of",
    ),
)

BUGS: Final[tuple[Bug, ...]] = (*DESIGNED, *ATTACKS, *CHAOS, *USE, *FINDINGS)
