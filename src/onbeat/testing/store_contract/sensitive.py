"""The payloads of sensitive jobs are not kept when the jobs end."""

from typing import Any, Final

import msgspec
import pytest

from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Cancelled, Outcome
from onbeat.model.target import CommandTarget, HandlerTarget, HttpTarget, MessageTarget, Target
from onbeat.ports.store import Store
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    SUCCESS,
    a_settlement,
    claim_jobs,
    run_and_end,
    stored_job,
)

CODE = msgspec.Raw(b'["482913"]')
TARGETS: Final[dict[str, tuple[Target, Target]]] = {
    "work": (HandlerTarget("work", CODE), HandlerTarget("work")),
    "@http": (
        HttpTarget("https://example.org/otp?code=482913", "POST", {"X-Code": "482913"}, "482913"),
        HttpTarget("https://example.org/otp", "POST"),
    ),
    "@message:mq": (
        MessageTarget("mq", "otp", CODE, {"code": "482913"}),
        MessageTarget("mq", "otp"),
    ),
    "@command:/bin/otp": (
        CommandTarget(("/bin/otp", "482913"), {"CODE": "482913"}, stdin="482913"),
        CommandTarget(("/bin/otp",)),
    ),
}


def a_secret(target: Target = TARGETS["work"][0], **fields: Any) -> Job:
    return msgspec.structs.replace(a_job(), target=target, sensitive=True, **fields)


class SensitiveContract:
    @pytest.mark.parametrize("lane", [*TARGETS])
    @pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Cancelled("enough")])
    async def test_the_payload_of_a_sensitive_job_goes_with_its_end(
        self, store: Store, lane: str, outcome: Outcome
    ) -> None:
        target, bare = TARGETS[lane]
        job = a_secret(target, labels={"kind": "otp"})
        await store.enqueue([job])
        (claimed,) = await claim_jobs(store, lanes=frozenset({lane}))
        assert claimed.target == target
        assert list(await store.settle([a_settlement(claimed, outcome)])) == [True]
        ended = await stored_job(store, job)
        assert (ended.target, ended.labels, ended.sensitive) == (bare, job.labels, True)

    async def test_the_payload_of_a_cancelled_sensitive_job_is_not_kept(self, store: Store) -> None:
        job = a_secret()
        await store.enqueue([job])
        await store.cancel([job.id], "by hand", NOW)
        ended = await stored_job(store, job)
        assert (ended.state, ended.target) == (JobState.CANCELLED, HandlerTarget("work"))

    async def test_a_sensitive_job_keeps_its_payload_until_its_end(self, store: Store) -> None:
        job = await run_and_end(store, a_secret(retry=IN_A_MINUTE), PASSING_FAILURE)
        assert job.state is JobState.WAITING
        assert job.target == TARGETS["work"][0]

    async def test_other_jobs_of_one_call_keep_theirs(self, store: Store) -> None:
        open_job = a_job(target=TARGETS["work"][0])
        await store.enqueue([open_job, a_secret(), a_job(unique='"sensitive"')])
        claimed = await claim_jobs(store)
        answers = await store.settle([a_settlement(job) for job in claimed])
        assert list(answers) == [True] * 3
        assert (await stored_job(store, open_job)).target == open_job.target
