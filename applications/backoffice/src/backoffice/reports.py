"""Messages to `failed_payments`, one for each bill that has failed for good.

The message about an invoice is stored by the transaction that gives it up, so there is one for each
such end, whatever becomes of the job. That no answer came is none: the bill is still charged.
"""

from dataclasses import asdict
from typing import Final

from backoffice.environment import BROKER, DISTRIBUTION
from backoffice.tasks import FAILED_QUEUE, FailedBillingTask
from onbeat import Call, Retry, message

MESSAGE_RETRY: Final = Retry(attempts_max=1_000, delay="5s", delay_max="10m")
"""A broker may be away for days."""


def report(failed: FailedBillingTask) -> Call[None]:
    return message(BROKER, FAILED_QUEUE, asdict(failed)).with_options(
        queue=DISTRIBUTION, retry=MESSAGE_RETRY
    )
