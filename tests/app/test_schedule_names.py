"""Schedules by key and by id, on a store and through a service."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from onbeat import NotFound, Onbeat, every

ABSENT = "01900000-0000-7000-8000-000000000000"
ID_FORMS = [ABSENT, ABSENT.replace("-", ""), "65f1c0ffee65f1c0ffee65f1", ABSENT.upper()]
VERBS = ("aget", "apause", "aresume", "atrigger", "adelete")


@pytest.fixture(params=["store", "service"])
async def schedules(request: pytest.FixtureRequest, service: Any) -> AsyncIterator[Any]:
    one = Onbeat(service if request.param == "service" else "memory://")
    yield one.schedules
    await one.aclose()


async def put(schedules: Any, key: str) -> str:
    """A schedule under this key; returns its id."""
    beat = Onbeat("memory://")

    @beat.task("add")
    async def add(a: int, b: int) -> int:
        return a + b

    id: str = await schedules.aput(key, every("1h"), add.call(1, 2), name="sums")
    return id


@pytest.mark.parametrize("by", ["key", "id", "digits", "capitals"])
async def test_every_verb_takes_either(schedules: Any, by: str) -> None:
    id = await put(schedules, "books")
    name = {"key": "books", "id": id, "digits": id.replace("-", ""), "capitals": id.upper()}[by]
    assert (await schedules.aget(name)).id == id
    await schedules.apause(name)
    assert (await schedules.aget(id)).status == "paused"
    await schedules.aresume(name)
    assert (await schedules.aget(id)).status == "active"
    assert await schedules.atrigger(name)
    await schedules.adelete(name)
    assert await schedules.alist() == ()


@pytest.mark.parametrize("key", ID_FORMS)
async def test_a_key_in_the_form_of_an_id_is_found_where_no_schedule_has_that_id(
    schedules: Any, key: str
) -> None:
    id = await put(schedules, key)
    assert (await schedules.aget(key)).id == id
    await schedules.apause(key)
    assert (await schedules.aget(id)).status == "paused"


async def test_an_id_comes_before_a_key(schedules: Any) -> None:
    id = await put(schedules, "books")
    other = await put(schedules, id)
    assert (await schedules.aget(id)).key == "books"
    assert (await schedules.aget(other)).key == id


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["books", ABSENT])
async def test_where_there_is_neither_the_error_names_both(
    schedules: Any, verb: str, name: str
) -> None:
    with pytest.raises(NotFound, match=f"no schedule has the id or key '{name}'"):
        await getattr(schedules, verb)(name)


async def test_a_key_is_found_in_a_service_behind_a_page_and_however_long_it_is(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.app.remote_backend.PAGE_LIMIT_MAX", 2)
    beat = Onbeat(service)
    long = "books " * 60
    keys = ["books", long.strip(), *(f"books {number}" for number in range(4))]
    ids = {key: await put(beat.schedules, key) for key in keys}
    assert {key: (await beat.schedules.aget(key)).id for key in keys} == ids
    with pytest.raises(NotFound):
        await beat.schedules.aget("book")
