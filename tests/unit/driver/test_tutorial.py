"""The tutorial's driver works as it stands."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from dray.driver import Driver, Options, serving
from dray.driver.model import Claim
from tests.support.paths import DOCS

TUTORIAL = DOCS / "tutorials" / "write-a-driver.md"


def first_program() -> str:
    found = re.search(r"```python\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert found
    return found.group(1)


async def test_the_first_program_is_a_driver_of_thirty_lines(api: Any, tmp_path: Path) -> None:
    program = first_program()
    assert len([line for line in program.splitlines() if line.strip()]) <= 30
    names: dict[str, Any] = {"__name__": "cats"}
    exec(program, names)
    driver: Driver = names["Cats"]()
    api.put("/api/v1/nodes/n", {"metadata": {"uid": "node"}})
    options = Options(node="n", kubelet_dir=tmp_path, cdi_dir=tmp_path / "cdi")
    async with serving(api.client, driver, options=options):
        while not api.all("resourceslices"):  # noqa: ASYNC110  (bounded by the test's own limit)
            await asyncio.sleep(0.005)
    [published] = api.all("resourceslices")
    assert [d["name"] for d in published["spec"]["devices"]] == ["cat-0", "cat-1", "cat-2"]
    result = {"request": "r", "driver": driver.name, "pool": "n", "device": "cat-0"}
    document = {
        "metadata": {"namespace": "ns", "name": "c", "uid": "u"},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    [prepared] = await driver.prepare(Claim.of(document, driver.name))
    assert prepared.edits is not None
    assert prepared.edits.env == {"CAT": "cat-0"}
