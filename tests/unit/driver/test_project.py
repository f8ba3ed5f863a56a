"""What ``dray driver new`` makes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dray.driver.project import Project, ProjectError


def test_names_are_filled_in_everywhere(tmp_path: Path) -> None:
    written = Project("fast-cats.example.com").write(tmp_path / "new")
    texts = {str(path.relative_to(tmp_path / "new")): path.read_text() for path in written}
    assert {"pyproject.toml", "src/fast_cats_driver/driver.py", "tests/test_driver.py"} <= texts.keys()
    assert not [
        name for name, text in texts.items() if "@" in name or "@project@" in text or "@driver@" in text
    ]
    compile(texts["src/fast_cats_driver/driver.py"], "driver.py", "exec")
    assert yaml.safe_load(texts["charts/fast-cats-driver/Chart.yaml"])["name"] == "fast-cats-driver"


@pytest.mark.parametrize("name", ["", "Cats.example.com", "cats..example.com", "a" * 64, "../x"])
def test_a_name_that_no_driver_can_have_is_refused(name: str) -> None:
    with pytest.raises(ProjectError, match=r"such as cats\.example\.com"):
        Project(name)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ProjectError, match="is there already"):
        Project("cats.example.com").write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
