"""`POST /api/reports/{id}?seal=…`: what the receiver of a callback says of its attempt later.

It needs no API key: the seal, made for one attempt, is the right to report it.
"""

from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.api.key_refusals import Refusals
from onbeat.api.options import ApiOptions
from onbeat.api.request_context import context_for
from onbeat.api.requests import read_body, unknown_parameter
from onbeat.api.responses import error_response, json_response
from onbeat.api.security import peer_of
from onbeat.model.errors import Forbidden, Invalid, Malformed
from onbeat.model.limits import REPORT_BYTES_MAX
from onbeat.operations.context import OperationContext
from onbeat.operations.reports import report, right_of
from onbeat.rules.reports import ROUTE
from onbeat.wire.decode import decode
from onbeat.wire.reports import SEAL_CHARS_MAX, ReportAnswer, ReportBody, SealedReport

PARAMETERS: Final = ("seal",)


def report_routes(
    context: OperationContext, options: ApiOptions, refusals: Refusals
) -> Iterator[Route]:
    async def answer(request: Request) -> Response:
        try:
            return json_response(await take(context_for(context, request), options, request))
        except Exception as error:  # noqa: BLE001  every error becomes a response
            return error_response(noted(error, request), request)

    def noted(error: Exception, request: Request) -> Exception:
        """A forged seal counts as a wrong key does: too many of an address are refused."""
        if isinstance(error, Forbidden):
            try:
                refusals.note(peer_of(request))
            except Exception as limited:  # noqa: BLE001  it is the answer
                return limited
        return error

    yield Route(ROUTE, answer, methods=["POST"])


async def take(context: OperationContext, options: ApiOptions, request: Request) -> ReportAnswer:
    """The seal is checked before the body is read."""
    id, seal = request.path_params["id"], read_seal(request)
    await right_of(context, id, seal)
    body = await read_body(request, REPORT_BYTES_MAX, options.body_deadline, no_slot)
    if body is None:
        raise Malformed('The report needs a JSON body, such as {"outcome": "succeeded"}')
    given = decode(ReportBody, body, bytes_max=REPORT_BYTES_MAX)
    return await report(context, SealedReport(id=id, seal=seal, report=given))


def read_seal(request: Request) -> str:
    for name in request.query_params:
        if name not in PARAMETERS:
            raise unknown_parameter(name, PARAMETERS)
    seals = request.query_params.getlist("seal")
    if len(seals) != 1 or not 0 < len(seals[0]) <= SEAL_CHARS_MAX:
        raise Invalid("seal must be in the query once, as Onbeat-Report-Url has it", "seal")
    return seals[0]


def no_slot() -> None:
    """Such a body is never long enough to need one."""
