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
TRACEPARENT_CHARS_MAX: Final = 200  # 55 today; a longer one, of a later version, counts as none
TRACESTATE_CHARS_MAX: Final = 512  # what W3C asks every system to pass on; a longer one is dropped
TRACESTATE_MEMBERS_MAX: Final = 32  # as W3C has it
KEY_CHARS_MAX: Final = 500  # unique keys are composed of names and ids, so somewhat longer
URL_CHARS_MAX: Final = 2_000  # what common servers accept in a request line
HEADERS_MAX: Final = 100  # per callback; the usual bound of servers
HEADER_BYTES_MAX: Final = 8_192  # of one header value
REENCRYPT_MAX: Final = 500  # schedules or jobs that one request re-encrypts
STATUSES_MAX: Final = 50  # statuses and classes that count as success of one callback
REDIRECTS_MAX: Final = 20  # that one attempt may follow; browsers stop there too
CONNECT_TIMEOUT_MIN: Final = timedelta(milliseconds=10)
CONNECT_TIMEOUT_MAX: Final = timedelta(minutes=5)  # systems give up a connection sooner
REPORT_BYTES_MAX: Final = 524_288  # a result in unusual spelling, and what is around it
SECRETS_MAX: Final = 3  # secrets that sign one callback: the previous, the current and the next
LABELS_MAX: Final = 50
LABEL_CHARS_MAX: Final = 200
PAYLOAD_BYTES_MAX: Final = 262_144  # arguments or body of one job; the bound of SQS
STEPS_BYTES_MAX: Final = 65_536  # all steps of a job: each end of a step stores them all
RESULT_BYTES_MAX: Final = 262_144  # a result is an answer, not a file
ERROR_CHARS_MAX: Final = 8_000  # the end of a traceback says most
ERROR_LINE_CHARS_MAX: Final = 2_000  # of each line of an error that is longer than that
ALERT_KEY_CHARS_MAX: Final = 300
REASON_CHARS_MAX: Final = 1_000
FAULT_NOTE_CHARS_MAX: Final = 500
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

# Loads that `onbeat load` sends, to measure a service.
LOAD_RATE_MAX: Final = 10_000  # jobs a second; one process cannot send more
LOAD_JOBS_MAX: Final = 1_000_000  # of one load: their ends are read page by page
LOAD_SPAN_MAX: Final = timedelta(hours=24)
LOAD_CONNECTIONS_MAX: Final = 500  # half of the files that a process may open on common systems
LOAD_ERRORS_MAX: Final = 20  # kinds of errors that are told apart; the rest are counted together

# Searches of jobs, and what is done to all that match.
SEARCHED_MAX: Final = 50_000  # jobs that one search looks at before it answers how far it came
SEARCH_SECONDS_MAX: Final = 0.05  # of statements, after which it answers so too
SEARCH_LABELS_MAX: Final = 10  # labels that one search asks for
LABEL_FILTER_CHARS_MAX: Final = SEARCH_LABELS_MAX * 2 * (LABEL_CHARS_MAX + 1)
SEARCH_CHARS_MAX: Final = 500  # of a text in an error, and of a line of search
FLOWS_LISTED_MAX: Final = 50  # flows of a page: each costs a few reads of an index
FLOWS_LISTED_DEFAULT: Final = 20
FLOW_LOOK_MAX: Final = 1_000  # jobs of a listed flow that are counted, ended and live ones each
COUNTED_JOBS_MAX: Final = 10_000  # of each state beside a list; above it is `more`, or about
COUNTED_LOOK_MAX: Final = 20_000  # jobs of each state that such a count looks at along an index
COUNTED_SEARCH_MAX: Final = 5_000  # the same where no index answers it
COUNTED_LOOK_MIN: Final = 500  # the same once all of the counts have taken COUNTED_SECONDS_MAX
COUNTED_SECONDS_MAX: Final = 0.02
BULK_COUNTED_MAX: Final = 100_000  # jobs that are counted before a bulk; above it is `more`
COUNT_SECONDS_MAX: Final = 5.0  # of counting, after which it is `more` too
BULK_CHUNK: Final = 500  # jobs of a bulk in one transaction
BULK_LOOK: Final = 5_000  # jobs that it looks at in one transaction
BULK_RATE_MAX: Final = 2_000  # jobs of a bulk a second
BULK_UNDO_MIN: Final = 100  # a bulk of more jobs starts after BULK_UNDO, in which it can be stopped
BULK_UNDO: Final = timedelta(seconds=10)
BULK_IDS_MAX: Final = 1_000  # jobs that a bulk names one by one
BULK_SAMPLE: Final = 5  # jobs that a count shows
BULKS_MAX: Final = 100  # bulks that have not ended

# Notices.
NOTICE_RECIPIENTS_MAX: Final = BULK_JOBS_MAX  # of one request; each becomes a job
ADDRESS_CHARS_MAX: Final = 254  # of a mail address (RFC 5321)
LOCAL_PART_CHARS_MAX: Final = 64  # of it before the @
RECIPIENT_CHARS_MAX: Final = 500  # an address with a name, a number, or a template for one
TITLE_CHARS_MAX: Final = 1_000  # a subject; chats show less
TEMPLATE_CHARS_MAX: Final = 65_536  # of a text with template marks; it is parsed in the request
RENDERED_BYTES_MAX: Final = 262_144  # of one text that a template makes
TEMPLATE_WORK_MAX: Final = 5_000_000  # characters that loops repeat or filters handle
TEMPLATE_LOOPS_MAX: Final = 10_000  # turns of a loop, those of loops around it multiplied
TEMPLATE_DIGITS_MAX: Final = 100  # of a number that a template computes
TEMPLATES_MAX: Final = 1_000  # in the configuration; all are kept in memory
CHANNELS_MAX: Final = 100  # in the configuration; each is a lane that claims ask for

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

# Events (CloudEvents 1.0).
EVENT_BYTES_MAX: Final = 1_048_576  # one event with its data, in any of its forms
EVENTS_MAX: Final = 1_000  # events in one request
EVENT_NAME_CHARS_MAX: Final = 255  # id, source and type each: two of them share an index
EVENT_TEXT_CHARS_MAX: Final = 2_000  # subject, content type and schema, which may be a URL
EXTENSIONS_MAX: Final = 50  # further attributes of one event
EXTENSION_NAME_CHARS_MAX: Final = 64  # the specification advises 20
EXTENSION_INTEGER_MAX: Final = 2**31 - 1  # the specification's integers have 32 bits

JSON_DEPTH_MAX: Final = 64  # deeper JSON is an attack or a mistake
AFTER_MAX: Final = 1_000  # jobs that one job may wait for
INTEGER_MAX: Final = 2**63 - 1  # the largest integer that every store can keep

# Steps of a search for occurrences (`onbeat.recurrence.budget`), about 2 µs each.
RECURRENCE_STEPS_MAX: Final = 200_000  # per request, and per plan of one schedule
LOOP_STEPS_MAX: Final = 5_000  # on the event loop; longer searches go to a thread
SHOWN_STEPS_MAX: Final = 100  # for the next occurrence of one listed schedule, on the first try
FORECAST_STEPS_MAX: Final = 2_000_000  # for a forecast over all schedules, in a thread
EXRULES_MAX: Final = 5  # each is tested against every occurrence; deprecated by the RFC

# Expressions (`onbeat.expressions`).
EXPRESSION_CHARS_MAX: Final = 2_048  # longer logic belongs in a task
EXPRESSION_FACTS_BYTES_MAX: Final = 65_536  # they are converted at each evaluation
EXPRESSION_COST_MAX: Final = 2_000_000  # steps of at most 20 ns, so 40 ms on the event loop
EXPRESSION_LOOPS_MAX: Final = 4  # within one another
EXPRESSION_PATTERN_MAX: Final = 500  # characters, each as often as the pattern repeats it

# Reactions to events.
PATTERNS_MAX: Final = 20  # in `on`, and in `cancel_on`; each is tested against every event
GATHER_MAX: Final = 1_000  # events of one job; its target gets them all at once
EVENT_DEPTH_MAX: Final = 8  # of Onbeat's own events, each caused by the one before
VERDICTS_MAX: Final = 100  # schedules listed with an event of which they made no job
VERDICT_CHARS_MAX: Final = 200  # why not, in words
ROUTE_MAX: Final = 1_000  # events that one transaction routes
ROUTE_FREED_MAX: Final = 5_000  # waits that one transaction ends; it ends the others next
ROUTE_MATCHES_MAX: Final = 5_000  # what schedules make of them, unless it is a single event
WINDOWS_MAX: Final = 20  # of one job; each is asked for its next opening

# Numbers with a range.
PRIORITY_MIN: Final = -32_768
PRIORITY_MAX: Final = 32_767
ATTEMPTS_MAX: Final = 1_000  # attempts that a policy may allow
MEMORY_BYTES_MIN: Final = 64 << 20  # an interpreter with a program loaded takes about this much
LOST_MAX: Final = 3  # worker deaths during a job before it fails permanently as poison
LOST_MAX_LARGEST: Final = 100  # the largest `lost_max` of a policy
LOST_BESIDE_MAX: Final = 30  # the same beside other jobs; halving 3,000 jobs takes 11 deaths
HELD_LEASES_MAX: Final = 20  # lease lengths before a worker with a held interpreter counts as dead
RELEASED_MAX: Final = 20  # releases by a shutdown that cost no attempt
SPAN_MAX: Final = timedelta(days=3_660)  # delays and timeouts
RETRY_AFTER_MAX: Final = timedelta(days=1)  # the longest Retry-After honoured

# Disk space under an SQLite store that stays free for pruning and running jobs.
DISK_FREE_PERCENT_MIN: Final = 5

# Queues.
PAUSE_NOTE_CHARS_MAX: Final = 200  # why a queue was paused: a line beside its name
GROUPS_LOOK_MAX: Final = (
    5_000  # ready and running jobs each of which the groups of a queue are told
)
GROUPS_SHOWN_MAX: Final = 20

# Pages.
PAGE_LIMIT_DEFAULT: Final = 10
PAGE_LIMIT_MAX: Final = 1_000
COMING_SCHEDULES_MAX: Final = 500  # searched for their next fires while a service starts
PREVIEW_MAX: Final = 1_000

# Batch sizes of the loops: large enough to share a commit, small enough to keep it short.
PLAN_SCHEDULES_MAX: Final = 500
PLAN_JOBS_MAX: Final = 1_000  # jobs that one plan of one schedule may add
CLAIM_MAX: Final = 1_000
HANDED_BACK_KEPT: Final = 1_000  # leases that a worker remembers to have handed back
RESCUE_MAX: Final = 500
PRUNE_MAX: Final = 1_000
KEEP_RULES_MAX: Final = 20  # each is applied once a minute
LAPSED_MAX: Final = 500
DEPENDENTS_MAX: Final = 10_000  # jobs that one transaction unblocks or cancels when others end
RETURNING_MAX: Final = 2_000  # dependents that one transaction brings back; it reads them whole
YIELDED_CALLS_MAX: Final = 100  # that a call of the same distributor may come after
BACKFILL_MAX: Final = 10_000
FORECAST_FIRES_MAX: Final = 100_000  # per schedule; more than one per second of a day
YEAR_FIRES_MAX: Final = 10_000  # of a rule in its preview; more than one an hour for a year
FORECAST_SPAN_MAX: Final = timedelta(days=31)

# History (`onbeat.model.pulse`).
SERIES_MAX: Final = 200  # pairs of queue and task that are counted apart; names come from callers
SERIES_BYTES_MAX: Final = 12_000  # of one row of the history; the smallest series are one then
SAMPLED_QUEUES_MAX: Final = 100  # queues in a sample of depths; the others are in its total
COUNTED_QUEUES_MAX: Final = 1_000  # the same in the newest one; with more, an answer counts anew
COUNTED_MAX: Final = 10_001  # a count that would read a whole table stops here
PULSES_READ_MAX: Final = 20_000  # rows of the history of which one answer is made
PULSES_HELD_MAX: Final = 30  # rows that a process holds while the store is away: five minutes
TIMELINE_LANES_MAX: Final = 40  # schedules in one page of a timeline
LANE_RUNS_MAX: Final = 200  # runs of a schedule that are read; more are only counted
LANE_FIRES_MAX: Final = 2_000  # fires to come of a schedule; later ones are estimated
TIMELINE_COUNTED_MAX: Final = 100_000  # runs that one request counts, the latest of each schedule
LANE_DISPOSITIONS_MAX: Final = 2_000  # dispositions of a schedule in which skips are looked for
SCHEDULES_AT_ONCE_MAX: Final = 50  # selected in a page, to be paused or resumed one by one
OLD_BUCKETS_MAX: Final = 50_000  # of timelines, kept in a process because they change no more

FILE_SCHEDULES_MAX: Final = 10_000  # in one file of schedules
FILE_VALUES_MAX: Final = 1_000_000  # values of a file, those that aliases repeat counted each time
FILE_DEPTH_MAX: Final = 100  # of values within one another in a file
FILE_BYTES_MAX: Final = 33_554_432
IMPORT_BYTES_MAX: Final = 1_048_576  # of a file of another system
IMPORT_FIRES_MAX: Final = 100  # of each schedule that an import shows

GRAPH_JOBS_MAX: Final = 200  # jobs of a flow that are drawn; more are told by levels
GRAPH_LINKS_MAX: Final = 1_000  # links between them; with more, nobody could follow one
GRAPH_WAYPOINTS_MAX: Final = 2_000  # places where links pass layers; with more they go straight

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

# Commands. One argument on Linux has at most 128 KiB, all of them with the environment 2 MiB.
COMMAND_ARGS_MAX: Final = 1_000  # the program included
COMMAND_ARG_BYTES_MAX: Final = 32_768
COMMAND_ENV_MAX: Final = 100  # variables, as headers of a callback
COMMAND_ENV_NAME_CHARS_MAX: Final = 200
COMMAND_ENV_BYTES_MAX: Final = 8_192  # of one value, as of a header
COMMAND_CWD_CHARS_MAX: Final = 1_000
COMMAND_PROGRAMS_MAX: Final = 100  # that a worker allows; each is a lane that claims ask for
COMMAND_OUTPUT_BYTES_MAX: Final = 32_768  # of a result; as JSON at most RESULT_BYTES_MAX

# Log lines of handlers.
LOG_LINES_MAX: Final = 200  # of one attempt: a job is no log file
LOG_LAST_LINES: Final = 50  # of these, for the last ones: they say how it ended
LOG_LINE_BYTES_MAX: Final = 2_000  # of the text of a line; the middle of a longer one is left out
LOG_FIELDS_BYTES_MAX: Final = 2_000  # of the fields of a line, as JSON
LOG_FIELD_ITEMS_MAX: Final = 100  # of one list or mapping in a field
LOG_FIELD_DEPTH_MAX: Final = 8  # of lists and mappings in a field
LOG_NAME_CHARS_MAX: Final = 200  # of the name of a logger
LOG_LEVEL_CHARS_MAX: Final = 20  # of the name of a level
LOG_NUMBERS: Final = 1_000  # between the first lines of two attempts; more than LOG_LINES_MAX
LOG_WAITING_BYTES_MAX: Final = 16_777_216  # lines that wait in a process for the store
LOG_LINES_SHOWN: Final = 500  # in a page: more than one attempt keeps
LOGGERS_MAX: Final = 100  # with a level of their own in the configuration

FAULTS_MAX: Final = 2_000
"""Faults that a store keeps; failures of others are counted together."""
FAULT_JOBS_MAX: Final = 10_000
"""How far jobs of a fault, and dead letters, are counted."""
FAULT_LISTED_JOBS_MAX: Final = 1_000
FAULT_SPREAD_JOBS: Final = 200
FAULT_SPREAD_ATTEMPTS: Final = 20
"""The same in a list of faults."""
REPLAY_MAX: Final = 1_000
"""Jobs or dead letters of one replay of a group."""
# The live stream.
STREAMS_MAX: Final = 64  # of one process; each holds a connection
STREAMS_OF_KEY_MAX: Final = 16
STREAMS_SHARE: Final = 4  # at most one connection in so many is a stream
