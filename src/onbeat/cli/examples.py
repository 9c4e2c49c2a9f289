"""Examples below the help of a command."""


def examples(*lines: str) -> str:
    """An epilog that keeps its lines."""
    word = "Examples" if len(lines) > 1 else "Example"
    return "\b\n" + "\n".join((f"{word}:", *(f"  {line}" for line in lines)))
