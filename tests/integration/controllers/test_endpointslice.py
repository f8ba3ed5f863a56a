"""Where services lead: what EndpointSlices and Endpoints say of pods."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.client.resources import (
    ENDPOINTS,
    PODS,
    SERVICES,
)
from dray.controllers.endpoints import subsets_for
from dray.controllers.endpointslice import ENDPOINT_SLICES, HEADLESS, slices_for
from tests.support.controlplane import NAMESPACE, control_plane
from tests.support.wait import wait_for

LABELS = {"app": "x"}


def service(**spec):
    return {
        "metadata": {"name": "s", "namespace": "default", "labels": {"of": "s", HEADLESS: "no"}},
        "spec": {"selector": LABELS, "ports": [{"port": 80, "protocol": "TCP"}], **spec},
    }


def pod(**spec):
    status = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}, {"ip": "10.0.0.2"}]}
    metadata = {"name": "p", "namespace": "default", "uid": "u", "labels": LABELS}
    return {"metadata": metadata, "spec": {"nodeName": "n", "containers": [], **spec}, "status": status}


def test_a_pod_with_a_name_of_its_own_is_found_by_it_in_its_zone():
    member = pod(hostname="web-0", subdomain="s")
    (found,) = slices_for(service(), [member], {"n": "z"}.get)
    (endpoint,) = found["endpoints"]
    assert (endpoint["hostname"], endpoint["zone"], endpoint["nodeName"]) == ("web-0", "z", "n")
    assert endpoint["addresses"] == ["10.0.0.1", "10.0.0.2"]
    assert subsets_for(service(), [member])[0]["notReadyAddresses"][0]["hostname"] == "web-0"
    other = pod(hostname="web-0", subdomain="other")
    assert "hostname" not in slices_for(service(), [other])[0]["endpoints"][0]


async def test_a_service_without_an_address_says_so_on_what_it_leads_to():
    async with control_plane("endpointslice-controller", "endpoints-controller") as at:
        body = service(clusterIP="None")
        await at.client.create(SERVICES, "default", body)
        made = await at.client.create(
            PODS, "default", {**pod(), "status": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
        status = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
        await at.client.patch_status(PODS, "default", made["metadata"]["name"], {"status": status})

        async def slices():
            return (await at.client.list(ENDPOINT_SLICES, "default", label_selector="of=s")).items

        found = await wait_for("the EndpointSlices of service s", slices)
        assert found[0]["metadata"]["labels"][HEADLESS] == ""
        endpoints = await wait_for("the Endpoints of service s", lambda: at.get(ENDPOINTS, "s"))
        assert endpoints["metadata"]["labels"] == {
            "of": "s",
            HEADLESS: "",
            "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        }


def test_services_lead_to_the_pods_they_select(tmp_path: Path):
    async def play() -> None:
        async with control_plane("endpointslice-controller", "endpoints-controller", data=tmp_path) as a:
            port = {"name": "web", "containerPort": 8080}
            container = {"name": "c", "image": "i", "ports": [port]}
            await a.create(PODS, "p", {"containers": [container]}, labels={"app": "x"})
            await a.create(PODS, "other", {"containers": [container]}, labels={"app": "y"})
            await a.create(
                SERVICES, "s", {"selector": {"app": "x"}, "ports": [{"port": 80, "targetPort": "web"}]}
            )
            for name, ip in (("p", "10.0.0.1"), ("other", "10.0.0.2")):
                status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}
                await a.client.patch_status(PODS, NAMESPACE, name, {"status": status})

            async def found(*, ready: bool) -> bool:
                listed = await a.client.list(
                    ENDPOINT_SLICES, NAMESPACE, label_selector="kubernetes.io/service-name=s"
                )
                endpoint = listed.items[0]["endpoints"][0]
                ports = [(p["name"], p["port"]) for p in listed.items[0]["ports"]]
                subset = (await a.get(ENDPOINTS, "s"))["subsets"][0]
                kind = "addresses" if ready else "notReadyAddresses"
                told = [address["ip"] for address in subset[kind]]
                return (
                    len(listed.items) == 1
                    and endpoint["addresses"] == ["10.0.0.1"] == told
                    and endpoint["conditions"]["ready"] is ready
                    and ports == [("", 8080)]
                )

            await wait_for("an address that is not ready", lambda: found(ready=False))
            await a.run(await a.get(PODS, "p"))
            await wait_for("an address that is ready", lambda: found(ready=True))
            await a.client.delete(SERVICES, NAMESPACE, "s")

            async def gone() -> bool:
                return not (await a.client.list(ENDPOINTS, NAMESPACE, field_selector="metadata.name=s")).items

            await wait_for("the Endpoints of service s to go", gone)

    asyncio.run(play())
