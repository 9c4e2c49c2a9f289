"""What is in the provider's database, at the gateway and in the queues, side by side."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from backoffice.environment import DISTRIBUTION
from neighbours import ONE_IN, Neighbours
from onbeat import Onbeat
from world import World

STATES: Final = (
    "SELECT count(*), coalesce(sum(status = 'COMPLETE'), 0),"
    " coalesce(sum(status = 'INCOMPLETE' AND num_attempts > 0), 0),"
    " coalesce(sum(IF(status = 'COMPLETE', cents, 0)), 0),"
    " coalesce(sum(IF(status = 'INCOMPLETE' AND num_attempts > 0, cents, 0)), 0),"
    " coalesce(sum(credit_cents), 0), coalesce(sum(credit_cents > 0), 0),"
    " count(DISTINCT subscription_id) FROM users_invoices"
)


@dataclass(kw_only=True)
class Sums:
    """Counts of bills, and cents. `events` are messages of final failures."""

    workspaces: int
    invoices: int
    subscriptions: int
    paid: int
    paid_cents: int
    unpaid: int
    unpaid_cents: int
    credit_cents: int
    credited: int
    charges: int
    charged_cents: int
    charged_twice: int
    refused: int
    reported: int
    retries: int
    waiting: int
    due: int
    mails: int
    moved: int
    objects: int
    events: int = 0

    @property
    def answered(self) -> int:
        return self.paid + self.unpaid

    @property
    def is_done(self) -> bool:
        """Also what waits for another attempt, and what the router has not seen yet."""
        is_billed = self.answered == self.workspaces and self.reported == self.refused
        return is_billed and self.is_kept and not self.waiting

    @property
    def is_kept(self) -> bool:
        return self.mails == self.moved == self.objects == self.due

    def rows(self) -> Iterator[tuple[str, int, int | None]]:
        yield "paid", self.paid, self.paid_cents
        yield "not paid", self.unpaid, self.unpaid_cents
        yield "pending", self.workspaces - self.answered, None
        yield "tried again after a fault or a kill", self.retries, None
        yield "charged by the gateway", self.charges, self.charged_cents
        yield "from credits, whole or in part", self.credited, self.credit_cents
        yield "mails sent", self.mails, None
        yield "recordings moved", self.moved, None

    def checks(self) -> Iterator[tuple[str, bool]]:
        yield (
            f"{self.invoices} invoices for {self.workspaces} workspaces",
            self.invoices == self.subscriptions == self.workspaces,
        )
        yield f"{self.charged_twice} bills were charged twice", self.charged_twice == 0
        yield (
            f"paid {self.paid_cents} = charged {self.charged_cents} + credits {self.credit_cents}",
            self.paid_cents == self.charged_cents + self.credit_cents,
        )
        yield (
            f"{self.events} events for {self.refused} bills that failed for good",
            self.events == self.refused,
        )
        yield (
            f"{self.mails} surveys and {self.moved} recordings, of {self.due} each",
            self.is_kept,
        )


def read_sums(world: World, around: Neighbours, beat: Onbeat, workspaces: int) -> Sums:
    ((invoices, paid, unpaid, *cents, credited, subscriptions),) = world.rows(STATES)
    paid_cents, unpaid_cents, credit_cents = map(int, cents)
    ((refused,),) = world.rows("SELECT count(*) FROM charges WHERE state = 'REFUSED'")
    ((moved,),) = world.rows("SELECT count(*) FROM recordings WHERE status = 'processed'")
    charged = around.stripe.charges
    amounts = [cents for each in charged.values() for cents in each]
    # The key without the number of the attempt.
    bills = Counter("_".join(key.split("_")[:5]) for key, each in charged.items() for _ in each)
    queues = beat.queues.list()
    return Sums(
        workspaces=workspaces,
        invoices=int(invoices),
        subscriptions=int(subscriptions),
        paid=int(paid),
        paid_cents=paid_cents,
        unpaid=int(unpaid),
        unpaid_cents=unpaid_cents,
        credit_cents=credit_cents,
        credited=int(credited),
        charges=len(amounts),
        charged_cents=sum(amounts),
        charged_twice=sum(number > 1 for number in bills.values()),
        refused=int(refused),
        reported=reported(beat),
        retries=retries(beat),
        waiting=sum(each.due + each.running for each in queues),
        due=workspaces // ONE_IN,
        mails=len(around.mails.sent),
        moved=moved,
        objects=len(around.storage.names()),
    )


def reported(beat: Onbeat) -> int:
    """The messages that the broker has."""
    jobs = beat.jobs.list(queue=DISTRIBUTION, state="succeeded", limit=1_000)
    return sum(bool(job.target.message) for job in jobs)


def retries(beat: Onbeat) -> int:
    """Of the newest bills."""
    jobs = beat.jobs.list(task="billing.charge", limit=1_000)
    return sum(job.attempt > 1 for job in jobs)
