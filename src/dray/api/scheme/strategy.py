"""Rules that many kinds share: how names are checked, and how spec and status are kept apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from dray.api.golang import structs
from dray.api.scheme.kinds import Context, Object, Strategy, UpdateStrategy
from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path

METADATA = Path("metadata")
SPEC = Path("spec")
STATUS = Path("status")


def mask_trailing_dash(check: Callable[[str], Sequence[str]]) -> Callable[[str, bool], Sequence[str]]:
    """A name check that forgives the dash at which a generateName prefix usually ends."""

    def check_name(name: str, is_prefix: bool) -> Sequence[str]:
        if is_prefix and len(name) > 1 and name.endswith("-"):
            name = name[:-2] + "a"
        return check(name)

    return check_name


name_is_dns_subdomain = mask_trailing_dash(names.dns1123_subdomain)
name_is_dns_label = mask_trailing_dash(names.dns1123_label)


def name_is_path_segment(name: str, is_prefix: bool) -> Sequence[str]:
    """Names that need only be usable in a URL."""
    return names.path_segment_prefix(name) if is_prefix else names.path_segment(name)


def immutable(new: Any, old: Any, path: Path, *, type_name: str = "") -> Sequence[FieldError]:
    """An error if a part has changed; a struct is shown as upstream prints one of its type."""
    if new == old:
        return ()
    shown = structs.render(type_name, new) if type_name else new
    return (field.invalid(path, shown, "field is immutable"),)


def generation(obj: Object) -> int:
    return int(obj["metadata"].get("generation", 0))


def update_generation(new: Object, old: Object, *, changed: bool) -> None:
    """Keep the old generation, one higher if what it counts has changed."""
    count = generation(old) + changed
    if count:
        new["metadata"]["generation"] = count
    else:
        new["metadata"].pop("generation", None)


def keep_fields(new: Object, old: Object, *parts: str) -> None:
    """Take top-level parts of the object over from the old one."""
    for part in parts:
        if part in old:
            new[part] = old[part]
        else:
            new.pop(part, None)


class SubdomainStrategy(Strategy):
    """An object named by a DNS subdomain, without further rules."""

    check_name = staticmethod(name_is_dns_subdomain)


class SpecAndStatusStrategy(SubdomainStrategy):
    """Spec and status are written through separate doors, and the generation counts changes of the spec."""

    #: What a status without content looks like on the wire.
    empty_status: ClassVar[Mapping[str, Any]] = {}
    #: Whether changed annotations count as a new generation too.
    annotations_count = False

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        obj["status"] = dict(self.empty_status)
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        keep_fields(new, old, "status")
        changed = new.get("spec") != old.get("spec")
        if self.annotations_count:
            changed |= new["metadata"].get("annotations") != old["metadata"].get("annotations")
        update_generation(new, old, changed=changed)

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


class StatusStrategy(UpdateStrategy):
    """The status door: everything but status and metadata stays as it was."""

    kept: tuple[str, ...] = ("spec",)

    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        keep_fields(new, old, *self.kept)
        update_generation(new, old, changed=False)
