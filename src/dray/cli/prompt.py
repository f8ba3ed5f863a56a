"""A prompt as shells have it: the line can be edited, Tab completes words, and a history stays from time to time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

_HISTORY_LINES = 500


@contextlib.contextmanager
def line_editing(words: Sequence[str], *, history: Path | None) -> Iterator[None]:
    """For the length of the block, ``input`` can do what readline can; without a history nobody types here."""
    try:
        import readline
    except ImportError:
        history = None
    if history is None:
        yield
        return
    readline.set_completer_delims(" \t\n()!&|,?:<>=")
    readline.set_completer(lambda text, state: completion(words, text, state))
    # libedit, which stands in for readline on some systems, has other words for the same.
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    readline.set_history_length(_HISTORY_LINES)
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.write_history_file(history)


def completion(words: Sequence[str], text: str, state: int) -> str | None:
    """The ``state``-th word that goes on from ``text``."""
    found = [word for word in words if word.startswith(text)]
    return found[state] if state < len(found) else None
