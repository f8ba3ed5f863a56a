"""dray backup, restore and check-store as a user types them."""

from __future__ import annotations

import gzip
from pathlib import Path

from click.testing import CliRunner

from dray.app import datadir
from dray.cli.commands import dray
from tests.integration.app.test_backup import EARLIER


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(dray, list(arguments))
    return result.exit_code, result.output


def test_what_is_wrong_is_said_and_put_right_on_request(tmp_path: Path):
    (tmp_path / "store.db").write_bytes(gzip.decompress(EARLIER.read_bytes()))
    code, output = run("check-store", "--data", str(tmp_path))
    assert code == 3
    assert "wrong: claim default/whole has devices that are not booked" in output
    code, output = run("check-store", "--data", str(tmp_path), "--repair")
    assert (code, output.splitlines()[-1]) == (
        0,
        "dray: 21 objects and 3 booked devices at revision 31: all is well",
    )
    file = tmp_path / "cluster.backup"
    code, output = run("backup", str(file), "--store", "sqlite", "--data", str(tmp_path))
    assert code == 0 and "at revision 31" in output and file.stat().st_mode & 0o777 == 0o600
    code, output = run("restore", str(file), "--data", str(tmp_path / "again"))
    assert code == 0 and "all is well" in output


def test_a_store_that_is_not_there_is_one_line(tmp_path: Path):
    for command in (
        ("check-store", "--data", str(tmp_path / "none")),
        ("backup", str(tmp_path / "b"), "--store", "sqlite", "--data", str(tmp_path / "none")),
    ):
        code, output = run(*command)
        assert code == 1 and output.count("\n") == 1 and "there is no store at" in output
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_use_is_left_alone_and_it_is_said_what_to_end(tmp_path: Path):
    (tmp_path / "store.db").write_bytes(gzip.decompress(EARLIER.read_bytes()))
    with datadir.locked(tmp_path):
        code, output = run("check-store", "--data", str(tmp_path))
    assert code != 0
    assert (
        output == f"Error: a cluster already runs on {tmp_path}; end it with: dray down --data {tmp_path}\n"
    )
