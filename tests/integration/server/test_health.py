"""Health checks of a server that was started as users start it."""

from __future__ import annotations

from pathlib import Path

from tests.support.tls_server import reached


async def test_checks_have_upstreams_names_and_are_counted(tmp_path: Path):
    async with reached(tmp_path) as api:
        status, text = await api.call("GET", "/readyz?verbose")
        lines = text.decode().splitlines()
        assert status == 200
        for name in (
            "ping",
            "etcd",
            "informer-sync",
            "poststarthook/crd-informer-synced",
            "poststarthook/storage-readiness",
            "poststarthook/bootstrap-controller",
            "autoregister-completion",
        ):
            assert f"[+]{name} ok" in lines
        _, metrics = await api.call("GET", "/metrics/slis")
        assert 'kubernetes_healthcheck{name="etcd",type="readyz"} 1' in metrics.decode()
        assert 'kubernetes_healthchecks_total{name="etcd",type="readyz",status="success"}' in metrics.decode()
