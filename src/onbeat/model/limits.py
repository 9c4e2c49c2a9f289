"""Bounds that users of the API can meet, each with its reason.

Bounds of one driver, one loop or one message are next to the code that they bound.
"""

from datetime import timedelta
from typing import Final

# Input from callers.
NAME_CHARS_MAX: Final = 200  # names of schedules, tasks and queues: they become labels and keys
IDEMPOTENCY_KEY_CHARS_MAX: Final = 255  # a UUID has 36; other services allow as many
# Characters that a queue's name must not contain: they end or split a path, the query of a URL, or
# a list of names in a setting.
QUEUE_CHARS_REFUSED: Final = "/\\?#%,"
OWN_TASKS: Final = "@"  # names with this prefix are run by Onbeat itself: `@http`, `@message:...`
KEY_CHARS_MAX: Final = 500  # unique keys are composed of names and ids, so somewhat longer
URL_CHARS_MAX: Final = 2_000  # what common servers accept in a request line
HEADERS_MAX: Final = 100  # per callback; the usual bound of servers
HEADER_BYTES_MAX: Final = 8_192  # of one header value
REENCRYPT_MAX: Final = 500  # schedules or jobs that one request re-encrypts
SECRETS_MAX: Final = 3  # secrets that sign one callback: the previous, the current and the next
LABELS_MAX: Final = 50
LABEL_CHARS_MAX: Final = 200
PAYLOAD_BYTES_MAX: Final = 262_144  # arguments or body of one job; the bound of SQS
RESULT_BYTES_MAX: Final = 262_144  # a result is an answer, not a file
ERROR_CHARS_MAX: Final = 8_000  # the end of a traceback says most
REASON_CHARS_MAX: Final = 1_000
REQUEST_BYTES_MAX: Final = 1_048_576  # one API request
BULK_REQUEST_BYTES_MAX: Final = 33_554_432  # `POST /api/jobs` with many jobs
BULK_BODIES_MAX: Final = (
    4  # requests over REQUEST_BYTES_MAX at once; each takes a multiple of its size in memory
)
ASIDE_BYTES_MIN: Final = 65_536  # a longer body is parsed in a thread: it takes milliseconds
ASIDE_JOBS_MIN: Final = 200  # jobs in one request; more are handled in a thread
RPC_BATCH_MAX: Final = 50  # calls in a batch run one after the other and occupy a connection
UNKNOWN_TASKS_MAX: Final = 50  # listed by name in stats and metrics; the rest are only counted
BULK_JOBS_MAX: Final = 10_000  # jobs in one API request

# Bounds before the API key is checked, like those of common servers.
REQUEST_HEAD_BYTES_MAX: Final = 32_768  # request line and headers, held in memory
REQUEST_HEADERS_MAX: Final = 100
REQUEST_URL_BYTES_MAX: Final = 8_192
REQUESTS_PIPELINED_MAX: Final = 64  # per connection; each is parsed before the first is answered
HEAD_SECONDS_MAX: Final = 10.0  # from accept, or a later request's first byte, to the last header
KEEP_ALIVE_SECONDS_MAX: Final = 5  # idle time before a connection is closed
STALL_SECONDS_MAX: Final = 30.0  # without progress in reading an answer or sending a body
LINGER_SECONDS_MAX: Final = 2.0  # closing while the client still sends would lose the refusal
LINGER_BYTES_MAX: Final = 1_048_576  # read and discarded in that time
CONNECTIONS_MAX: Final = 4_096  # an idle connection takes about 20 kB
CONNECTIONS_MIN: Final = 8  # lower bound where the limit of open files is far too low
DESCRIPTORS_KEPT: Final = 64  # open files for the store, logs, brokers and libraries
DESCRIPTORS_SPARE: Final = 32  # part of these that callbacks never use

JSON_DEPTH_MAX: Final = 64  # deeper JSON is an attack or a mistake
AFTER_MAX: Final = 1_000  # jobs that one job may wait for
INTEGER_MAX: Final = 2**63 - 1  # the largest integer that every store can keep

# Steps of a search for occurrences (`onbeat.recurrence.budget`), about 2 µs each.
RECURRENCE_STEPS_MAX: Final = 200_000  # per request, and per plan of one schedule
LOOP_STEPS_MAX: Final = 5_000  # on the event loop; longer searches go to a thread
SHOWN_STEPS_MAX: Final = 100  # for the next occurrence of one listed schedule, on the first try
FORECAST_STEPS_MAX: Final = 2_000_000  # for a forecast over all schedules, in a thread
EXRULES_MAX: Final = 5  # each is tested against every occurrence; deprecated by the RFC

# Numbers with a range.
PRIORITY_MIN: Final = -32_768
PRIORITY_MAX: Final = 32_767
ATTEMPTS_MAX: Final = 1_000  # attempts that a policy may allow
MEMORY_BYTES_MIN: Final = 64 << 20  # an interpreter with a program loaded takes about this much
LOST_MAX: Final = 3  # worker deaths during a job before it fails permanently as poison
LOST_MAX_LARGEST: Final = 100  # the largest `lost_max` of a policy
LOST_BESIDE_MAX: Final = 30  # the same beside other jobs; halving 1,000 jobs takes 10 deaths
HELD_LEASES_MAX: Final = 20  # lease lengths before a worker with a held interpreter counts as dead
RELEASED_MAX: Final = 20  # releases by a shutdown that cost no attempt
SPAN_MAX: Final = timedelta(days=3_660)  # delays and timeouts
RETRY_AFTER_MAX: Final = timedelta(days=1)  # the longest Retry-After honoured

# Disk space under an SQLite store that stays free for pruning and running jobs.
DISK_FREE_PERCENT_MIN: Final = 5

# Pages.
PAGE_LIMIT_DEFAULT: Final = 10
PAGE_LIMIT_MAX: Final = 1_000
PREVIEW_MAX: Final = 1_000

# Batch sizes of the loops: large enough to share a commit, small enough to keep it short.
PLAN_SCHEDULES_MAX: Final = 500
PLAN_JOBS_MAX: Final = 1_000  # jobs that one plan of one schedule may add
CLAIM_MAX: Final = 1_000
RESCUE_MAX: Final = 500
PRUNE_MAX: Final = 1_000
LAPSED_MAX: Final = 500
DEPENDENTS_MAX: Final = 10_000  # jobs that one transaction unblocks or cancels when others end
BACKFILL_MAX: Final = 10_000
FORECAST_FIRES_MAX: Final = 100_000  # per schedule; more than one per second of a day
FORECAST_SPAN_MAX: Final = timedelta(days=31)

# Times.
# The default grace of a schedule: until its next occurrence, within these bounds.
GRACE_DEFAULT_MIN: Final = timedelta(seconds=1)
GRACE_DEFAULT_MAX: Final = timedelta(minutes=1)
CALLBACK_BYTES_READ_MAX: Final = 1_048_576
CALLBACK_BYTES_KEPT_MAX: Final = 65_536
CALLBACK_BYTES_RECEIVED_MAX: Final = 2_097_152  # a response with its headers and framing
CALLBACK_INTERIM_ANSWERS_MAX: Final = 10  # status 1xx; few servers send more than one
CALLBACK_INTERIM_BYTES_MAX: Final = 32_768
CALLBACK_RESPONSE_HEADERS_MAX: Final = 100
CALLBACK_RESPONSE_HEADER_BYTES_MAX: Final = 32_768
