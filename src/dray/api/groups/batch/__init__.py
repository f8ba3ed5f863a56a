"""The batch group: pods that run to completion, once or by the clock."""

from __future__ import annotations

from dray.api.groups.batch import cronjob, job
from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import Kind


def kinds(release: EffectiveVersion) -> tuple[Kind, ...]:
    return (cronjob.kind(release), job.kind(release))
