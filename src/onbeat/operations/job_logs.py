"""What the handler of a job logged."""

from onbeat.operations.context import OperationContext
from onbeat.operations.jobs import get_job
from onbeat.wire.job_logs import JobLogAnswer, ShowJobLog, log_line_answer


async def show(context: OperationContext, request: ShowJobLog) -> JobLogAnswer:
    """The kept lines, in the order in which they were logged. Raises `NotFound`."""
    job = await get_job(context, request.id)
    lines = await context.store.log_lines(job.id, request.after, request.limit + 1, request.attempt)
    shown = tuple(map(log_line_answer, lines[: request.limit]))
    is_more = len(lines) > request.limit
    return JobLogAnswer(
        lines=shown, limit=request.limit, after=shown[-1].number if is_more else None
    )
