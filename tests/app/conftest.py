import pytest

from onbeat import Onbeat


@pytest.fixture(params=["memory", "sqlite"])
async def beat(request, tmp_path):
    """An Onbeat that does not run yet."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/onbeat.db"
    one = Onbeat(url)
    yield one
    await one.close()
    one.portal.close()
