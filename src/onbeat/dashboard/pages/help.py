"""The keys of the keyboard, and where the same is done by command."""

from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer


async def help_page(viewer: Viewer) -> PageAnswer:
    viewer.check_parameters()
    return PageAnswer("help.html", "Keys", "", {})
