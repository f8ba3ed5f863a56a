"""A real kubectl for a running dray, as the administrator or as somebody else."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.process import DrayProcess

KUBECTLS = ("kubectl-1.27", "kubectl-1.36")


@dataclass(frozen=True)
class Kubectl:
    binary: str
    server: DrayProcess
    cache: Path
    identity: tuple[str, ...] = ()  # options that make kubectl somebody else

    def __call__(
        self, *arguments: str, stdin: str | None = None, code: int | None = 0, merged: bool = False
    ) -> str:
        """Its standard output, or with ``merged`` its errors too. ``code`` is the exit code to insist on."""
        config = () if "--kubeconfig" in self.identity else ("--kubeconfig", str(self.server.kubeconfig))
        done = subprocess.run(
            [self.binary, *config, *self.identity, "--cache-dir", str(self.cache), *arguments],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if code is not None:
            assert done.returncode == code, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr if merged else done.stdout

    def kubectl(self, *arguments: str, stdin: str | None = None, code: int | None = 0) -> str:
        """What kubectl prints, errors included."""
        return self(*arguments, stdin=stdin, code=code, merged=True)

    def get(self, *arguments: str) -> Any:
        return json.loads(self("get", *arguments, "-o", "json"))

    def apply(self, *objects: dict[str, Any], code: int = 0) -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(listed), code=code)

    def acting(self, *identity: str) -> Kubectl:
        """The same with other options: ``--as``, ``--as-group``, ``--kubeconfig``."""
        return replace(self, identity=identity)

    def bearing(self, token: str) -> Kubectl:
        """The same with a token and nothing else: without the administrator's certificate."""
        path = self.cache / f"token-{abs(hash(token))}"
        config = json.loads(self("config", "view", "--raw", "--minify", "-o", "json"))
        config["users"][0]["user"] = {"token": token} if token else {}
        path.write_text(json.dumps(config))
        return self.acting("--kubeconfig", str(path))
