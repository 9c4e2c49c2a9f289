"""Translates boto3's errors."""

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
# Their messages contain the signed request, with the session token.
TELLTALE: Final = frozenset(
    {"IncompleteSignature", "InvalidSignatureException", "SignatureDoesNotMatch"}
)


class NoQueue(Unavailable):
    """The queue does not exist."""


class Purging(Unavailable):
    """SQS is purging this queue, which it does at most once a minute."""


class AlreadyExists(Unavailable):
    """The queue already exists, with other attributes."""


def unavailable(error: Exception, url: str) -> Unavailable:
    """The error for an error of boto3; its cause is kept if it reveals no secret."""
    code = code_of(error)
    answer = kind_of(code)(f"SQS {url}: {remedy(error, code)} ({error_text(error, code)})")
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
    return AlreadyExists if code in EXISTS else Unavailable


def remedy(error: Exception, code: str) -> str:
    if isinstance(error, (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)):
        return (
            "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role"
        )
    if code in REFUSED or code in TELLTALE:
        return "it refused the credentials; check them, their rights and the clock"
    if isinstance(error, (HTTPClientError, OSError)):
        return "it did not answer; try again"
    return "the request failed; try again"


def error_text(error: Exception, code: str) -> str:
    if code in TELLTALE:
        return code
    text = str(error) or type(error).__name__
    return text[:MESSAGE_CHARS_MAX]
