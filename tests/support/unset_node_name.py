"""The webhook of ``examples/unset-node-name``, registered while a test needs it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from tests.support.kubectl import Kubectl
from tests.support.paths import EXAMPLES


@contextlib.contextmanager
def unset_node_name_program() -> Iterator[str]:
    """The webhook serves. Yields the manifest that registers it."""
    program = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "unset-node-name" / "webhook.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout is not None
        lines = []
        for line in program.stdout:
            lines.append(line)
            if line == "}\n":
                break
        yield "".join(lines)
    finally:
        program.terminate()
        program.wait(10)


@contextlib.contextmanager
def unset_node_name_webhook(cluster: Kubectl) -> Iterator[None]:
    with unset_node_name_program() as manifest:
        cluster.kubectl("apply", "-f", "-", stdin=manifest)
        yield
        cluster.kubectl("delete", "-f", "-", stdin=manifest)
