"""Writes the types of documents, ``dray.api.types``, from the description of the API in ``dray.api.schema``.

``python scripts/document_types.py`` writes them; with ``--check`` it only says which ones are stale, and fails then.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from dray.api import schema
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf

ROOT: Final = Path(__file__).parents[1] / "src/dray/api"
#: Groups whose older versions components read too, as an older server or a driver of its time writes them.
READ_IN_ALL_VERSIONS: Final = ("resource",)
LEAVES: Final = {
    "string": "str",
    "bool": "bool",
    "int32": "int",
    "int64": "int",
    "float64": "float",
    "quantity": "str",
    "intorstring": "int | str",
    "time": "str",
    "microtime": "str",
    "duration": "str",
    "bytes": "str",
    "raw": "Any",
}
BUILTINS: Final = re.compile(r"\b(str|bool|int|float)\b")


class Package(NamedTuple):
    """A version of a group, such as ``core/v1``: one file of descriptions and one module of types."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def age(self) -> tuple[int, int, int]:
        """Sorts versions, the newest last: a stable one is newer than every beta."""
        major, stage, minor = re.findall(r"v(\d+)(alpha|beta|)(\d*)", self.version)[0]
        return (("alpha", "beta", "").index(stage), int(major), int(minor or 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something is stale")
    check = parser.parse_args().check
    folder = ROOT / "types"
    wanted = {folder / f"{name}.py": text for name, text in modules().items()}
    stale = {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}
    left_over = set(folder.glob("*.py")) - set(wanted) - {folder / "__init__.py"}
    if check and (stale or left_over):
        names = ", ".join(sorted(path.stem for path in {*stale, *left_over}))
        sys.exit(f"types of documents are stale, `make types` writes them anew: {names}")
    for path, text in stale.items():
        path.write_text(text)
    for path in left_over:
        path.unlink()


def modules() -> dict[str, str]:
    """The text of each module, by its name."""
    packages = [
        Package(*path.stem.rsplit("_", 1)) for path in sorted((ROOT / "schema/types").glob("*.types"))
    ]
    newest = {package.group: package for package in sorted(packages, key=lambda p: p.age)}
    names: dict[str, str] = {}
    for package in sorted(packages, key=lambda p: p.age, reverse=True):
        hub = newest[package.group] == package
        if hub or package.group in READ_IN_ALL_VERSIONS or _has_kinds_of_its_own(package, packages):
            names[str(package)] = package.group if hub else f"{package.group}_{package.version}"
    whole = set(_elements(names)) - set(_parts(names))
    shapes = {name: Module(package, names, whole) for package, name in names.items()}
    return {
        name: module.text()
        for name, module in shapes.items()
        if name in newest or sorted(module.classes) != sorted(shapes[name.partition("_")[0]].classes)
    }


def _has_kinds_of_its_own(package: Package, packages: list[Package]) -> bool:
    """Whether a kind is newest in this version, as alpha kinds of a stable group are."""
    newer = [p for p in packages if p.group == package.group and p.age > package.age]
    known = {name.rpartition(".")[2] for p in newer for name in schema.structs(str(p))}
    return any(struct.short not in known for struct in _structs(str(package)) if "kind" in struct.by_name)


def _structs(package: str) -> list[Struct]:
    return [schema.type_of(name) for name in schema.structs(package)]


def _parts(packages: dict[str, str]) -> Iterator[str]:
    """The structs that stand in a field of their own, and those that are whole objects."""
    for package in packages:
        for struct in _structs(package):
            if {"kind", "apiVersion", "metadata"} <= set(struct.by_name):
                yield struct.name
            yield from (f.type.name for f in struct.fields if isinstance(f.type, Struct))


def _elements(packages: dict[str, str]) -> Iterator[str]:
    """The structs that stand in lists and maps."""

    def inside(type_: Type) -> Iterator[str]:
        match type_:
            case ListOf(item=Struct() as struct) | MapOf(value=Struct() as struct):
                yield struct.name
            case ListOf(item=inner) | MapOf(value=inner):
                yield from inside(inner)

    for package in packages:
        for struct in _structs(package):
            for field in struct.fields:
                yield from inside(field.type)


class Module:
    """The types of one package. ``names`` says which module another package is in, ``whole`` which structs are never
    missing where they stand."""

    def __init__(self, package: str, names: dict[str, str], whole: set[str]) -> None:
        self._package = package
        self._names = names
        self._whole = whole
        structs = _structs(package)
        self._own = {struct.short for struct in structs}
        self._imported: dict[str, set[str]] = defaultdict(set)
        self.classes = [
            _class(struct.short, {field.name: self._annotation(struct, field) for field in struct.fields})
            for struct in structs
        ]

    def text(self) -> str:
        body = "\n\n\n".join(self.classes)
        return f"{self._head(body)}\n\n{body}\n"

    def _annotation(self, struct: Struct, field: Field) -> str:
        text = self._written(field.type)
        return f"Required[{text}]" if field.emit == "required" and struct.name in self._whole else text

    def _written(self, type_: Type) -> str:
        match type_:
            case Scalar(base=base):
                return LEAVES[base]
            case ListOf(item=item):
                return f"Sequence[{self._written(item)}]"
            case MapOf(value=value):
                return f"Mapping[str, {self._written(value)}]"
            case UnionOf(options=options):
                return " | ".join(self._written(option) for option in options)
            case Struct(name=name):
                return self._named(*name.rsplit(".", 1))

    def _named(self, package: str, struct: str) -> str:
        if package == self._package:
            return struct
        here = f"{package.partition('/')[0].capitalize()}{struct}" if struct in self._own else struct
        self._imported[self._names[package]].add(struct if here == struct else f"{struct} as {here}")
        return here

    def _head(self, body: str) -> str:
        source = f"{self._package.replace('/', '_')}.types"
        lines = [
            f'"""The structs of {self._package} as types of documents.',
            "",
            f"Written by ``make types`` from ``api/schema/types/{source}``; not to be edited.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
        ]
        if "builtins." in body:
            lines.append("import builtins")
        if containers := [name for name in ("Mapping", "Sequence") if f"{name}[" in body]:
            lines.append(f"from collections.abc import {', '.join(containers)}")
        typing = {
            "TYPE_CHECKING": bool(self._imported),
            "Any": re.search(r"\bAny\b", body),
            "Required": "Required[" in body,
            "TypedDict": True,
        }
        lines.append(f"from typing import {', '.join(name for name, used in typing.items() if used)}")
        if self._imported:
            lines += ["", "if TYPE_CHECKING:"]
        for module, structs in sorted(self._imported.items()):
            lines += _import(module, sorted(structs))
        return "\n".join([*lines, ""])


def _import(module: str, structs: list[str]) -> list[str]:
    start = f"    from dray.api.types.{module} import "
    line = start + ", ".join(structs)
    if len(line) <= 110:
        return [line]
    return [f"{start}(", *(f"        {struct}," for struct in structs), "    )"]


def _class(name: str, fields: dict[str, str]) -> str:
    if any(not key.isidentifier() or keyword.iskeyword(key) for key in fields):
        # Such names can only be written as text. The types then stand there as values, so they are quoted.
        lines = [f'        "{key}": "{text}",' for key, text in fields.items()]
        return "\n".join(
            [f"{name} = TypedDict(", f'    "{name}",', "    {", *lines, "    },", "    total=False,", ")"]
        )
    lines = [f"class {name}(TypedDict, total=False):"]
    if any(BUILTINS.fullmatch(key) for key in fields):
        # A field named "int" hides the type of that name from the fields beside it.
        fields = {key: BUILTINS.sub(r"builtins.\1", text) for key, text in fields.items()}
    lines += [f"    {key}: {text}" for key, text in fields.items()]
    return "\n".join(lines if fields else [*lines, "    pass"])


if __name__ == "__main__":
    main()
