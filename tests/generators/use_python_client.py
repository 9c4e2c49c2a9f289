"""Uses the generated Python client against a running service, as somebody would who has no Onbeat.

Run by `run.py` in an environment that holds the client and nothing of Onbeat.
"""

import sys
from http import HTTPStatus

from onbeat_client import Client
from onbeat_client.api.job import cancel_job, enqueue_jobs, explain_job, get_job, list_jobs
from onbeat_client.api.queue import limit_queue, list_queues, pause_queue, resume_queue
from onbeat_client.api.recurrence import preview_recurrence
from onbeat_client.api.schedule import (
    create_schedule,
    delete_schedule,
    get_pending_events,
    get_schedule,
    list_schedules,
    put_schedule,
    update_schedule,
)
from onbeat_client.api.stats import get_stats
from onbeat_client.models import (
    EnqueueBody,
    EnqueueBodyKwargs,
    JobBody,
    JobState,
    LimitBody,
    PreviewBody,
    ProblemAnswer,
    ReasonBody,
    ScheduleBody,
    TargetBody,
    TargetBodyKwargs,
)


def use_jobs(client):
    body = EnqueueBody(
        task="mail.welcome",
        args=[7, "x"],
        kwargs=EnqueueBodyKwargs.from_dict({"language": "de"}),
        delay="1h",
    )
    sent = enqueue_jobs.sync(client=client, body=body)
    result = get_job.sync(sent.id, client=client)
    assert result.target.args == [7, "x"], result
    assert result.target.kwargs.to_dict() == {"language": "de"}
    assert (result.state, result.attempts) == (JobState.WAITING, [])
    many = EnqueueBody(jobs=[JobBody(task="render"), JobBody(task="render", queue="slow")])
    assert len(enqueue_jobs.sync(client=client, body=many).ids) == 2
    listed = list_jobs.sync(client=client, state=JobState.WAITING, limit=2)
    assert (len(listed.jobs), listed.limit) == (2, 2)
    assert list_jobs.sync(client=client, cursor=listed.cursor).jobs[0].id == sent.id
    assert explain_job.sync(sent.id, client=client).code
    reason = ReasonBody(reason="no longer wanted")
    cancelled = cancel_job.sync(sent.id, client=client, body=reason)
    assert (cancelled.state, cancelled.reason) == (JobState.CANCELLED, "no longer wanted")


def use_schedules(client):
    target = TargetBody(task="mail.digest", kwargs=TargetBodyKwargs.from_dict({"team": 7}))
    body = ScheduleBody(name="digest", every="1h", target=target)
    made = create_schedule.sync(client=client, body=body)
    result = get_schedule.sync(made.id, client=client)
    assert (result.name, result.target.kwargs.to_dict()) == ("digest", {"team": 7})
    change = update_schedule.sync(made.id, client=client, body=ScheduleBody(every="2h"))
    assert change.message
    assert put_schedule.sync("digest", client=client, body=body).id != made.id
    assert list_schedules.sync(client=client, q="digest").total == 2
    assert get_pending_events.sync(made.id, client=client).events
    assert delete_schedule.sync(made.id, client=client).message


def use_others(client):
    preview = preview_recurrence.sync(client=client, body=PreviewBody(rrule="FREQ=DAILY", count=3))
    assert len(preview.occurrences) == 3
    assert pause_queue.sync("slow", client=client).paused is True
    assert resume_queue.sync("slow", client=client).paused is False
    assert limit_queue.sync("slow", client=client, body=LimitBody(concurrency=3)).name == "slow"
    assert "slow" in {queue.name for queue in list_queues.sync(client=client).queues}
    assert get_stats.sync(client=client) is not None


def use_errors(client):
    absent = get_job.sync_detailed("01900000-0000-7000-8000-00000000ffff", client=client)
    assert absent.status_code == HTTPStatus.NOT_FOUND
    assert isinstance(absent.parsed, ProblemAnswer)
    assert absent.parsed.error.code == "not_found"
    wrong = enqueue_jobs.sync_detailed(client=client, body=EnqueueBody(task="@http"))
    assert wrong.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert wrong.parsed.error.field == "task"


if __name__ == "__main__":
    with Client(base_url=sys.argv[1]) as here:
        for use in (use_jobs, use_schedules, use_others, use_errors):
            use(here)
            print(f"  {use.__name__.replace('_', ' ')}: ok")
