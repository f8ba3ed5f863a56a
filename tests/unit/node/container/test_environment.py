"""Where a container's variables come from."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dray.node.container.environment import ContainerConfigError, Reference, expand, references, variables

POD: dict[str, Any] = {
    "metadata": {
        "namespace": "ns",
        "name": "p",
        "uid": "u",
        "labels": {"app": "x"},
        "annotations": {"note": "a b"},
    },
    "spec": {"nodeName": "las1", "containers": [{"name": "main"}]},
}


def resolve(container: dict[str, Any], **sources: Any) -> dict[str, str]:
    found = {tuple(k.split("__", 1)): v for k, v in sources.items()}
    return variables(POD, container, sources=found, services={"S": "1"}, node={"status.podIP": "10.0.0.9"})  # type: ignore[arg-type]


def test_values_refer_to_earlier_ones() -> None:
    container = {
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(NONE)-$$(A)-$"},
        ]
    }
    assert resolve(container) == {"S": "1", "A": "1", "B": "1-$(NONE)-$(A)-$"}


def test_fields_of_the_pod() -> None:
    paths = {
        "N": "metadata.name",
        "L": "metadata.labels['app']",
        "M": "metadata.annotations['missing']",
        "H": "spec.nodeName",
        "I": "status.podIP",
        "A": "spec.serviceAccountName",
    }
    container = {"env": [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in paths.items()]}
    assert resolve(container) == {
        "S": "1", "N": "p", "L": "x", "M": "", "H": "las1", "I": "10.0.0.9", "A": "default",
    }  # fmt: skip


def test_resources_are_counted_in_units_and_rounded_up() -> None:
    container = {
        "name": "main",
        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
        "env": [
            {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "M", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            {"name": "G", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        ],
    }
    assert resolve(container) == {"S": "1", "C": "2", "M": "1500", "G": "1024"}


def test_config_maps_and_secrets() -> None:
    secret = {"data": {"password": base64.b64encode(b"s3").decode()}}
    container = {
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}],
        "env": [
            {"name": "ONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
            {
                "name": "MAYBE",
                "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "no", "optional": True}},
            },
        ],
    }
    assert list(references(container)) == [
        Reference("ConfigMap", "cm"),
        Reference("Secret", "s"),
        Reference("ConfigMap", "cm", optional=True),
    ]
    assert resolve(container, ConfigMap__cm={"data": {"a": "1"}}, Secret__s=secret) == {
        "S": "1",
        "P_a": "1",
        "ONE": "s3",
    }


def test_what_is_missing_is_named() -> None:
    container = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}]}
    with pytest.raises(ContainerConfigError, match='configmap "cm" not found'):
        resolve(container)
    with pytest.raises(ContainerConfigError, match="couldn't find key k in ConfigMap ns/cm"):
        resolve(container, ConfigMap__cm={"data": {}})


def test_commands_are_expanded_in_the_same_way() -> None:
    assert expand("run $(X) $$(X)", {"X": "now"}.get) == "run now $(X)"
