"""The bounds that callers can meet in many places, each with its reason.

What bounds one driver, one loop or one message stands beside the code that it bounds.
"""

from datetime import timedelta
from typing import Final

# What a caller may send.
NAME_CHARS_MAX: Final = 200  # names of schedules, tasks and queues: they become labels and keys
KEY_CHARS_MAX: Final = 500  # unique keys are composed of names and ids, so somewhat longer
URL_CHARS_MAX: Final = 2_000  # what common servers accept in a request line
HEADERS_MAX: Final = 100  # per callback; the usual bound of servers
HEADER_BYTES_MAX: Final = 8_192  # of one header value
LABELS_MAX: Final = 50
LABEL_CHARS_MAX: Final = 200
PAYLOAD_BYTES_MAX: Final = 262_144  # arguments or body of one job, as SQS has it
RESULT_BYTES_MAX: Final = 262_144  # a result is an answer, not a file
ERROR_CHARS_MAX: Final = 8_000  # a traceback's telling end
REASON_CHARS_MAX: Final = 1_000
REQUEST_BYTES_MAX: Final = 1_048_576  # one API request
BULK_REQUEST_BYTES_MAX: Final = 33_554_432  # `POST /api/jobs` with many jobs
BULK_JOBS_MAX: Final = 10_000  # jobs in one API request
JSON_DEPTH_MAX: Final = 64  # deeper JSON is an attack or a mistake
AFTER_MAX: Final = 1_000  # jobs that one job may wait for
INTEGER_MAX: Final = 2**63 - 1  # what every store can keep

# Numbers with a range.
PRIORITY_MIN: Final = -32_768
PRIORITY_MAX: Final = 32_767
ATTEMPTS_MAX: Final = 1_000  # tries that a policy may allow
MEMORY_BYTES_MIN: Final = 64 << 20  # an interpreter with a program in it takes about this
LOST_MAX: Final = 3  # workers that a job may take down with it before it is put aside as poison
RELEASED_MAX: Final = 20  # shutdowns that a job may be handed back by without costing an attempt
SPAN_MAX: Final = timedelta(days=3_660)  # delays and timeouts
RETRY_AFTER_MAX: Final = timedelta(days=1)  # what a callback's Retry-After may ask for

# Of the disk under an SQLite store: pruning and what runs need what is left.
DISK_FREE_PERCENT_MIN: Final = 5

# Pages.
PAGE_LIMIT_DEFAULT: Final = 10
PAGE_LIMIT_MAX: Final = 1_000
PREVIEW_MAX: Final = 1_000

# Batches of the loops: large enough to share a commit, small enough to keep it short.
PLAN_SCHEDULES_MAX: Final = 500
PLAN_JOBS_MAX: Final = 1_000  # jobs that one plan of one schedule may add
CLAIM_MAX: Final = 1_000
RESCUE_MAX: Final = 500
PRUNE_MAX: Final = 1_000
LAPSED_MAX: Final = 500
BACKFILL_MAX: Final = 10_000
FORECAST_FIRES_MAX: Final = 100_000  # of one schedule; every second of a day is fewer
FORECAST_SPAN_MAX: Final = timedelta(days=31)

# Times.
# A schedule without a grace has until its next occurrence, but within these.
GRACE_DEFAULT_MIN: Final = timedelta(seconds=1)
GRACE_DEFAULT_MAX: Final = timedelta(minutes=1)
CALLBACK_BYTES_READ_MAX: Final = 1_048_576
CALLBACK_BYTES_KEPT_MAX: Final = 65_536
CALLBACK_RESPONSE_HEADERS_MAX: Final = 100
CALLBACK_RESPONSE_HEADER_BYTES_MAX: Final = 32_768
