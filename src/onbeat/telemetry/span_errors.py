"""What a span says of an error: its kind and where it was raised, without its message.

Messages quote arguments, answers and addresses. They stay in the history and in the log, which the
operator of the service has; spans go to where the operator of the collector wants them.
"""

import re
from typing import Final

FAILED: Final = "failed"
"""The kind of an error that is not an exception of a handler."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,199}", re.ASCII)
FRAME: Final = re.compile(r'  File "[^"]{1,1000}", line [0-9]+(, in [^ \n]{1,200})?')
FRAMES_MAX: Final = 100


def error_of(text: str) -> tuple[str, str]:
    """The type and the frames of a stored error: a traceback, or a sentence.

    Lines of code are left out as well: a line may hold a secret in a literal.
    """
    lines = text.split("\n")
    lines[0] = f"  {lines[0].lstrip()}"  # stored texts are stripped
    if FRAME.fullmatch(lines[0]) is None:
        return FAILED, ""
    # The message follows the frames, and may look like one itself.
    count = next((at for at, line in enumerate(lines) if not line.startswith("  ")), len(lines))
    frames = [line for line in lines[:count] if FRAME.fullmatch(line) is not None]
    name = "".join(lines[count : count + 1]).partition(":")[0]
    return name if NAME.fullmatch(name) else FAILED, "\n".join(frames[-FRAMES_MAX:])
