"""The driver's errors, of which a caller hears one."""

import pytest

from onbeat.model.errors import Unavailable
from onbeat.transports.amqp.driver_calls import call_driver


@pytest.mark.parametrize(
    "error", [OSError("reset"), EOFError(), RuntimeError("closed"), StopAsyncIteration()], ids=repr
)
async def test_a_lost_connection_is_a_broker_that_is_not_available(error: BaseException) -> None:
    async def call() -> None:
        raise error

    with pytest.raises(Unavailable, match="amqp://host is not available: ") as caught:
        await call_driver(call(), 1, "amqp://host")
    assert str(caught.value).endswith(str(error) or type(error).__name__)
    assert caught.value.__cause__ is error
