"""What boto3's errors mean for a caller."""

from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)

from onbeat.model.errors import Unavailable

FAULTS: Final = (BotoCoreError, ClientError, OSError)
MESSAGE_CHARS_MAX: Final = 200

NO_QUEUE: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
PURGING: Final = frozenset({"AWS.SimpleQueueService.PurgeQueueInProgress", "PurgeQueueInProgress"})
EXISTS: Final = frozenset({"QueueAlreadyExists", "QueueNameExists"})
REFUSED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
    }
)
# Their messages repeat the signed request, with the session's token in it.
TELLTALE: Final = frozenset(
    {"IncompleteSignature", "InvalidSignatureException", "SignatureDoesNotMatch"}
)


class NoQueue(Unavailable):
    """There is no such queue."""


class Purging(Unavailable):
    """SQS is emptying this queue, which it does once a minute at most."""


class Exists(Unavailable):
    """There is such a queue, with other attributes."""


def unavailable(error: Exception, url: str) -> Unavailable:
    """What an error of boto3 comes out as; its cause is kept where it tells no secret."""
    code = code_of(error)
    answer = kind_of(code)(f"SQS {url}: {remedy(error, code)} ({told(error, code)})")
    answer.__cause__ = None if code in TELLTALE else error
    answer.__suppress_context__ = True
    return answer


def code_of(error: Exception) -> str:
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return ""


def kind_of(code: str) -> type[Unavailable]:
    if code in NO_QUEUE:
        return NoQueue
    if code in PURGING:
        return Purging
    return Exists if code in EXISTS else Unavailable


def remedy(error: Exception, code: str) -> str:
    if isinstance(error, (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)):
        return "no credentials; set AWS_ACCESS_KEY_ID and its kin, a profile or a role"
    if code in REFUSED or code in TELLTALE:
        return "it refused the credentials; check them, their rights and the clock"
    if isinstance(error, (HTTPClientError, OSError)):
        return "it did not answer; try again"
    return "it did not do it; try again"


def told(error: Exception, code: str) -> str:
    if code in TELLTALE:
        return code
    text = str(error) or type(error).__name__
    return text[:MESSAGE_CHARS_MAX]
