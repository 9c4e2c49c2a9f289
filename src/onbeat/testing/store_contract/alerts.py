"""Alerts: each begins, is told and ends once, whoever watches."""

import asyncio
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.alert import Alert, AlertChange, AlertSilence
from onbeat.ports.store import Store
from onbeat.rules.alerts import RAISED, RESOLVED, raised_event, resolved_event
from onbeat.testing.build import DAY, MINUTE, NOW, SECOND
from onbeat.testing.store_contract.own_events import data_of, listen_for, published


def an_alert(key: str = "late:mail", at: datetime = NOW, *, is_announced: bool = False) -> Alert:
    return Alert(
        key=key,
        level="warn",
        text="Queue mail is late",
        detail=f"since {at:%H:%M:%S}",
        since=at,
        seen_at=at,
        is_announced=is_announced,
        queue="mail",
    )


def seen(alert: Alert) -> AlertChange:
    return AlertChange(to="seen", alert=alert)


def announced(alert: Alert) -> AlertChange:
    return AlertChange(to="announced", alert=alert, event=raised_event(alert))


def ended(alert: Alert, at: datetime) -> AlertChange:
    return AlertChange(to="ended", alert=alert, event=resolved_event(alert, at))


async def open_alerts(store: Store) -> list[Alert]:
    return list(await store.alerts(is_open=True, limit=100))


class AlertContract:
    async def test_an_alert_begins_is_announced_and_ends(self, store: Store) -> None:
        await listen_for(store, "onbeat.alert.*")
        first = an_alert()
        assert await store.note_alerts([seen(first)], NOW) == [seen(first)]
        assert await open_alerts(store) == [first]
        later = NOW + 15 * SECOND
        again = an_alert(at=later)
        assert await store.note_alerts([seen(again), announced(again)], later) == [announced(again)]
        (stored,) = await open_alerts(store)
        assert (stored.since, stored.seen_at, stored.is_announced) == (NOW, later, True)
        assert stored.detail == again.detail
        end = NOW + 2 * MINUTE
        assert await store.note_alerts([ended(stored, end)], end) == [ended(stored, end)]
        assert await open_alerts(store) == []
        (over,) = await store.alerts(is_open=False, limit=100)
        assert (over.key, over.since, over.ended_at) == ("late:mail", NOW, end)
        raised, resolved = await published(store)
        assert [(one.type, one.subject) for one in (raised, resolved)] == [
            (RAISED, "late:mail"),
            (RESOLVED, "late:mail"),
        ]
        assert data_of(resolved)["seconds"] == 120.0

    async def test_an_alert_that_comes_again_is_another(self, store: Store) -> None:
        await listen_for(store, "onbeat.alert.*")
        for begin in (NOW, NOW + DAY):
            alert = an_alert(at=begin)
            end = begin + MINUTE
            assert len(await store.note_alerts([seen(alert), announced(alert)], begin)) == 2
            assert len(await store.note_alerts([ended(alert, end)], end)) == 1
        assert [one.type for one in await published(store)] == [RAISED, RESOLVED] * 2
        (over,) = await store.alerts(is_open=False, limit=100)
        assert (over.since, over.times) == (NOW + DAY, 2)
        await store.note_alerts([seen(over)], NOW + 2 * DAY)
        await store.note_alerts([seen(an_alert())], NOW + 2 * DAY + SECOND)
        assert [one.times for one in await open_alerts(store)] == [3]

    async def test_nothing_is_written_where_no_schedule_asks(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.failed")
        alert = an_alert()
        await store.note_alerts([seen(alert), announced(alert)], NOW)
        assert await published(store) == []
        assert [one.is_announced for one in await open_alerts(store)] == [True]

    async def test_several_watchers_write_one_event(self, store: Store) -> None:
        await listen_for(store, "onbeat.alert.*")
        alerts = [an_alert(f"late:{name}") for name in "abc"]
        changes = [change for one in alerts for change in (seen(one), announced(one))]
        orders = (changes, changes[2:] + changes[:2], changes[4:] + changes[:4])
        begun = await asyncio.gather(*(store.note_alerts(order, NOW) for order in orders))
        assert sum(map(len, begun)) == 6
        assert len(await published(store)) == 3
        end = NOW + MINUTE
        ends = [ended(one, end) for one in alerts]
        made = await asyncio.gather(*(store.note_alerts(ends, end) for _ in range(3)))
        assert sum(map(len, made)) == 3
        assert len(await published(store)) == 6

    async def test_an_alert_that_another_has_seen_since_does_not_end(self, store: Store) -> None:
        alert = an_alert()
        await store.note_alerts([seen(alert)], NOW)
        await store.note_alerts([seen(alert)], NOW + MINUTE)
        assert await store.note_alerts([ended(alert, NOW + MINUTE)], NOW + MINUTE) == []
        # A watcher whose clock is behind takes nothing back.
        await store.note_alerts([seen(alert)], NOW + SECOND)
        (kept,) = await open_alerts(store)
        assert kept.seen_at == NOW + MINUTE

    async def test_what_is_not_open_is_neither_told_nor_ended(self, store: Store) -> None:
        await listen_for(store, "onbeat.alert.*")
        alert = an_alert()
        assert await store.note_alerts([announced(alert), ended(alert, NOW)], NOW) == []
        await store.note_alerts([seen(alert), ended(alert, NOW)], NOW)
        assert await store.note_alerts([announced(alert), ended(alert, NOW)], NOW) == []
        assert [one.type for one in await published(store)] == [RESOLVED]

    async def test_alerts_are_listed_newest_first_and_pruned(self, store: Store) -> None:
        for number in range(5):
            alert = an_alert(f"late:{number}", NOW + number * MINUTE)
            await store.note_alerts([seen(alert)], alert.since)
        assert [one.key for one in await store.alerts(is_open=True, limit=2)] == [
            "late:4",
            "late:3",
        ]
        for alert in (await open_alerts(store))[2:]:
            await store.note_alerts([ended(alert, alert.since + DAY)], alert.since + DAY)
        await store.add_silence(a_silence("1", NOW + MINUTE))
        await store.add_silence(a_silence("2", NOW + 9 * DAY))
        assert await store.prune_alerts(NOW + DAY, 10) == 1
        assert await store.prune_alerts(NOW + DAY + MINUTE, 10) == 1
        assert await store.prune_alerts(NOW + 2 * DAY, 10) == 2
        assert [one.key for one in await open_alerts(store)] == ["late:4", "late:3"]
        assert [one.id for one in await store.silences(NOW)] == ["2"]

    async def test_silences_hold_until_their_end(self, store: Store) -> None:
        later = replace(a_silence("1", NOW + DAY), starts_at=NOW + MINUTE)
        sooner = a_silence("2", NOW + MINUTE)
        await store.add_silence(later)
        await store.add_silence(sooner)
        assert list(await store.silences(NOW)) == [sooner, later]
        assert list(await store.silences(NOW + MINUTE)) == [later]
        assert await store.end_silence("1") is True
        assert await store.end_silence("1") is False
        assert list(await store.silences(NOW)) == [sooner]


def a_silence(id: str, until: datetime) -> AlertSilence:
    return AlertSilence(
        id=id, match="late:*", until=until, note="migration", made_by="ada", made_at=NOW
    )
