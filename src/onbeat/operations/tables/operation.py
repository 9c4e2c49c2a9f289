"""What one operation is: its functions, its types and its HTTP form."""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, Literal, TypeVar

import msgspec

from onbeat.model.limits import REQUEST_BYTES_MAX
from onbeat.model.principal import Scope
from onbeat.operations.context import OperationContext
from onbeat.wire.cloud_events import BodyReader

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Method = Literal["GET", "POST", "PUT", "DELETE"]

CREATED: Final = 201


class Operation(msgspec.Struct, Generic[Request, Answer], frozen=True, kw_only=True):
    """One operation and its HTTP form.

    `body` names the request field that the HTTP body fills; the other fields come from the path and
    the query. `former_path` still works but is undocumented. An answer whose `created` is false has
    status 200 instead of 201. `reader` reads a body that has several forms. The caller needs
    `scope`. With `keeps_audit` it writes its audit record itself. With `takes_key` a request may
    have an idempotency key; `again` rebuilds its answer where none is stored. An operation that
    makes something and takes no key refuses one, as it could not keep what the key promises.
    """

    name: str
    id: str
    summary: str
    function: Callable[[OperationContext, Request], Awaitable[Answer]]
    request: type[Request]
    answer: type[Answer]
    method: Method
    path: str
    former_path: str | None = None
    status: int = 200
    body: str | None = None
    body_required: bool = True
    body_bytes_max: int = REQUEST_BYTES_MAX
    reader: BodyReader | None = None
    scope: Scope
    takes_key: bool = False
    keeps_audit: bool = False
    again: Callable[[OperationContext, Request], Awaitable[Answer]] | None = None

    @property
    def is_audited(self) -> bool:
        """Whether it is a change by operators or administrators, which is audited."""
        is_change = self.scope in {Scope.OPERATE, Scope.ADMIN} and self.method != "GET"
        return is_change and not self.keeps_audit

    @property
    def refuses_key(self) -> bool:
        return self.method == "POST" and self.status == CREATED and not self.takes_key

    @property
    def noun(self) -> str:
        return self.name.split(".", 1)[0]
