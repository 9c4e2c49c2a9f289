"""Examples below the help of a command."""


def examples(*lines: str) -> str:
    """An epilog whose lines are kept as they are."""
    word = "Examples" if len(lines) > 1 else "Example"
    return "\b\n" + "\n".join((f"{word}:", *(f"  {line}" for line in lines)))
