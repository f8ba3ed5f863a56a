"""Names of templates: those that everybody knows from real clusters."""

from __future__ import annotations

from typing import Any

import pytest

from dray.controllers.workloads import go_dump, pod_template_hash

NGINX: dict[str, Any] = {
    "metadata": {"labels": {"app": "nginx"}},
    "spec": {
        "containers": [
            {
                "name": "nginx",
                "image": "nginx:1.14.2",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
}


def test_hashes_are_those_of_the_books():
    assert pod_template_hash.fnv1(b"foobar") == 0x31F0B262
    assert pod_template_hash.fnv1a(b"foobar") == 0xBF9CF968
    assert pod_template_hash.safe_encode(1234567890) == "56789bcdf4"


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ((1, 26), "85996f8dbd"),
        ((1, 27), "cbdccf466"),
        ((1, 30), "77d8468669"),
        ((1, 32), "647677fc66"),
        ((1, 34), "bf744486c"),
    ],
)
def test_a_template_has_the_name_that_it_has_in_clusters_of_the_release(release, name):
    assert pod_template_hash.compute_hash(NGINX, None, release) == name


def test_collisions_draw_another_name():
    assert len({pod_template_hash.compute_hash(NGINX, count, (1, 36)) for count in (None, 0, 1)}) == 3


def dumped(**container: Any) -> str:
    return go_dump.dump_for_hash({"spec": {"containers": [{"name": "c", **container}]}}, (1, 36))


@pytest.mark.parametrize(
    ("text", "value", "scale", "kept", "form"),
    [
        ("100m", 100, -3, "100m", "DecimalSI"),
        ("2", 2, 0, "2", "DecimalSI"),
        ("3000", 3000, 0, "", "DecimalSI"),
        ("0", 0, 0, "0", "DecimalSI"),
        ("70Mi", 70 << 20, 0, "70Mi", "BinarySI"),
        ("8Gi", 8 << 30, 0, "", "BinarySI"),
    ],
)
def test_quantities_are_told_by_their_parts(text, value, scale, kept, form):
    amount = f"i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}}"
    rest = f"d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){kept} Format:(resource.Format){form}"
    wanted = f"Limits:(v1.ResourceList)map[cpu:{{{amount} {rest}}}] "
    assert wanted in dumped(resources={"limits": {"cpu": text}})


def test_embedded_structs_stand_where_go_has_them():
    probe = dumped(livenessProbe={"httpGet": {"path": "/", "port": "web"}})
    assert (
        "LivenessProbe:(*v1.Probe){ProbeHandler:(v1.ProbeHandler){Exec:(*v1.ExecAction)<nil> HTTPGet:("
        in probe
    )
    assert "Port:(intstr.IntOrString){Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)web}" in probe
    reference = {"configMapKeyRef": {"name": "m", "key": "k"}}
    variable = dumped(env=[{"name": "v", "valueFrom": reference}])
    assert (
        "{LocalObjectReference:(v1.LocalObjectReference){Name:(string)m} Key:(string)k Optional:(*bool)<nil>}"
        in variable
    )
