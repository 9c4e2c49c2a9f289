"""A task whose failure is told to another one, which runs in a process of its own."""

from typing import Any

from onbeat import Event, Onbeat, Retry

beat = Onbeat("memory://")


@beat.task("shop.charge", retry=Retry(1))
def charge(order: int, *, currency: str) -> None:
    raise ValueError(f"no money for {order}, {currency}")


@beat.schedule(on="onbeat.job.failed", key="alarm")
@beat.task("alarm", isolation="process")
def alarm(event: Event[Any]) -> Any:
    assert event.job is not None
    return [event.job.task, event.job.args, event.job.kwargs]
