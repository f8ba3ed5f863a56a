"""Regenerates the message classes of the gRPC services that dray speaks (needs grpcio-tools).

The results are committed, so that installing dray needs neither a compiler nor protoc.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
#: Folders with .proto files, and whether type stubs are wanted beside the classes.
FOLDERS = {"dray/kubelet_api": False, "dray/store/etcd_api": True}
# The generated code insists on a protobuf runtime at least as new as the compiler, though nothing in it has changed
# for years; without that check any protobuf that dray's dependencies allow will do.
_RUNTIME_CHECK = re.compile(
    r"^from google\.protobuf import runtime_version.*?\n|^_runtime_version\.Validate.*?^\)\n",
    re.MULTILINE | re.DOTALL,
)


def main() -> None:
    from grpc_tools import protoc

    for folder, stubs in FOLDERS.items():
        protos = sorted(map(str, (SOURCE / folder).glob("*.proto")))
        out = [f"--python_out={SOURCE}", *([f"--pyi_out={SOURCE}"] if stubs else [])]
        if protoc.main(["protoc", f"-I{SOURCE}", *out, *protos]) != 0:
            sys.exit(1)
        for path in (SOURCE / folder).glob("*_pb2.py"):
            path.write_text(_RUNTIME_CHECK.sub("", path.read_text()))


if __name__ == "__main__":
    main()
