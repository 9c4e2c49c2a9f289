"""The bucket of S3 in which recordings end up.

The client is plain: each call runs in a thread. Another endpoint than that of Amazon is set by
`AWS_ENDPOINT_URL_S3`, as for all its programs.
"""

import asyncio
from functools import lru_cache
from typing import IO, Any, Final, cast

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from backoffice.settings import Settings

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60
OWNER: Final = "recording"
"""The key of the metadata that names the row of an object."""


def key_of(storage_id: str) -> str:
    return f"recordings/{storage_id}.wav"


class Bucket:
    """Raises errors of `botocore`, which name no secret."""

    def __init__(self, settings: Settings) -> None:
        self.name = settings.bucket
        self.client = client_for(settings)

    def url_of(self, key: str) -> str:
        endpoint = str(self.client.meta.endpoint_url)
        scheme, _, host = endpoint.partition("://")
        if host.endswith(".amazonaws.com"):
            return f"{scheme}://{self.name}.{host}/{key}"
        return f"{endpoint}/{self.name}/{key}"

    async def owner_of(self, key: str) -> str | None:
        """The row of the object; empty if it names none, None if there is no object."""
        try:
            found = await asyncio.to_thread(self.client.head_object, Bucket=self.name, Key=key)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in {"404", "NoSuchKey"}:
                return None
            raise
        return str(found["Metadata"].get(OWNER, ""))

    async def put(self, key: str, file: IO[bytes], owner: str) -> None:
        """Store the file from its beginning, whole or not at all."""
        file.seek(0)
        await asyncio.to_thread(
            self.client.put_object,
            Bucket=self.name,
            Key=key,
            Body=file,
            ContentType="audio/wav",
            Metadata={OWNER: owner},
        )


@lru_cache(maxsize=4)
def client_for(settings: Settings) -> Any:
    # A client may be used by many threads; the session that makes it may not.
    return cast("Any", boto3.session.Session()).client(
        "s3",
        region_name=settings.region,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=settings.secret_access_key,
        config=Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": 1},  # the job is tried again
        ),
    )
