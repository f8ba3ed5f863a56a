from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.server.endpoints import requestinfo
from dray.server.endpoints.requestinfo import RequestInfo, request_info
from dray.wire.messages import Query


def info(method: str, path: str, query: str = "") -> RequestInfo:
    return request_info(method, path, Query(query))


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "where"),
    [
        ("GET", "/api/v1/pods", "", "list", ("", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/pods", "watch=1", "watch", ("", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/pods", "watch=false", "list", ("", "v1", "", "pods", "", "")),
        ("POST", "/api/v1/namespaces/a/pods", "", "create", ("", "v1", "a", "pods", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/p/log", "", "get", ("", "v1", "a", "pods", "p", "log")),
        ("DELETE", "/api/v1/namespaces/a/pods", "", "deletecollection", ("", "v1", "a", "pods", "", "")),
        (
            "PUT",
            "/apis/apps/v1/namespaces/a/deployments/d",
            "",
            "update",
            ("apps", "v1", "a", "deployments", "d", ""),
        ),
        ("GET", "/api/v1/namespaces/a", "", "get", ("", "v1", "a", "namespaces", "a", "")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            "",
            "update",
            ("", "v1", "a", "namespaces", "a", "finalize"),
        ),
        ("GET", "/api/v1/watch/namespaces/a/pods", "", "watch", ("", "v1", "a", "pods", "", "")),
    ],
)
def test_a_url_names_a_verb_and_a_resource(method, path, query, verb, where):
    found = info(method, path, query)
    assert found.verb == verb
    assert (
        found.group,
        found.version,
        found.namespace,
        found.resource,
        found.name,
        found.subresource,
    ) == where


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "/metrics/x/y/z"]
)
def test_paths_short_of_a_resource_are_about_none(path):
    assert not info("GET", path).resource
    assert info("GET", path).verb == "get"


def test_watches_and_interactive_requests_may_take_long():
    assert info("GET", "/api/v1/pods", "watch=1").long_running
    assert info("POST", "/api/v1/namespaces/a/pods/p/exec").long_running
    assert not info("GET", "/api/v1/pods").long_running


_words = st.sampled_from(["a", "pods", "nodes", "status", "log", "v1"])


@given(
    group=st.sampled_from(["", "apps"]),
    namespace=st.sampled_from(["", "a"]),
    named=st.lists(_words, max_size=5),
    slashes=st.sampled_from(["", "/"]),
)
def test_the_parts_of_a_path_are_found_in_their_places(
    group: str, namespace: str, named: list[str], slashes: str
) -> None:
    root = f"/apis/{group}/v1" if group else "/api/v1"
    within = ["namespaces", namespace] if namespace else []
    found = info("POST", "/".join([root, *within, "things", *named]) + slashes)
    name, subresource, *rest = [*named, "", ""][:2] + named[2:]
    assert found == RequestInfo(
        found.path, "create", "apis" if group else "api", group, "v1", namespace, "things", name, subresource, tuple(rest)
    )  # fmt: skip


def test_what_is_remembered_of_collections_is_bounded() -> None:
    for i in range(3000):
        info("POST", f"/api/v1/namespaces/n{i}/pods")
        info("POST", f"/api/v1/namespaces/{'n' * 600}{i}/pods")
        info("POST", f"/api/v1/namespaces/a/pods/p{i}/binding")
    assert len(requestinfo._known) <= requestinfo._MOST_KNOWN
    assert max(map(len, requestinfo._known)) <= requestinfo._LONGEST_KNOWN
    assert not any("binding" in path for path in requestinfo._known)
    assert info("POST", "/api/v1/namespaces/n2999/pods").namespace == "n2999"
