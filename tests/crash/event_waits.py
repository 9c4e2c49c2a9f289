"""A task that waits for an event about its invoice."""

from onbeat import Context, Onbeat

beat = Onbeat()


@beat.task("invoice")
async def invoice(context: Context, number: int) -> object:
    event = await context.wait_for("invoice.reviewed", by=str(number), within="1h")
    return None if event is None else event.data
