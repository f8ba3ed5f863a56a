from __future__ import annotations

import asyncio

import pytest

from dray.api.errors import Invalid
from tests.support.apiserver import make_server

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, **spec: object) -> dict:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_services_get_addresses_of_their_own():
    client = (await make_server()).as_user()
    made = await asyncio.gather(*(client.request("POST", SERVICES, body=service(f"s{i}")) for i in range(20)))
    addresses = {m.object["spec"]["clusterIP"] for m in made}
    assert len(addresses) == 20 and all(a.startswith("10.96.") for a in addresses)
    spec = made[0].object["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert spec["clusterIPs"] == [spec["clusterIP"]]


async def test_an_address_or_port_that_is_taken_is_refused():
    client = (await make_server()).as_user()
    with pytest.raises(Invalid, match="provided IP is already allocated"):
        await client.request("POST", SERVICES, body=service("s", clusterIP="10.96.0.1"))
    ports = [{"port": 80, "nodePort": 30080}]
    await client.request("POST", SERVICES, body=service("a", type="NodePort", ports=ports))
    with pytest.raises(Invalid, match="provided port is already allocated"):
        await client.request("POST", SERVICES, body=service("b", type="NodePort", ports=ports))
    with pytest.raises(Invalid, match="not in the valid range"):
        await client.request(
            "POST", SERVICES, body=service("b", type="NodePort", ports=[{"port": 80, "nodePort": 80}])
        )


async def test_headless_and_external_services_need_no_address():
    client = (await make_server()).as_user()
    headless = (await client.request("POST", SERVICES, body=service("h", clusterIP="None"))).object
    assert headless["spec"]["clusterIPs"] == ["None"]
    external = (
        await client.request("POST", SERVICES, body=service("e", type="ExternalName", externalName="x.org"))
    ).object
    assert "clusterIP" not in external["spec"]


async def test_a_service_keeps_its_address_and_gains_ports_with_its_type():
    client = (await make_server()).as_user()
    made = (await client.request("POST", SERVICES, body=service("s"))).object
    patch = {"body": {"spec": {"type": "NodePort"}}, "content_type": "application/merge-patch+json"}
    changed = (await client.request("PATCH", f"{SERVICES}/s", **patch)).object
    assert changed["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    assert 30000 <= changed["spec"]["ports"][0]["nodePort"] <= 32767
