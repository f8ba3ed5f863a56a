"""The variables by which containers find Services."""

from __future__ import annotations

from typing import Any

from dray.node.services import variables


def service(name: str, ip: str, *ports: dict[str, Any]) -> Any:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterIP": ip, "ports": list(ports)}}


def test_a_service_is_found_by_its_name_and_by_each_of_its_ports() -> None:
    found = dict(
        variables(
            [service("my-db", "10.96.0.7", {"port": 5432, "name": "sql"}, {"port": 53, "protocol": "UDP"})]
        )
    )
    assert found == {
        "MY_DB_SERVICE_HOST": "10.96.0.7",
        "MY_DB_SERVICE_PORT": "5432",
        "MY_DB_SERVICE_PORT_SQL": "5432",
        "MY_DB_PORT": "tcp://10.96.0.7:5432",
        "MY_DB_PORT_5432_TCP": "tcp://10.96.0.7:5432",
        "MY_DB_PORT_5432_TCP_PROTO": "tcp",
        "MY_DB_PORT_5432_TCP_PORT": "5432",
        "MY_DB_PORT_5432_TCP_ADDR": "10.96.0.7",
        "MY_DB_PORT_53_UDP": "udp://10.96.0.7:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "10.96.0.7",
    }


def test_services_without_an_address_are_left_out() -> None:
    assert not list(variables([service("a", "None", {"port": 1}), service("b", "", {"port": 1})]))
