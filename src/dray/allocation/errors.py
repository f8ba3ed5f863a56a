"""What makes allocation impossible to decide, in upstream's words.

    AllocationError        the claims, classes or slices are at fault: no node can help
    └── AllocationTimeout  the deadline passed before the search ended

A node that merely has no fitting devices is an outcome, not an error: see ``Unallocatable``.
"""

from __future__ import annotations


class AllocationError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class AllocationTimeout(AllocationError):
    def __init__(self, message: str = "filter operation aborted: context deadline exceeded") -> None:
        super().__init__(message)
