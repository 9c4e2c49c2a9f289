"""Who runs jobs, and what each runs now."""

from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.operations.tables.fleet import WORKER_LIST


async def workers_page(viewer: Viewer) -> PageAnswer:
    answer = await viewer.ask_as_here(WORKER_LIST)
    values = {"workers": answer.workers, "remote": answer.remote}
    return PageAnswer("workers.html", "Workers", "workers", values)
