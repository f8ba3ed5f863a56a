"""coordination.k8s.io: leases, by which components elect leaders and nodes show that they live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, Context, SubdomainStrategy
from dray.api.validation import field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.coordination import Lease

_GATE = "CoordinatedLeaderElection"


class LeaseStrategy(SubdomainStrategy["Lease"]):
    create_on_update = True
    unconditional_update = False

    def prepare_create(self, obj: Lease, ctx: Context) -> None:
        self.prepare_update(obj, {}, ctx)

    def prepare_update(self, new: Lease, old: Lease, ctx: Context) -> None:
        if _GATE in ctx.gates:
            return
        spec, before = new.get("spec", {}), old.get("spec", {})
        if "strategy" not in before:
            spec.pop("strategy", None)
        if "preferredHolder" not in before:
            spec.pop("preferredHolder", None)

    def validate(self, obj: Lease, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        found: list[FieldError] = []
        if (duration := spec.get("leaseDurationSeconds")) is not None and duration <= 0:
            path = SPEC.child("leaseDurationSeconds")
            found.append(field.invalid(path, duration, "must be greater than 0"))
        if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
            path = SPEC.child("leaseTransitions")
            found.append(field.invalid(path, transitions, "must be greater than or equal to 0"))
        if spec.get("preferredHolder") and not spec.get("strategy"):
            words = "may only be specified if `strategy` is defined"
            found.append(field.forbidden(SPEC.child("preferredHolder"), words))
        return found

    def validate_update(self, new: Lease, old: Lease, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


LEASE = Kind(
    group="coordination.k8s.io",
    kind="Lease",
    plural="leases",
    versions=(Version(name="v1", type="coordination/v1.Lease"),),
    storage="v1",
    strategy=LeaseStrategy(),
    printer=printers.printer(
        (printers.NAME, Column("Holder", description="Who holds the lease."), printers.AGE),
        lambda obj, now: (
            printers.name(obj),
            obj.get("spec", {}).get("holderIdentity", ""),
            printers.age(obj, now),
        ),
    ),
)
KINDS = (LEASE,)
