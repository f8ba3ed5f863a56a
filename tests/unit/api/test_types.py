"""The types of documents: they say what the schema says, and cost nothing at run time."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from typing import Any

import pytest

from dray.api import schema
from tests.support.paths import ROOT


def test_the_types_are_as_the_schema_says() -> None:
    script = ROOT / "scripts/document_types.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "package", ["core/v1", "meta/v1", "apiextensions/v1", "resource/v1", "resource/v1alpha2"]
)
def test_every_field_of_a_struct_is_a_key_of_its_type(package: str) -> None:
    group, version = package.split("/")
    module: Any = importlib.import_module(
        f"dray.api.types.{group if version == 'v1' else f'{group}_{version}'}"
    )
    for name in schema.structs(package):
        struct = schema.type_of(name)
        assert list(getattr(module, struct.short).__annotations__) == [f.name for f in struct.fields]


def test_nobody_loads_the_types_at_run_time() -> None:
    imports = re.compile(r"^(from|import) dray\.api\.types\b", re.MULTILINE)
    source = ROOT / "src/dray"
    assert [path for path in source.rglob("*.py") if imports.search(path.read_text())] == []
