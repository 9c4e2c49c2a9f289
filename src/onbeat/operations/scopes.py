"""The reference page of scopes, generated from the table of operations."""

from typing import Final

from onbeat.model.principal import Scope
from onbeat.operations.table import OPERATIONS
from onbeat.rules.access import expand_scopes

HEAD: Final = """\
# Scopes

Written by `python -m onbeat.operations.scopes`; a test holds it to the table of operations, and
another asks for each operation with each scope over REST and over JSON-RPC.

A key has one scope or several. `operate` includes `read` and `submit`, `admin` includes all.
`work` is by itself: who runs jobs sees those that it was given and no others, in the key's queues
if it names some. Queues bind that scope and no other, so they are refused for a key that has
neither `work` nor `admin`. What is not allowed is answered with 403 `forbidden`, naming the scope.
`submit:TASK` over JSON-RPC needs `submit`, `/metrics` and `/api/stream` need `read`. `/healthz`,
`/readyz`, the documents of the API and the log-in of the dashboard need no key, and
`/api/reports/{id}` only the seal that came with a [callback](../guides/call-http.md#answer-later).

"""


def reference_page() -> str:
    """The page in Markdown."""
    scopes = list(Scope)
    head = f"| operation | request | needs | {' | '.join(f'`{scope}`' for scope in scopes)} |"
    line = "|---|---|---|" + ":-:|" * len(scopes)
    rows = [
        f"| `{one.name}` | `{one.method} {one.path}` | `{one.scope}` | "
        + " | ".join("yes" if one.scope in expand_scopes([scope]) else "no" for scope in scopes)
        + " |"
        for one in OPERATIONS
    ]
    return HEAD + "\n".join((head, line, *rows)) + "\n"


if __name__ == "__main__":
    print(reference_page(), end="")  # noqa: T201  redirected into docs/reference/scopes.md
