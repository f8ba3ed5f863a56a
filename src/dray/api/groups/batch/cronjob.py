"""Cron jobs: jobs made by the clock."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.apps.workload import TEMPLATE_COLUMNS, check_counts, selector_cell, template_cells
from dray.api.groups.batch.cron import Schedule, ScheduleError
from dray.api.groups.batch.jobspec import check_spec, default_failure_policy, warn_spec
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.podtemplate import codecs, drop_disabled_fields
from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import (
    METADATA,
    SPEC,
    Context,
    SpecAndStatusStrategy,
    StatusStrategy,
    generation,
)
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.batch import CronJob, CronJobSpec

_CONCURRENCY: Final = ("Allow", "Forbid", "Replace")
_JOB_SPEC: Final = SPEC.child("jobTemplate", "spec")
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch
#: A job's name has eleven characters more than its cron job's, and at most 63.
_LONGEST_NAME: Final = 52


def kind(quirks: APIQuirks) -> Kind:
    def default(obj: CronJob) -> None:
        spec = obj.setdefault("spec", {})
        job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
        default_template(job.setdefault("template", {}))
        default_failure_policy(job)
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)

    version = Version(
        name="v1",
        type="batch/v1.CronJob",
        default=default,
        **codecs(quirks, "spec", "jobTemplate", "spec", "template"),
    )
    return Kind(
        group="batch",
        kind="CronJob",
        plural="cronjobs",
        short_names=("cj",),
        categories=("all",),
        versions=(version,),
        storage="v1",
        strategy=CronJobStrategy(),
        subresources={"status": StatusStrategy()},
        printer=printers.printer(
            (
                printers.NAME,
                Column("Schedule", description="When jobs are due."),
                Column("Timezone", description="The time zone of the schedule."),
                Column("Suspend", type="boolean", description="Whether no jobs are made for now."),
                Column("Active", type="integer", description="How many jobs are running."),
                Column("Last Schedule", description="When a job was last made."),
                printers.AGE,
                *TEMPLATE_COLUMNS,
            ),
            _cells,
        ),
    )


class CronJobStrategy(SpecAndStatusStrategy["CronJob"]):
    def prepare_create(self, obj: CronJob, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        drop_disabled_fields(obj["spec"]["jobTemplate"]["spec"]["template"], None, ctx)

    def prepare_update(self, new: CronJob, old: CronJob, ctx: Context) -> None:
        template, before = (x["spec"]["jobTemplate"]["spec"]["template"] for x in (new, old))
        drop_disabled_fields(template, before, ctx)
        super().prepare_update(new, old, ctx)

    def validate(self, obj: CronJob, ctx: Context) -> Sequence[FieldError]:
        found = _check(obj["spec"], {}, ctx)
        name = obj["metadata"].get("name", "")
        if len(name) > _LONGEST_NAME:
            words = f"must be no more than {_LONGEST_NAME} characters"
            found.append(field.invalid(METADATA.child("name"), name, words))
        return found

    def validate_update(self, new: CronJob, old: CronJob, ctx: Context) -> Sequence[FieldError]:
        return _check(new["spec"], old["spec"], ctx)

    def warn(self, obj: CronJob, ctx: Context) -> Sequence[str]:
        found = []
        if messages := names.dns1123_label(obj["metadata"].get("name", "")):
            listed = " ".join(messages)
            found.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
                f"a DNS label is recommended: [{listed}]"
            )
        return [*found, *warn_spec(obj["spec"]["jobTemplate"]["spec"], _JOB_SPEC)]

    def warn_update(self, new: CronJob, old: CronJob, ctx: Context) -> Sequence[str]:
        found: list[str] = []
        if generation(new) != generation(old):
            found += warn_spec(new["spec"]["jobTemplate"]["spec"], _JOB_SPEC)
        if "TZ" in new["spec"].get("schedule", ""):
            found.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
        return found


def _check(spec: CronJobSpec, old: CronJobSpec, ctx: Context) -> list[FieldError]:
    found = _check_schedule(spec, old)
    found += check_counts(spec, SPEC, "startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None and (not old or zone != old.get("timeZone")):
        found += _check_zone(zone)
    found += checks.one_of(spec.get("concurrencyPolicy", ""), SPEC.child("concurrencyPolicy"), _CONCURRENCY)
    job = spec["jobTemplate"]["spec"]
    found += check_spec(job, _JOB_SPEC, ctx)
    if job.get("selector") is not None:
        words = "`selector` will be auto-generated"
        found.append(field.invalid(_JOB_SPEC.child("selector"), job["selector"], words))
    if job.get("manualSelector"):
        found.append(field.not_supported(_JOB_SPEC.child("manualSelector"), True, ("nil", "false")))
    return found + check_counts(spec, SPEC, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _check_schedule(spec: CronJobSpec, old: CronJobSpec) -> list[FieldError]:
    schedule, path = spec.get("schedule", ""), SPEC.child("schedule")
    if not schedule:
        return [field.required(path)]
    found: list[FieldError] = []
    bare = re.sub(r"^(CRON_)?TZ=\S+\s+", "", schedule)
    try:
        Schedule.parse(bare)
    except ScheduleError as problem:
        found.append(field.invalid(path, schedule, str(problem)))
    if "TZ" in schedule:
        if "TZ" not in old.get("schedule", ""):
            words = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            found.append(field.invalid(path, schedule, words))
        elif spec.get("timeZone") is not None:
            words = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            found.append(field.invalid(path, schedule, words))
    return found


def _check_zone(zone: str) -> list[FieldError]:
    path = SPEC.child("timeZone")
    if not zone:
        return [field.invalid(path, zone, "timeZone must be nil or non-empty string")]
    unknown = [field.invalid(path, zone, f"unknown time zone {zone}")]
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART(part) for part in zone.split("/")):
        return unknown
    if zone.lower() == "local":
        words = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [field.invalid(path, zone, words)]
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return unknown
    return []


def _cells(obj: CronJob, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspended = spec.get("suspend")
    last = status.get("lastScheduleTime")
    return (
        printers.name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone", "<none>"),
        "<unset>" if suspended is None else "True" if suspended else "False",
        len(status.get("active") or ()),
        printers.since(last, now) if last else "<none>",
        printers.age(obj, now),
        *template_cells(job),
        selector_cell(job),
    )
