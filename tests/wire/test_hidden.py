"""What answers show of sensitive jobs and of flows."""

import msgspec
import pytest

from onbeat.model.ids import JobId
from onbeat.model.job import Edge
from onbeat.model.target import CommandTarget, HttpTarget, MessageTarget, NotifyTarget, Target
from onbeat.testing.build import a_job
from onbeat.wire.flows import FlowCounts, FlowEdge, edges_between
from onbeat.wire.hidden import hidden_answer, hidden_target
from onbeat.wire.targets import target_answer

SECRET = "4711"


@pytest.mark.parametrize(
    "target",
    [
        a_job().target,
        HttpTarget(f"http://h/p?code={SECRET}", "POST", {"X-Code": SECRET}, SECRET),
        HttpTarget("http://h/p"),
        MessageTarget("mq", "q", msgspec.Raw(b"4711"), {"code": SECRET}),
        NotifyTarget(
            "mail", "ada@example.com", SECRET, SECRET, SECRET, data=msgspec.Raw(b'{"c":4711}')
        ),
        NotifyTarget("mail", "ada@example.com", template="code"),
        CommandTarget(("/bin/otp", SECRET), {"CODE": SECRET}, "/tmp", SECRET),
        CommandTarget(("/bin/otp",)),
    ],
)
def test_no_payload_of_a_target_is_shown(target: Target) -> None:
    answered = msgspec.json.encode(hidden_answer(target_answer(target))).decode()
    stored = msgspec.json.encode(hidden_target(target)).decode()
    for text in (answered, stored):
        assert SECRET not in text
    whom = {"@http": "http://h/p", "@message:mq": "mq", "@command": "/bin/otp"}
    assert any(name in answered for name in (*whom.values(), "work", "ada@example.com"))


def test_edges_are_by_job_and_by_all_that_were_sent() -> None:
    first, flow = JobId("first"), JobId("flow")
    job = a_job(after=(first,), edges={first: Edge.FAILURE, flow: Edge.END}, awaits_flow=flow)
    assert edges_between(job) == [
        FlowEdge(job.id, "first", Edge.FAILURE),
        FlowEdge(job.id, "sent", Edge.END),
    ]
    counts = FlowCounts(waiting=1, running=2, succeeded=3, failed=4, cancelled=5)
    assert (counts.total, counts.done) == (15, 12)
