"""Which cluster a command means."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli.config_flags import kubeconfig_path


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAY_DATA", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    return kubeconfig


def test_without_a_word_it_is_the_running_cluster(running: Path) -> None:
    assert kubeconfig_path(None) == running


def test_the_option_comes_first(running: Path) -> None:
    assert kubeconfig_path(Path("other")) == Path("other")


@pytest.mark.parametrize("variable", ["KUBECONFIG", "KUBERNETES_SERVICE_HOST"])
def test_what_the_environment_says_comes_before_the_running_cluster(
    running: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "something")
    assert kubeconfig_path(None) is None
