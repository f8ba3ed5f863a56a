"""Strategies: what happens to an object when it is created, changed or deleted, and what is checked then.

``Strategy`` and ``UpdateStrategy`` are what a kind provides; the others are for many kinds: how names are checked, and
how spec and status are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from dray.api.golang import structs
from dray.api.quirks import NEWEST_QUIRKS, APIQuirks
from dray.api.release import Gates
from dray.api.user import ANONYMOUS, UserInfo
from dray.api.validation import field, names
from dray.api.validation.cache import GeneratedName, ValidationCache
from dray.api.validation.expressions import (
    Compiler,
    PolicyCompiler,
    RuleCompiler,
    accept_any_policy,
    accept_any_rule,
    accept_anything,
)
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types import Object

T = TypeVar("T")
_R = TypeVar("_R")

METADATA = Path("metadata")
SPEC = Path("spec")
STATUS = Path("status")


def _no_namespace(name: str) -> Mapping[str, str] | None:
    return None


def _allow(verb: str, group: str, resource: str, subresource: str, namespace: str, name: str) -> bool:
    return True


class Context(NamedTuple):
    """What a strategy may know beside the object: gates, the time, the caller, and some look-ups."""

    gates: Gates
    quirks: APIQuirks = NEWEST_QUIRKS
    now: str = ""  # RFC 3339, seconds
    user: UserInfo = ANONYMOUS
    namespace_labels: Callable[[str], Mapping[str, str] | None] = _no_namespace
    allows: Callable[[str, str, str, str, str, str], bool] = _allow  # may the caller do this other thing?
    verb: str = "update"  # what the caller is doing: create, update, patch, ...
    expressions: Compiler = accept_anything
    policies: PolicyCompiler = accept_any_policy
    rules: RuleCompiler = accept_any_rule  # those of custom resources' schemas
    validation_cache: ValidationCache | None = None  # results of costly checks
    version: str = ""  # of the API, in which the caller speaks

    def once(
        self,
        what: str,
        check: Callable[[], Sequence[_R]],
        *parts: Any,
        generated: GeneratedName | None = None,
    ) -> Sequence[_R]:
        """What a pure check finds in these parts, all that it looks at beside the gates and the compilers."""
        known = self.validation_cache
        return check() if known is None else known.once(what, check, *parts, generated=generated)


class UpdateStrategy(Generic[T]):
    """How an object is changed through one resource: the main one or a subresource such as ``status``.

    This is upstream's RESTUpdateStrategy. Objects are hub dicts. ``prepare_*`` may change ``new`` in place, never ``old``.
    """

    #: Paths that writes through this resource never change, such as ``(("metadata",), ("spec",))``, so that no field
    #: manager comes to own them. None: ``status`` for a kind with a status subresource, ``spec`` for a subresource.
    reset: tuple[tuple[str, ...], ...] | None = None
    #: The rules for updates look at the whole metadata once more, and clients see such causes once more.
    rechecks_metadata = False
    #: Upstream declares rules for the fields of the kind, and then says everything only once.
    has_declared_rules = False

    def prepare_update(self, new: T, old: T, ctx: Context) -> None:
        """Reset what this resource must not change; drop gated fields that ``old`` does not use."""

    def validate_update(self, new: T, old: T, ctx: Context) -> Sequence[FieldError]:
        return ()

    def warn_update(self, new: T, old: T, ctx: Context) -> Sequence[str]:
        return ()


class Checked(NamedTuple):
    """What is found in a new object. One that is refused is not warned about."""

    problems: Sequence[FieldError]
    warnings: Sequence[str] = ()


NOTHING_FOUND: Final = Checked(())


class Strategy(UpdateStrategy[T]):
    """How objects of a kind are created, changed and deleted: upstream's RESTCreateStrategy and RESTDeleteStrategy."""

    #: PUT without a resourceVersion overwrites whatever is there.
    unconditional_update = True
    #: PUT of a name that does not exist creates it.
    create_on_update = False
    #: DELETE answers with the deleted object; otherwise with a Status.
    delete_returns_object = False
    #: DELETE without a propagation policy leaves the dependents, as it did before there was a garbage collector.
    orphans_dependents = False
    #: How metadata.name is checked: called with (name, is_prefix), returns messages.
    check_name: Callable[[str, bool], Sequence[str]] | None = None

    def prepare_create(self, obj: T, ctx: Context) -> None:
        """Clear status, set generation, drop gated fields."""

    def check(self, obj: T, ctx: Context) -> Checked:
        """What ``validate`` and ``warn`` find."""
        problems = self.validate(obj, ctx)
        return Checked(problems, () if problems else self.warn(obj, ctx))

    def validate(self, obj: T, ctx: Context) -> Sequence[FieldError]:
        return ()

    def warn(self, obj: T, ctx: Context) -> Sequence[str]:
        return ()

    def canonicalize(self, obj: T) -> None:
        """Last touches before storing, after validation and once a generated name is known."""

    def grace(self, obj: T, requested: int | None) -> int | None:
        """Seconds to wait before the object is really removed; None: this kind knows no graceful deletion."""
        return None

    def begin_deletion(self, obj: T, ctx: Context) -> None:
        """Mark an object whose deletion has just begun and that stays for now (its deletionTimestamp is set)."""

    def held(self, obj: T) -> bool:
        """Whether something beside metadata.finalizers and grace keeps a deleted object (a namespace's finalizers)."""
        return False


def mask_trailing_dash(check: Callable[[str], Sequence[str]]) -> Callable[[str, bool], Sequence[str]]:
    """A name check that allows the dash at which a generateName prefix usually ends."""

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


def update_generation(new: Any, old: Any, *, changed: bool) -> None:
    """Keep the old generation, one higher if what it counts has changed."""
    count = generation(old) + changed
    if count:
        new["metadata"]["generation"] = count
    else:
        new["metadata"].pop("generation", None)


def keep_fields(new: Any, old: Any, *parts: str) -> None:
    """Take top-level parts of the object over from the old one."""
    for part in parts:
        if part in old:
            new[part] = old[part]
        else:
            new.pop(part, None)


class SubdomainStrategy(Strategy[T]):
    """An object named by a DNS subdomain, without further rules."""

    check_name = staticmethod(name_is_dns_subdomain)


class SpecAndStatusStrategy(SubdomainStrategy[T]):
    """Spec and status are written through separate resources, and the generation counts changes of the spec."""

    #: What a status without content looks like on the wire.
    empty_status: ClassVar[Mapping[str, Any]] = {}
    #: Whether changed annotations count as a new generation too.
    annotations_count = False

    def prepare_create(self, obj: Any, ctx: Context) -> None:
        obj["status"] = dict(self.empty_status)
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Any, old: Any, ctx: Context) -> None:
        keep_fields(new, old, "status")
        changed = new.get("spec") != old.get("spec")
        if self.annotations_count:
            changed |= new["metadata"].get("annotations") != old["metadata"].get("annotations")
        update_generation(new, old, changed=changed)

    def validate_update(self, new: T, old: T, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


class StatusStrategy(UpdateStrategy[T]):
    """The status subresource: everything but status and metadata stays as it was."""

    kept: tuple[str, ...] = ("spec",)

    def prepare_update(self, new: T, old: T, ctx: Context) -> None:
        keep_fields(new, old, *self.kept)
        update_generation(new, old, changed=False)
