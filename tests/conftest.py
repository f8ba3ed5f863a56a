"""What every test can ask for: the real tools, and the recorded answers of upstream."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.paths import CONFORMANCE, TOOLS

# How long an example takes tells how busy the machine is, and nothing else.
settings.register_profile("dray", deadline=None)
settings.load_profile("dray")


#: Go drivers and upstream's kubelet are tried where somebody has built them; there is no package that carries them.
_BUILT = {
    "DRAY_TEST_GO_DRIVER": "integration/node/test_go_driver.py",
    "DRAY_TEST_KUBELET": "integration/node/test_real_kubelet.py",
}
collect_ignore = [test for variable, test in _BUILT.items() if not os.environ.get(variable)]

_skipped: list[str] = []


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """The path of a real component, or a visible skip."""

    def find(name: str) -> str:
        path = shutil.which(name, path=f"{TOOLS}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if path is None:
            pytest.skip(f"{name} cannot be had on this machine")
        return path

    return find


@pytest.fixture(scope="session")
def conformance() -> Path:
    """The directory with upstream's recorded answers, or a visible skip."""
    if not CONFORMANCE.is_dir():
        pytest.skip("the recorded answers are not beside the repository (../shared/conformance)")
    return CONFORMANCE


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Coroutine tests run in an event loop of their own, for a minute at the most."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), timeout=60))
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI nothing may be skipped: there a skip is a failure."""
    if os.environ.get("CI") and _skipped and exitstatus == 0 and not hasattr(session.config, "workerinput"):
        print("\nskipped, which CI does not allow:", *_skipped, sep="\n  ")
        session.exitstatus = 1
