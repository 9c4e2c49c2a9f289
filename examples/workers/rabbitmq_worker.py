"""A worker that takes its jobs from RabbitMQ and uses only Onbeat's messages.

    python rabbitmq_worker.py [AMQP_URL] [PREFIX]

The work queue holds JSON-RPC calls, with the lease's token in a header; the answers go to the
results queue. A call is acknowledged after the broker has its answer: if a worker dies before that,
the call is delivered again, and only the answer of the current attempt is accepted. A call past its
deadline is dropped: its job comes again in a newer call.
"""

import asyncio
import json
import sys
from datetime import UTC, datetime

import aio_pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"
PREFIX = sys.argv[2] if len(sys.argv) > 2 else ""
WORK, RESULTS = f"{PREFIX}onbeat.work.default", f"{PREFIX}onbeat.results"
DEAD = {"x-dead-letter-exchange": f"{PREFIX}onbeat.dlx"}


async def export(objectID, format="csv"):  # noqa: N803  as the caller names it
    await asyncio.sleep(0)
    return {"file": f"{objectID}.{format}"}


TASKS = {"export": export}


async def answer(call):
    params = dict(call["params"])
    attempt = params.pop("attempt")
    if call["method"] not in TASKS:
        error = {"code": -32601, "message": f"no task {call['method']}", "attempt": attempt}
        return {"jsonrpc": "2.0", "error": error, "id": call["id"]}
    try:
        result = await TASKS[call["method"]](*params.pop("args", []), **params)
        return {"jsonrpc": "2.0", "result": {**result, "attempt": attempt}, "id": call["id"]}
    except Exception as error:  # noqa: BLE001  a failed attempt, whatever it was
        fields = {"code": 1, "message": f"{type(error).__name__}: {error}", "attempt": attempt}
        return {"jsonrpc": "2.0", "error": fields, "id": call["id"]}


def is_over(message):
    return datetime.fromisoformat(message.headers["onbeat-deadline"]) < datetime.now(UTC)


async def main():
    connection = await aio_pika.connect_robust(URL, reconnect_interval=1)
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=10)
    work = await channel.declare_queue(WORK, durable=True, arguments=DEAD)
    await channel.declare_queue(RESULTS, durable=True, arguments=DEAD)
    async with work.iterator() as messages:
        async for message in messages:
            if is_over(message):
                await message.ack()
                continue
            body = json.dumps(await answer(json.loads(message.body))).encode()
            headers = {"onbeat-token": message.headers["onbeat-token"]}
            result = aio_pika.Message(body, headers=headers, delivery_mode=2)
            await channel.default_exchange.publish(result, RESULTS)
            await message.ack()


if __name__ == "__main__":
    asyncio.run(main())
