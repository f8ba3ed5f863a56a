"""Which services of a driver the kubelet of each release calls."""

from __future__ import annotations

import pytest

from dray.api.release import EffectiveVersion
from dray.kubelet_api.services import (
    CLASSIC_SERVICES,
    DRA_V1,
    DRA_V1ALPHA4,
    DRA_V1BETA1,
    NODE_V1ALPHA1,
    NODE_V1ALPHA2,
    NODE_V1ALPHA3,
    Service,
)
from dray.node.dra.grpc_versions import ChosenServices, choose_services
from dray.node.quirks import Quirks


def quirks(emulate: str) -> Quirks:
    version = EffectiveVersion.parse(emulate)
    return Quirks.of(version, version.gates())


@pytest.mark.parametrize(
    ("emulate", "announced", "devices", "handles"),
    [
        ("1.26", ["1.0.0"], None, (NODE_V1ALPHA1,)),
        ("1.27", ["1.0.0"], None, (NODE_V1ALPHA2,)),
        ("1.30", ["1.0.0"], None, (NODE_V1ALPHA3, NODE_V1ALPHA2)),
        ("1.30", ["v1.DRAPlugin", "1.0.0"], None, (NODE_V1ALPHA3, NODE_V1ALPHA2)),
        ("1.32", ["1.0.0"], DRA_V1ALPHA4, ()),
        ("1.32", ["v1.DRAPlugin", "v1beta1.DRAPlugin"], DRA_V1BETA1, ()),
        ("1.34", ["v1beta1.DRAPlugin", "v1.DRAPlugin"], DRA_V1BETA1, ()),
        ("1.36", ["v1.DRAPlugin", "1.0.0"], DRA_V1, ()),
        ("", ["v1.DRAPlugin", "v1beta1.DRAPlugin"], DRA_V1, ()),
        ("", ["v1.DRAPlugin", "1.0.0"], DRA_V1, CLASSIC_SERVICES),
        ("", ["v1alpha3.NodeService"], DRA_V1ALPHA4, ()),
        ("", ["1.0.0"], DRA_V1ALPHA4, CLASSIC_SERVICES),
    ],
)
def test_kubelet_chooses_services_as_its_release_did(
    emulate: str, announced: list[str], devices: Service | None, handles: tuple[Service, ...]
) -> None:
    assert choose_services(announced, quirks(emulate)) == ChosenServices(devices, handles)


@pytest.mark.parametrize(
    ("emulate", "announced", "said"),
    [
        ("1.36", [], "empty list of supported gRPC services"),
        ("1.36", ["1.0.0"], "none of services supported by the plugin"),
        ("", ["v9.DRAPlugin"], "none of services supported by the plugin"),
        ("1.27", ["v1.DRAPlugin"], "None of the versions specified"),
    ],
)
def test_driver_without_known_services_is_refused(emulate: str, announced: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        choose_services(announced, quirks(emulate))
