"""Where services lead: what EndpointSlices and Endpoints say of pods."""

from __future__ import annotations

from dray.client.resources import ENDPOINTS, PODS, SERVICES
from dray.controllers.endpoints import subsets_for
from dray.controllers.endpointslice import ENDPOINT_SLICES, HEADLESS, slices_for
from tests.support.controlplane import control_plane
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
