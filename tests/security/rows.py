"""The rows of the security table: threat, defence, and the tests that hold the defence.

`python -m security.rows` writes the page `docs/explain/security.md` anew.
"""

import sys
from dataclasses import dataclass
from typing import Final

HEAD: Final = """\
# Security

What attackers may try, what Onbeat does about it, and the tests that hold it to that. Each test is named by its file
below `tests` and, where only some of a file's tests are meant, by a word of their names. A test compares this page with
its list, and finds each test that it names. What counts as a vulnerability, and whom Onbeat trusts, is in `SECURITY.md`
of the repository.

| row | threat | defence | tests |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Row:
    """`tests` are `FILE` or `FILE: word of names`, below `tests`."""

    name: str
    threat: str
    defence: str
    tests: tuple[str, ...]

    def line(self) -> str:
        tests = "<br>".join(f"`{test}`" for test in self.tests)
        return f"| {self.name} | {self.threat} | {self.defence} | {tests} |"


ROWS: Final = (
    Row(
        "H1",
        "A callback to a private, loopback, link-local, metadata, multicast or reserved address",
        "An own table of special-purpose blocks, with addresses within addresses decoded; "
        "the operator alone opens networks or hosts",
        (
            "security/test_addresses.py",
            "rules/test_ip_policy.py",
            "targets/test_ssrf_guard.py: address",
        ),
    ),
    Row(
        "H2",
        "Other spellings of such an address",
        "The address of the socket is judged, not the text",
        ("security/test_addresses.py", "rules/test_urls.py: spelling"),
    ),
    Row(
        "H3",
        "A name that leads elsewhere at each lookup, or to several addresses",
        "One lookup with a deadline; one bad answer refuses the host; the connection goes to the "
        "address that was judged",
        ("targets/test_ssrf_guard.py: name", "targets/test_ssrf_guard.py: judged"),
    ),
    Row(
        "H4",
        "A redirect to the inside, or one that takes credentials along",
        "None is followed unless the target says how many; each hop is judged anew; credentials "
        "stay with their origin",
        ("targets/test_callback_policy.py: redirect", "targets/test_callback_policy.py: origin"),
    ),
    Row(
        "H5",
        "A URL that two readers read differently",
        "One reader, and what it kept is what the client gets; userinfo, backslashes and controls "
        "are refused",
        ("rules/test_urls.py: read", "rules/test_urls.py: misread"),
    ),
    Row(
        "H6",
        "Proxy variables of the environment lead callbacks round the guard",
        "They are not read",
        ("targets/test_http.py: proxies",),
    ),
    Row(
        "H7",
        "An endpoint that drips, hangs or never ends its headers",
        "One deadline over lookup, connection, TLS, sending and reading",
        ("targets/test_http_hostile.py: deadline",),
    ),
    Row(
        "H8",
        "A huge or compressed answer",
        "Bytes are counted as they come, and nothing is unpacked",
        ("targets/test_http_hostile.py: huge", "targets/test_http_hostile.py: compressed"),
    ),
    Row(
        "H9",
        "An answer that tells secrets or attacks the dashboard",
        "Echoed credentials are not kept; texts are text; refusals name a class of addresses, not "
        "the address",
        (
            "targets/test_http.py: credential",
            "targets/test_ssrf_guard.py: closed_address",
            "dashboard/test_markup.py",
        ),
    ),
    Row(
        "H10",
        "A forged or repeated callback at its receiver",
        "Standard Webhooks: signed id, time and body, and two secrets while one is replaced",
        ("targets/test_http.py: signed", "targets/test_http.py: two_secrets"),
    ),
    Row(
        "H11",
        "Headers that end a request or begin another",
        "Names are tokens, values are one line, and those that Onbeat or proxies set are refused",
        ("rules/test_urls.py: header", "targets/test_http_connection.py: no_check_has_seen"),
    ),
    Row(
        "H12",
        "Weak TLS",
        "Certificates are always checked; TLS 1.2 at least",
        ("targets/test_http_tls.py",),
    ),
    Row(
        "H13",
        "An answer that two readers end at different places, so that its rest is the next one's",
        "One strict form of heads, lengths and chunks; a connection with anything after an answer, "
        "or between two requests, is closed",
        (
            "targets/test_http_answer.py",
            "targets/test_http_connection.py: no_answer",
            "targets/test_http_connection.py: other_request",
        ),
    ),
    Row(
        "C1",
        "A task's name as a path to code",
        "Names are keys of tasks that the worker's own modules declare",
        ("security/test_code_from_data.py: task", "interfaces/test_rest.py: names_of_our_own"),
    ),
    Row(
        "C2",
        "Objects or code revived from data",
        "JSON alone; no module of the source can revive objects or evaluate text",
        ("security/test_code_from_data.py: revives",),
    ),
    Row(
        "C3",
        "A forged, repeated or oversized message of a broker",
        "Messages name jobs; the store decides; tokens are sealed; the rest is a dead letter",
        (
            "engine/test_broker_runtime.py: forged",
            "engine/test_broker_runtime.py: doubled",
            "engine/test_broker_faults.py: large",
            "operations/test_remote_workers.py: forged",
        ),
    ),
    Row(
        "C9",
        "A rule that never fires, or takes for ever",
        "Searches have a budget of steps, the same everywhere",
        (
            "recurrence/test_text.py: never_fires",
            "recurrence/test_cron.py: never_fires",
            "operations/test_costly_rules.py",
        ),
    ),
    Row(
        "K1",
        "Keys read from a stolen store, or guessed",
        "256 random bits with a checksum; only a digest is kept, and compared in constant time",
        (
            "rules/test_access.py",
            "interfaces/test_scopes.py: checksum",
            "security/test_keys_at_rest.py",
        ),
    ),
    Row(
        "K2",
        "A key that may do too much",
        "A scope for each operation, expiry, and revocation that counts at once",
        (
            "interfaces/test_scopes.py: scope",
            "interfaces/test_scopes.py: key",
            "security/test_scoped_requests.py: each_key",
        ),
    ),
    Row(
        "K5",
        "Fields that callers must not set or see",
        "Unknown fields are refused by name; what the service sets is ignored or refused; secrets "
        "are written and not shown",
        (
            "wire/test_decode.py: service_sets",
            "operations/test_credentials.py",
            "security/test_scoped_requests.py",
        ),
    ),
    Row(
        "K6",
        "JSON-RPC as a way round REST",
        "The same table of operations, scopes and limits for both; batches are bounded",
        ("interfaces/test_scopes.py: rpc", "interfaces/test_rpc.py: batch", "wire/test_jsonrpc.py"),
    ),
    Row(
        "K7",
        "Bodies that are deep, huge, ambiguous, or hold what no store can keep",
        "Size, depth, repeated keys and numbers are checked before anything else, in linear time",
        ("wire/test_decode.py", "wire/test_hostile.py", "inputs/test_inputs.py"),
    ),
    Row(
        "K8",
        "Half requests, endless heads, bodies that do not come, long inputs at any address",
        "Deadlines and bounds of bytes, headers and connections at the server itself",
        (
            "interfaces/test_protocol.py",
            "interfaces/test_descriptors.py",
            "fuzz/test_fuzz.py",
            "security/test_long_inputs.py",
        ),
    ),
    Row(
        "K9",
        "Requests that a page of another site makes in a user's browser",
        "The API ignores cookies; pages need a proof beside the cookie; origins are checked; "
        "GET changes nothing",
        (
            "interfaces/test_rest.py: other_sites",
            "interfaces/test_rpc.py: other_sites",
            "dashboard/test_login.py: cookie",
            "dashboard/test_login.py: other_sites",
        ),
    ),
    Row(
        "K13",
        "A service that is open by mistake",
        "Loopback by default; beyond it a key of 20 characters at least, or consent, and known "
        "host names",
        (
            "settings/test_refusals.py: beyond_loopback",
            "interfaces/test_hosts.py",
            "interfaces/test_rest.py: needs_a_key",
        ),
    ),
    Row(
        "D2",
        "Secrets in logs, errors, traces, metrics, pages, dead letters or the store's files",
        "Hidden by name, by value and by place; encrypted in the store",
        ("interfaces/test_canaries.py", "telemetry/test_log.py: secret"),
    ),
    Row(
        "D3",
        "A text that forges lines of the log or drives a terminal",
        "Controls are escaped, and a record is one line",
        ("telemetry/test_log.py: line", "interfaces/test_terminal.py"),
    ),
    Row(
        "D4",
        "SQL in a text",
        "Values are bound; columns come from lists; searches compare whole texts or escape them",
        ("security/test_hostile_texts.py",),
    ),
    Row(
        "D9",
        "Files that others on the machine can read",
        "0600 for stores, logs, backups and made secrets, whatever the umask",
        (
            "stores/sqlite/test_errors.py",
            "stores/sqlite/test_ballast.py",
            "telemetry/test_log.py: owner",
            "interfaces/test_cli_backup.py",
        ),
    ),
    Row(
        "D10",
        "A vulnerable dependency that the audit does not know of",
        "Pins with hashes; the audit first looks for an advisory that is known to exist, and "
        "takes silence for no answer",
        ("security/test_audit.py", "deploy/test_deploy.py: audit", "deploy/test_deploy.py: hash"),
    ),
)


def page() -> str:
    """The page in Markdown."""
    return HEAD + "\n".join(row.line() for row in ROWS) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
