"""A broker, and how its messages are handled."""

from datetime import timedelta

import msgspec

from onbeat.engine.broker.dead_letters import DeadLetterPublisher
from onbeat.engine.broker.inbound import Answer
from onbeat.engine.broker.job_consumer import AddDeadLetter
from onbeat.engine.broker.remote import Decrypt, LoadFence, RemoteTasks
from onbeat.ports.transport import Broker


class BrokerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, and how its messages are handled.

    `remote` names the tasks that run on remote workers; their leases last `remote_lease`.
    """

    broker: Broker
    remote: RemoteTasks
    remote_lease: timedelta
    submit: Answer
    results: Answer
    events: Answer
    fence: LoadFence
    decrypt: Decrypt
    add_dead_letter: AddDeadLetter
    dead_letters: DeadLetterPublisher
