"""``python -m dray.envtest kube-apiserver|etcd FLAGS``: what the stand-ins run."""

from __future__ import annotations

import sys


def main() -> int:
    role, *flags = sys.argv[1:] or [""]
    if "--version" in flags:
        from dray import __version__

        print(f"dray {__version__} as {role}")
        return 0
    if role == "kube-apiserver":
        from dray.envtest.apiserver import run

        return run(flags)
    if role == "etcd":
        from dray.envtest.etcd import run as run_etcd

        return run_etcd(flags)
    print(f"dray.envtest: there is no stand-in {role!r}: kube-apiserver, etcd", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
