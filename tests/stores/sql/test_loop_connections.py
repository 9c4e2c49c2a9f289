"""Which work is tried again, and when a transaction is rolled back, on any database server."""

from collections.abc import Sequence
from typing import Any

import pytest

from onbeat.model.errors import Conflict, Unavailable
from onbeat.stores.sql.loop_connections import LoopConnections


class Lost(Exception):
    pass


class Deadlock(Exception):
    pass


class LockWait(Deadlock):
    pass


class Connection:
    def __init__(self) -> None:
        self.is_open = True


class FakeDriver:
    def __init__(self) -> None:
        self.statements: list[str] = []
        self.connected = 0

    async def connect(self) -> Connection:
        self.connected += 1
        return Connection()

    def is_open(self, connection: Connection) -> bool:
        return connection.is_open

    async def close(self, connection: Connection) -> None:
        connection.is_open = False

    def discard(self, connection: Connection) -> None:
        connection.is_open = False

    async def execute(self, connection: Connection, sql: str) -> None:
        self.statements.append(sql)

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, Lost)

    def is_conflict(self, error: BaseException) -> bool:
        return isinstance(error, Deadlock)

    def is_lock_wait(self, error: BaseException) -> bool:
        return isinstance(error, LockWait)

    def refusal(self, error: Exception) -> Exception:
        return self.unavailable(error) if isinstance(error, Lost | Deadlock) else error

    def unavailable(self, error: BaseException) -> Unavailable:
        answer = Unavailable(type(error).__name__)
        answer.__cause__ = error
        return answer


class FakeConnections(LoopConnections[Connection, Any]):
    keyed_max = 1
    tries_max = 4
    losses_max = 2
    pause_seconds = 0.0
    lock_seconds = 60.0
    begin_snapshot = ("BEGIN READ ONLY",)

    def __init__(self, driver: FakeDriver) -> None:
        super().__init__(driver, 1)
        self.announced = 0

    def _transaction(self, connection: Connection) -> Any:
        return connection

    def _announce(self, transaction: Any) -> None:
        self.announced += 1


class Work:
    """Raises these errors, one in each try, and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0

    async def __call__(self, transaction: Any) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def connections(driver: FakeDriver) -> FakeConnections:
    return FakeConnections(driver)


@pytest.mark.parametrize(
    "errors", [[Deadlock()] * 3, [LockWait()] * 3, [Lost()], [Deadlock(), Lost()]]
)
async def test_work_that_lost_a_conflict_or_an_idle_connection_is_tried_again(
    connections: FakeConnections, errors: Sequence[Exception]
) -> None:
    work = Work(*errors)
    assert await connections.transact(work) == "done"
    assert work.tries == len(errors) + 1
    assert connections.announced == 1


@pytest.mark.parametrize(("error", "tries"), [(Deadlock(), 4), (Lost(), 2)])
async def test_it_is_refused_in_the_end(
    connections: FakeConnections, error: Exception, tries: int
) -> None:
    work = Work(*[error] * 10)
    with pytest.raises(Unavailable) as refused:
        await connections.run(work)
    assert refused.value.__cause__ is error
    assert work.tries == tries
    assert connections.announced == 0


async def test_a_lock_is_not_waited_for_twice_as_long(
    connections: FakeConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeConnections, "lock_seconds", 0.0)
    work = Work(LockWait(), LockWait())
    with pytest.raises(Unavailable):
        await connections.run(work)
    assert work.tries == 1


async def test_a_refusal_of_the_work_itself_is_final(
    connections: FakeConnections, driver: FakeDriver
) -> None:
    work = Work(Conflict("taken"))
    with pytest.raises(Conflict):
        await connections.transact(work)
    assert work.tries == 1
    assert driver.statements == ["BEGIN", "ROLLBACK"]


async def test_nothing_is_rolled_back_on_a_lost_connection(
    connections: FakeConnections, driver: FakeDriver
) -> None:
    await connections.transact(Work(Lost()))
    assert driver.statements == ["BEGIN", "BEGIN", "COMMIT"]
    assert driver.connected == 2


async def test_a_snapshot_is_a_transaction_of_its_own_kind(
    connections: FakeConnections, driver: FakeDriver
) -> None:
    assert await connections.view(Work()) == "done"
    assert driver.statements == ["BEGIN READ ONLY", "COMMIT"]
