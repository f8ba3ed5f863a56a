"""Views of pods: what is read once for many of them, or kept from an older view, is what would be read anew."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.placement.cache.pods import PodInfo, PodInfoFactory

TERM = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
PINNED = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
}
PARTS: dict[str, list[Any]] = {
    "priority": [7],
    "tolerations": [[{"operator": "Exists"}]],
    "nodeSelector": [{"zone": "a"}],
    "resourceClaims": [
        [{"name": "c", "resourceClaimName": "shared"}],
        [{"name": "c", "resourceClaimTemplateName": "t"}],
    ],
    "topologySpreadConstraints": [
        [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    ],
    "affinity": [
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": PINNED}},
    ],
    "volumes": [
        [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        [{"name": "v", "emptyDir": {}}],
    ],
    "initContainers": [
        [{"name": "i", "resources": {"requests": {"cpu": "3"}}}],
        [{"name": "i", "resources": {"requests": {"cpu": "3"}}, "restartPolicy": "Always"}],
        [{"name": "i", "ports": [{"hostPort": 80}], "restartPolicy": "Always"}],
    ],
    "resources": [{"requests": {"memory": "1Gi"}}],
    "overhead": [{"cpu": "250m"}],
    "schedulingGroup": [{"podGroupName": "g"}],
    "nodeName": ["n1", "n2"],
}
#: Functions and terms, which are the same only if nothing was read anew.
MADE = ("node_test", "affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity")


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from("ab"))
    labels = draw(st.sampled_from([None, {"app": "a"}, {"app": "b"}]))
    chosen = {part: draw(st.sampled_from([None, *values])) for part, values in PARTS.items()}
    metadata = {
        "name": name,
        "namespace": draw(st.sampled_from(["n", "m"])),
        "uid": draw(st.text(max_size=3)),
    }
    container = {"name": "c", "resources": {"requests": {"cpu": draw(st.sampled_from(["1", "2"]))}}}
    if draw(st.booleans()):
        container["ports"] = [{"hostPort": 80}]
    return {
        "metadata": {**metadata, "labels": labels} if labels else metadata,
        "spec": {"containers": [container], **{k: v for k, v in chosen.items() if v is not None}},
    }


def told(pod: PodInfo) -> dict[str, Any]:
    """All that a view says; of what it made for itself, how much of it there is."""
    said = {field: getattr(pod, field) for field in PodInfo.__struct_fields__ if field not in MADE}
    return said | {
        field: len(v) if isinstance(v := getattr(pod, field), tuple) else v is None for field in MADE
    }


@given(st.lists(documents(), max_size=8))
def test_the_factory_makes_the_same_view_as_reading_each_pod(pods):
    views = PodInfoFactory(size=2)
    for document in pods + pods:
        assert told(views.of(document)) == told(PodInfo(document))


@given(documents(), documents())
def test_an_updated_view_equals_the_view_of_the_new_document(old, new):
    new["metadata"] |= {k: old["metadata"][k] for k in ("name", "namespace", "uid")}
    assert told(PodInfo(old).updated(new)) == told(PodInfo(new))


@given(documents())
def test_a_pod_that_is_bound_keeps_its_requests(document):
    document["spec"].pop("nodeName", None)
    before = PodInfo(document)
    after = before.updated({**document, "spec": {**document["spec"], "nodeName": "n1"}})
    assert after.shape is before.shape
    assert after.document["spec"]["nodeName"] == "n1"
    assert before.document is document


def test_pods_of_one_template_share_a_view_though_their_token_volumes_have_names_of_their_own():
    def pod(number: int) -> dict[str, Any]:
        volume = f"kube-api-access-{number}"
        container = {"name": "c", "volumeMounts": [{"name": volume, "mountPath": "/var/run/secrets"}]}
        spec = {"containers": [container], "volumes": [{"name": volume, "projected": {"sources": []}}]}
        return {"metadata": {"name": f"p{number}", "namespace": "n", "uid": f"u{number}"}, "spec": spec}

    views = PodInfoFactory()
    first, second = views.of(pod(1)), views.of(pod(2))
    assert second.shape is first.shape
    assert (second.name, second.document) == ("p2", pod(2))


def test_a_changed_spec_is_read_anew_whatever_its_generation_says_and_a_binding_is_no_change() -> None:
    def pod(generation: int, cpu: str) -> dict[str, Any]:
        metadata = {"name": "p", "namespace": "n", "uid": "u", "generation": generation}
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        return {"metadata": metadata, "spec": {"containers": [container]}}

    known = PodInfo(pod(1, "1"))
    bound = pod(1, "1")
    bound["spec"]["nodeName"] = "n1"
    assert known.updated(bound).requests is known.requests
    assert known.updated(pod(2, "2")).requests.cpu == known.updated(pod(1, "2")).requests.cpu == 2000
