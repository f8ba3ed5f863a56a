"""``python -m dray.envtest kube-apiserver|etcd FLAGS``: what the stand-ins run."""

from __future__ import annotations

import sys


def main() -> int:
    role, *flags = sys.argv[1:] or [""]
    if "--version" in flags:
        from dray import __version__

        print(f"dray {__version__} as {role}")
        return 0
    asked = not {"--help", "-h"}.isdisjoint(flags)
    if role == "kube-apiserver":
        from dray.envtest import apiserver

        return _say(apiserver.usage()) if asked else apiserver.run(flags)
    if role == "etcd":
        from dray.envtest import etcd

        return _say(etcd.usage()) if asked else etcd.run(flags)
    print(f"dray.envtest: there is no stand-in {role!r}: kube-apiserver, etcd", file=sys.stderr)
    return 2


def _say(text: str) -> int:
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
