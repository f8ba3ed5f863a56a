"""The service account and the root certificate of every namespace."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.api.scheme.kinds import Object
from dray.client.resources import (
    CONFIGMAPS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
)
from tests.support.controlplane import control_plane
from tests.support.wait import wait_for


def test_namespaces_have_a_service_account_and_the_root_certificate(tmp_path: Path):
    settings = {"root-ca-certificate-publisher-controller": {"ca": "PEM"}}
    names = ("serviceaccount-controller", "root-ca-certificate-publisher-controller")

    async def play() -> None:
        async with control_plane(*names, data=tmp_path, settings=settings) as a:
            await a.client.create(NAMESPACES, "", {"metadata": {"name": "new"}})

            async def account() -> Object:
                return await a.client.get(SERVICE_ACCOUNTS, "new", "default")

            async def published() -> bool:
                found = await a.client.get(CONFIGMAPS, "new", "kube-root-ca.crt")
                return found["data"] == {"ca.crt": "PEM"}

            first = await wait_for("service account default", account)
            await a.client.delete(SERVICE_ACCOUNTS, "new", "default")

            async def another() -> bool:
                return (await account())["metadata"]["uid"] != first["metadata"]["uid"]

            await wait_for("another service account default", another)
            await wait_for("the root certificates", published)
            await a.client.patch(CONFIGMAPS, "new", "kube-root-ca.crt", {"data": {"ca.crt": "other"}})
            await wait_for("the root certificates again", published)

    asyncio.run(play())
