"""The notation in which the cluster's own roles and bindings are written down.

A role begins with ``= NAME``. One line is one rule: ``VERBS GROUPS RESOURCES [NAMES]`` or ``VERBS url PATHS``, each a
list with commas; the empty group is ``core``. ``read``, ``write``, ``readwrite`` and ``readupdate`` stand for several
verbs, and a line ``events`` for the right to report events. A role that others are gathered into has ``<NAME``, those
that are gathered have ``>NAME``. ``@Gate`` keeps a role, rule or binding to clusters with that feature,
``!Gate`` to those without it, and ``?plural`` to those that serve such a kind of resource.k8s.io.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Final

from dray.server.auth.rbac.rules import PolicyRule

_VERBS: Final = {
    "read": ("get", "list", "watch"),
    "readupdate": ("get", "list", "patch", "update", "watch"),
    "readwrite": ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
}
_EVENTS: Final = PolicyRule(("create", "patch", "update"), ("", "events.k8s.io"), ("events",))

#: Says whether a condition (``@Gate``, ``!Gate`` or ``?plural``) holds.
Holds = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Role:
    namespace: str
    name: str
    rules: tuple[PolicyRule, ...]
    gathers: str = ""  # <NAME
    gathered: str = ""  # >NAME


@dataclass(frozen=True, slots=True)
class Binding:
    namespace: str
    name: str
    role: str
    subjects: tuple[tuple[str, str, str], ...]  # kind, namespace, name


def _lines(file: str) -> Iterator[str]:
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def _conditional(words: list[str], holds: Holds) -> list[str] | None:
    """The words without their conditions; None where one does not hold."""
    conditions = [w for w in words if w[0] in "@!?"]
    return [w for w in words if w[0] not in "@!?"] if all(map(holds, conditions)) else None


def roles(file: str, holds: Holds) -> Iterator[Role]:
    head: list[str] | None = None
    rules: list[PolicyRule] = []
    for line in _lines(file):
        words = line.split()
        if words[0] == "=":
            if head is not None:
                yield _role(head, rules)
            head, rules = _conditional(words[1:], holds), []
        elif (kept := _conditional(words, holds)) is not None:
            rules.append(_rule(kept))
    if head is not None:
        yield _role(head, rules)


def _role(head: list[str], rules: list[PolicyRule]) -> Role:
    namespace, _, name = head[0].rpartition("/")
    marks = {word[0]: word[1:] for word in head[1:]}
    return Role(namespace, name, tuple(rules), marks.get("<", ""), marks.get(">", ""))


def _rule(words: list[str]) -> PolicyRule:
    if words == ["events"]:
        return _EVENTS
    verbs = _VERBS.get(words[0]) or tuple(words[0].split(","))
    if words[1] == "url":
        return PolicyRule(verbs, urls=tuple(words[2].split(",")))
    groups = tuple("" if group == "core" else group for group in words[1].split(","))
    names = tuple(words[3].split(",")) if len(words) > 3 else ()
    return PolicyRule(verbs, groups, tuple(words[2].split(",")), names)


_SUBJECTS: Final = {"user": "User", "group": "Group", "account": "ServiceAccount"}


def bindings(file: str, holds: Holds) -> Iterator[Binding]:
    for line in _lines(file):
        words = _conditional(line.split(), holds)
        if words is None:
            continue
        namespace, _, name = words[0].rpartition("/")
        role = next((w[1:] for w in words[1:] if w.startswith("=")), name)
        yield Binding(namespace, name, role, tuple(_subject(w) for w in words[1:] if not w.startswith("=")))


def _subject(word: str) -> tuple[str, str, str]:
    kind, _, rest = word.partition(":")
    if kind == "account":
        namespace, _, name = rest.partition("/")
        return _SUBJECTS[kind], namespace, name
    return _SUBJECTS[kind], "", rest
