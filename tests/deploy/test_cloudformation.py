"""The stack of SQS: Onbeat, senders and workers do with its queues and rights what they must."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from aiohttp import web
from botocore.exceptions import ClientError

from deploy.start import DEPLOY
from onbeat.model.broker_options import SQS
from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Envelope
from onbeat.transports.sqs.broker import SqsBroker
from onbeat.wire.broker_messages import (
    DEAD,
    EVENTS,
    REPLIES,
    RESULTS,
    SUBMIT,
    run_queue,
    work_queue,
)
from transports.sqs import server
from transports.sqs.faulty_proxy import FaultyProxy

TEMPLATE = (DEPLOY / "cloudformation" / "sqs.yaml").read_text("utf-8")
REGION = "eu-central-1"
PREFIX = "shop-"
WORK, RUN = work_queue("mail"), run_queue("mail")
QUEUES = {SUBMIT, EVENTS, RESULTS, REPLIES, DEAD, WORK, RUN}


class Stack:
    """Its outputs, and a client of each service of AWS that it is about."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sqs = self.client("sqs")
        self.outputs = dict[str, str]()

    def client(self, service: str) -> Any:
        connect: Any = boto3.client  # its types know each service by its literal name
        return connect(service, region_name=REGION, endpoint_url=f"http://127.0.0.1:{self.port}")

    def deploy(self, name: str, **parameters: str) -> None:
        given = [
            {"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()
        ]
        formation = self.client("cloudformation")
        formation.create_stack(StackName=name, TemplateBody=TEMPLATE, Parameters=given)
        (stack,) = formation.describe_stacks(StackName=name)["Stacks"]
        assert stack["StackStatus"] == "CREATE_COMPLETE"
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}

    def statements(self, output: str) -> list[dict[str, Any]]:
        """Those of the policy that was made."""
        iam, arn = self.client("iam"), self.outputs[output]
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        made = iam.get_policy_version(PolicyArn=arn, VersionId=version)
        result: list[dict[str, Any]] = made["PolicyVersion"]["Document"]["Statement"]
        return result

    def attributes(self, queue: str) -> dict[str, str]:
        name = SqsBroker(self.outputs["Transport"]).config.queue_name(queue)
        url = self.sqs.get_queue_url(QueueName=name)["QueueUrl"]
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        result: dict[str, str] = answer["Attributes"]
        return result


class Gate(FaultyProxy):
    """Stands before SQS as IAM does: who has no right is refused."""

    def __init__(self, port: int, statements: list[dict[str, Any]]) -> None:
        super().__init__(port)
        self.statements = statements

    async def answer(self, request: web.Request) -> web.Response:
        action = "sqs:" + request.headers["x-amz-target"].rpartition(".")[2].removesuffix("Batch")
        body = await request.json()
        name = body.get("QueueName") or body["QueueUrl"].rpartition("/")[2]
        if not self.allows(action, name):
            message = {"__type": "com.amazonaws.sqs#AccessDenied", "message": f"{action} {name}"}
            return web.json_response(message, status=403)
        return await super().answer(request)

    def allows(self, action: str, queue: str) -> bool:
        return any(
            action in listed(statement["Action"])
            and any(is_of(queue, arn) for arn in listed(statement["Resource"]))
            for statement in self.statements
            if statement["Effect"] == "Allow"
        )


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def is_of(queue: str, arn: str) -> bool:
    pattern = re.escape(arn.rpartition(":")[2]).replace(r"\*", ".*")
    return re.fullmatch(pattern, queue) is not None


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with server.moto() as port:
        stack = Stack(port)
        stack.deploy("shop", Prefix=PREFIX, Queue="mail", Wait="1", CreateQueues="false")
        yield stack


@asynccontextmanager
async def broker_with(stack: Stack, output: str) -> AsyncIterator[SqsBroker]:
    """Onbeat's transport with the URL of the stack and the rights of this policy."""
    async with Gate(stack.port, stack.statements(output)) as gate:
        url = f"{stack.outputs['Transport']}&endpoint=http://127.0.0.1:{gate.port}"
        broker = SqsBroker(url)
        await broker.open()
        yield broker
        await broker.close()
        assert "CreateQueue" not in gate.seen


async def received(broker: SqsBroker, queue: str) -> bytes:
    async with broker.consumer(queue, 1) as consumer:
        (delivery,) = await consumer.receive(1, 30)
        await consumer.extend([delivery])
        await consumer.acknowledge([delivery])
    return delivery.body


def test_each_property_is_one_that_aws_knows() -> None:
    """cfn-lint knows them, offline; what stands in for AWS here takes any."""
    template = DEPLOY / "cloudformation" / "sqs.yaml"
    command = [str(Path(sys.executable).parent / "cfn-lint"), str(template)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_queues_are_those_that_onbeat_would_make(stack: Stack) -> None:
    urls = stack.sqs.list_queues(QueueNamePrefix=PREFIX)["QueueUrls"]
    assert len(urls) == len(QUEUES)
    dead = stack.attributes(DEAD)
    assert dead["MessageRetentionPeriod"] == "1209600"
    assert "RedrivePolicy" not in dead
    for queue in QUEUES - {DEAD}:
        made = stack.attributes(queue)
        policy = json.loads(made["RedrivePolicy"])
        assert policy["deadLetterTargetArn"] == dead["QueueArn"]
        assert str(policy["maxReceiveCount"]) == SQS.option("receives").default
        assert made["MessageRetentionPeriod"] == SQS.option("retention").default
        assert made["VisibilityTimeout"] == SQS.option("visibility").default
        assert made["ReceiveMessageWaitTimeSeconds"] == "1"


def test_the_transport_is_a_url_with_all_that_was_set(stack: Stack) -> None:
    config = SqsBroker(stack.outputs["Transport"]).config
    assert (config.region, config.prefix, config.wait) == (REGION, PREFIX, 1)
    assert str(config.retention) == SQS.option("retention").default


async def test_the_service_receives_and_sends_what_each_role_does(stack: Stack) -> None:
    async with (
        broker_with(stack, "ServicePolicyArn") as service,
        broker_with(stack, "WorkerPolicyArn") as worker,
        broker_with(stack, "SenderPolicyArn") as sender,
    ):
        await service.ping()
        await sender.publish(SUBMIT, [Envelope(body=b"submission", id="1")])
        assert await received(service, SUBMIT) == b"submission"
        await service.publish(REPLIES, [Envelope(body=b"answer", id="1")])
        assert await received(sender, REPLIES) == b"answer"
        await sender.publish(EVENTS, [Envelope(body=b"event", id="2")])
        assert await received(service, EVENTS) == b"event"
        await service.publish(WORK, [Envelope(body=b"call", id="3")])
        assert await received(worker, WORK) == b"call"
        await worker.publish(RESULTS, [Envelope(body=b"result", id="3")])
        assert await received(service, RESULTS) == b"result"
        await service.publish(RUN, [Envelope(body=b"announcement", id="4")])
        assert await received(service, RUN) == b"announcement"
        await service.publish(DEAD, [Envelope(body=b"dead", id="5")])


FORBIDDEN = {
    "SenderPolicyArn": [RESULTS, WORK, DEAD],
    "WorkerPolicyArn": [SUBMIT, WORK, DEAD],
    "ServicePolicyArn": [SUBMIT, RESULTS, work_queue("other")],
}


async def test_nobody_sends_where_he_must_not(stack: Stack) -> None:
    for output, queues in FORBIDDEN.items():
        async with broker_with(stack, output) as broker:
            for queue in queues:
                with pytest.raises(Unavailable, match="it refused the credentials"):
                    await broker.publish(queue, [Envelope(body=b"forged", id="1")])


@pytest.mark.parametrize(
    ("output", "queue"),
    [("SenderPolicyArn", SUBMIT), ("WorkerPolicyArn", RESULTS), ("ServicePolicyArn", WORK)],
)
def test_nobody_receives_what_is_for_others(stack: Stack, output: str, queue: str) -> None:
    gate = Gate(stack.port, stack.statements(output))
    name = SqsBroker(stack.outputs["Transport"]).config.queue_name(queue)
    assert gate.allows("sqs:SendMessage", name)
    assert not gate.allows("sqs:ReceiveMessage", name)
    assert not gate.allows("sqs:DeleteMessage", name)


def test_no_policy_has_a_right_on_every_queue(stack: Stack) -> None:
    for output in ("SenderPolicyArn", "WorkerPolicyArn", "ServicePolicyArn"):
        for statement in stack.statements(output):
            assert all("*" not in arn for arn in listed(statement["Resource"]))
            assert all("*" not in action for action in listed(statement["Action"]))
    assert "CreationPolicyArn" not in stack.outputs


async def test_onbeat_makes_what_is_missing_where_it_may(stack: Stack) -> None:
    mine = Stack(stack.port)
    mine.deploy("other", Prefix="other-", CreateQueues="true")
    statements = mine.statements("ServicePolicyArn") + mine.statements("CreationPolicyArn")
    async with Gate(mine.port, statements) as gate:
        url = f"{mine.outputs['Transport']}&endpoint=http://127.0.0.1:{gate.port}"
        broker = SqsBroker(url)
        await broker.open()
        await broker.publish(work_queue("bulk"), [Envelope(body=b"call", id="1")])
        await broker.close()
        assert len(gate.seen["CreateQueue"]) == 1
        assert not gate.allows("sqs:SendMessage", "shop-onbeat-submit")
        assert not gate.allows("sqs:DeleteQueue", "other-onbeat-submit")
    with pytest.raises(ClientError, match="NonExistentQueue"):
        mine.sqs.get_queue_url(QueueName="shop-onbeat-work-bulk")
