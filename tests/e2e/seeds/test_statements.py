"""Every statement of the seeds is shown by a test that exists and runs on the seed's own release."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.e2e.seeds.statements import RELEASES, STATEMENTS, Statement
from tests.support.paths import ROOT


def test_the_list_has_every_statement_once() -> None:
    assert len(STATEMENTS) == 71
    assert len({(one.seed, one.says) for one in STATEMENTS}) == len(STATEMENTS)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: f"{one.seed}: {one.says}")
def test_the_test_of_a_statement_is_there_and_runs_on_its_release(statement: Statement) -> None:
    path, _, name = statement.shown_by.partition("::")
    release = RELEASES[statement.seed]
    assert release in releases_of(path, name), f"{statement.shown_by} does not run on {release}"


def releases_of(path: str, test: str) -> frozenset[str]:
    """The releases that a test, its parameters or the cluster of its module name."""
    definitions = definitions_of(path)
    looked_at, found = [test, "cluster"], set()
    for name in looked_at:
        for node in ast.walk(definitions.get(name, ast.Pass())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.Name) and node.id.isupper() and node.id not in looked_at:
                looked_at.append(node.id)
    assert test in definitions, f"there is no {path}::{test}"
    return frozenset(found)


@cache
def definitions_of(path: str) -> dict[str, ast.AST]:
    """The functions and constants of a module."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in ast.walk(node):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    found[target.id] = node
    return found
