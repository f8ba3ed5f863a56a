"""The batch group: pods that run to completion, once or by the clock."""

from __future__ import annotations

from dray.api.groups.batch import cronjob, job
from dray.api.quirks import APIQuirks
from dray.api.scheme.kinds import Kind


def kinds(quirks: APIQuirks) -> tuple[Kind, ...]:
    return (cronjob.kind(quirks), job.kind(quirks))
