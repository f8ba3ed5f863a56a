"""The batch group: pods that run to completion, once or by the clock."""

from __future__ import annotations

from dray.api.batch import cronjob, job
from dray.api.kinds import Kind
from dray.api.release import Release


def kinds(release: Release) -> tuple[Kind, ...]:
    return (cronjob.kind(release), job.kind(release))
