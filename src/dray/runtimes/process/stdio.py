"""A container's standard input, and the sessions attached to its output. A slow session cannot hold up the supervisor."""

from __future__ import annotations

import contextlib
import os
import selectors
from collections import deque
from collections.abc import Callable, Mapping

Done = Callable[[], None]


class Input:
    """Standard input. What the container does not read yet waits here, and the writer gets its answer later."""

    def __init__(self, handle: int, selector: selectors.BaseSelector) -> None:
        os.set_blocking(handle, False)
        self._handle = handle
        self._selector = selector
        self._waiting: deque[tuple[memoryview, Done]] = deque()
        self._registered = False
        self._ended = self._closed = False

    def write(self, data: bytes, done: Done) -> None:
        if self._ended or not data:
            done()
            return
        self._waiting.append((memoryview(data), done))
        self._go_on()

    def end(self) -> None:
        """Closes it after what has been written."""
        self._ended = True
        self._go_on()

    def close(self) -> None:
        """Closes it now; what has not been read is lost."""
        if self._closed:
            return
        self._ended = self._closed = True
        self._listen(False)
        os.close(self._handle)
        while self._waiting:
            self._waiting.popleft()[1]()

    def _go_on(self, _: object = None) -> None:
        while self._waiting:
            data, done = self._waiting.popleft()
            try:
                rest = data[os.write(self._handle, data) :]
            except BlockingIOError:
                rest = data
            except OSError:  # the container has closed its input
                done()
                self.close()
                return
            if rest:
                self._waiting.appendleft((rest, done))
                self._listen(True)
                return
            done()
        self._listen(False)
        if self._ended:
            self.close()

    def _listen(self, on: bool) -> None:
        if on and not self._registered:
            self._selector.register(self._handle, selectors.EVENT_WRITE, self._go_on)
        elif self._registered and not on:
            self._selector.unregister(self._handle)
        self._registered = on


class Attachment:
    """Somebody who is attached to a container's output. One who does not keep up misses something; the log does not."""

    def __init__(self, streams: Mapping[str, int]) -> None:
        self._streams = dict(streams)
        for handle in self._streams.values():
            os.set_blocking(handle, False)

    def tell(self, stream: str, data: bytes) -> bool:
        """False when they are gone."""
        handle = self._streams.get(stream)
        if handle is None:
            return False
        try:
            os.write(handle, data)
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def close(self) -> None:
        while self._streams:
            with contextlib.suppress(OSError):
                os.close(self._streams.popitem()[1])
