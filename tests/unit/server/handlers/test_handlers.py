"""Verbs through the in-process transport: the whole pipeline without HTTP."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    StatusError,
    Timeout,
)
from dray.api.user import UserInfo
from tests.support.apiserver import SERVED, make_server

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def config(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **spec: object) -> dict:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


# -- create and get


async def test_a_created_object_is_there_at_once():
    client = (await make_server()).as_user()
    created = (await client.request("POST", MAPS, body=config("a", k="v"))).object
    assert created["metadata"]["uid"] and created["metadata"]["resourceVersion"]
    assert created["metadata"]["namespace"] == "default"
    assert (await client.request("GET", f"{MAPS}/a")).object == created


async def test_the_callers_document_is_not_touched():
    client = (await make_server()).as_user()
    mine = config("a", k="v")
    await client.request("POST", MAPS, body=mine)
    assert mine == config("a", k="v")


async def test_a_taken_name_is_a_conflict():
    client = (await make_server()).as_user()
    await client.request("POST", MAPS, body=config("a"))
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await client.request("POST", MAPS, body=config("a"))


async def test_generated_names_are_drawn_until_one_is_free(monkeypatch):
    from dray.server.registry import metadata

    drawn = iter(["g-1", "g-1", "g-2"])
    monkeypatch.setattr(metadata, "generate_name", lambda base: next(drawn))
    client = (await make_server()).as_user()
    body = {"metadata": {"generateName": "g-"}}
    names = [(await client.request("POST", MAPS, body=body)).object["metadata"]["name"] for _ in range(2)]
    assert names == ["g-1", "g-2"]


async def test_generated_names_have_five_harmless_characters():
    from dray.server.registry.metadata import generate_name

    name = generate_name("x" * 100)
    assert len(name) == 63 and set(name[58:]) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_uids_are_random_uuids():
    import uuid

    from dray.server.registry.metadata import fill_system_fields

    found = set()
    for _ in range(1000):
        metadata: dict = {}
        fill_system_fields(metadata, "now")
        parsed = uuid.UUID(metadata["uid"])
        assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, metadata["uid"])
        found.add(parsed)
    assert len(found) == 1000


async def test_a_dry_run_leaves_nothing_behind():
    client = (await make_server()).as_user()
    shown = await client.request("POST", MAPS, body=config("a"), query={"dryRun": "All"})
    assert shown.status == 201 and shown.object["metadata"]["uid"]
    with pytest.raises(NotFound):
        await client.request("GET", f"{MAPS}/a")
    created = (await client.request("POST", MAPS, body=config("a", k="1"))).object
    changed = await client.request(
        "PATCH", f"{MAPS}/a", body={"data": {"k": "2"}}, content_type=MERGE, query={"dryRun": "All"}
    )
    assert changed.object["data"] == {"k": "2"}
    await client.request("DELETE", f"{MAPS}/a", query={"dryRun": "All"})
    assert (await client.request("GET", f"{MAPS}/a")).object == created


async def test_unknown_fields_are_warned_about_refused_or_ignored():
    client = (await make_server()).as_user()
    body = {**config("a"), "dta": {}}
    assert (await client.request("POST", MAPS, body=body)).headers["warning"] == 'unknown field "dta"'
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "dta"'):
        await client.request("POST", MAPS, body=body, query={"fieldValidation": "Strict"})
    body["metadata"]["name"] = "b"
    assert (
        "warning"
        not in (await client.request("POST", MAPS, body=body, query={"fieldValidation": "Ignore"})).headers
    )


async def test_nothing_is_created_in_a_missing_or_ending_namespace():
    client = (await make_server()).as_user()
    with pytest.raises(NotFound, match='namespaces "none" not found'):
        await client.request("POST", "/api/v1/namespaces/none/configmaps", body=config("a"))
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "n"}})
    await client.request("DELETE", "/api/v1/namespaces/n")
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await client.request("POST", "/api/v1/namespaces/n/configmaps", body=config("a"))


async def test_methods_that_do_not_fit_are_told_so():
    client = (await make_server()).as_user()
    for method, path in (
        ("PUT", MAPS),
        ("POST", f"{MAPS}/a"),
        ("POST", "/api/v1/configmaps"),
        ("PATCH", MAPS),
    ):
        with pytest.raises(MethodNotAllowed):
            await client.request(method, path, body=config("a"))
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await client.request("GET", f"{MAPS}/a/nosuch")


# -- update and patch


async def test_an_update_with_an_old_version_conflicts():
    client = (await make_server()).as_user()
    created = (await client.request("POST", MAPS, body=config("a", k="1"))).object
    await client.request("PUT", f"{MAPS}/a", body={**created, "data": {"k": "2"}})
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.request("PUT", f"{MAPS}/a", body={**created, "data": {"k": "3"}})
    assert (await client.request("PUT", f"{MAPS}/a", body=config("a", k="4"))).object["data"] == {"k": "4"}


async def test_an_update_meant_for_another_object_of_that_name_conflicts():
    client = (await make_server()).as_user()
    await client.request("POST", MAPS, body=config("a"))
    body = config("a")
    body["metadata"]["uid"] = "other"
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition: other"):
        await client.request("PUT", f"{MAPS}/a", body=body)


async def test_an_update_that_changes_nothing_writes_nothing():
    server = await make_server()
    client = server.as_user()
    created = (await client.request("POST", MAPS, body=config("a", k="1"))).object
    server.time.now += 100
    assert (await client.request("PUT", f"{MAPS}/a", body=created)).object == created
    assert (await client.request("PATCH", f"{MAPS}/a", body={}, content_type=MERGE)).object == created


async def test_the_name_in_the_body_must_be_that_of_the_url():
    client = (await make_server()).as_user()
    await client.request("POST", MAPS, body=config("a"))
    with pytest.raises(
        BadRequest, match=r"the name of the object \(b\) does not match the name on the URL \(a\)"
    ):
        await client.request("PUT", f"{MAPS}/a", body=config("b"))


async def test_concurrent_patches_all_take_effect():
    client = (await make_server()).as_user()
    await client.request("POST", MAPS, body=config("a"))

    async def put(i: int) -> None:
        await client.request("PATCH", f"{MAPS}/a", body={"data": {f"k{i}": "v"}}, content_type=MERGE)

    await asyncio.gather(*(put(i) for i in range(20)))
    assert len((await client.request("GET", f"{MAPS}/a")).object["data"]) == 20


async def test_apply_creates_owns_and_takes_back_what_it_no_longer_says():
    client = (await make_server()).as_user()
    apply = {"content_type": "application/apply-patch+yaml", "query": {"fieldManager": "me"}}
    made = await client.request("PATCH", f"{MAPS}/a", body=config("a", x="1", y="2"), **apply)
    assert made.status == 201
    assert made.object["metadata"]["managedFields"][0]["manager"] == "me"
    await client.request("PATCH", f"{MAPS}/a", body={"data": {"z": "3"}}, content_type=MERGE)
    again = await client.request("PATCH", f"{MAPS}/a", body=config("a", x="1"), **apply)
    assert again.object["data"] == {"x": "1", "z": "3"}
    with pytest.raises(Conflict, match=r'conflict with "me": \.data\.x'):
        await client.request(
            "PATCH", f"{MAPS}/a", body=config("a", x="9"), **{**apply, "query": {"fieldManager": "you"}}
        )


async def test_status_is_written_through_the_status_subresource():
    client = (await make_server()).as_user()
    await client.request("POST", PODS, body={**pod("p"), "status": {"phase": "Running"}})
    assert (await client.request("GET", f"{PODS}/p")).object["status"]["phase"] == "Pending"
    running = {"status": {"phase": "Running"}, "spec": {"nodeName": "ignored"}}
    seen = (await client.request("PATCH", f"{PODS}/p/status", body=running, content_type=MERGE)).object
    assert seen["status"]["phase"] == "Running" and "nodeName" not in seen["spec"]


@pytest.mark.parametrize(("path", "body", "times"), [(MAPS, config("a"), 4), (PODS, pod("a"), 3)])
async def test_bad_metadata_of_an_update_is_a_cause_each_time_that_upstream_looks_at_it(
    path: str, body: dict, times: int
):
    client = (await make_server()).as_user()
    await client.request("POST", path, body=body)
    with pytest.raises(Invalid) as refused:
        await client.request(
            "PATCH", f"{path}/a", body={"metadata": {"labels": {"k": "-"}}}, content_type=MERGE
        )
    causes = (refused.value.details or {})["causes"]
    assert [c["field"] for c in causes] == ["metadata.labels"] * times
    assert str(refused.value).count("metadata.labels") == 1


async def test_json_patches_that_do_not_fit_are_a_plain_422():
    client = (await make_server()).as_user()
    await client.request("POST", MAPS, body=config("a", k="1"))
    test = [{"op": "test", "path": "/data/k", "value": "2"}]
    with pytest.raises(Invalid, match="the server rejected our request"):
        await client.request("PATCH", f"{MAPS}/a", body=test, content_type="application/json-patch+json")


# -- list


async def test_pages_are_cut_from_one_moment():
    client = (await make_server()).as_user()
    for name in "abcde":
        await client.request("POST", MAPS, body=config(name))
    first = (await client.request("GET", MAPS, query={"limit": "2"})).object
    assert first["metadata"]["remainingItemCount"] == 3
    await client.request("DELETE", f"{MAPS}/d")
    await client.request("POST", MAPS, body=config("cc"))
    names, token = [], first["metadata"]["continue"]
    while token:
        page = (await client.request("GET", MAPS, query={"limit": "2", "continue": token})).object
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [i["metadata"]["name"] for i in page["items"]]
        token = page["metadata"].get("continue")
    assert names == ["c", "d", "e"]


async def test_a_page_whose_moment_is_compacted_has_expired():
    server = await make_server()
    client = server.as_user()
    for name in "abc":
        await client.request("POST", MAPS, body=config(name))
    token = (await client.request("GET", MAPS, query={"limit": "1"})).object["metadata"]["continue"]
    await client.request("DELETE", f"{MAPS}/c")
    await server.api.store.compact(server.api.store.revision)
    with pytest.raises(Expired, match="continue parameter is too old") as expired:
        await client.request("GET", MAPS, query={"limit": "1", "continue": token})
    fresh = expired.value.status()["metadata"]["continue"]
    rest = (await client.request("GET", MAPS, query={"continue": fresh})).object
    assert [i["metadata"]["name"] for i in rest["items"]] == ["b"]


async def test_lists_select_by_labels_fields_and_namespace():
    client = (await make_server()).as_user()
    await client.request("POST", MAPS, body={"metadata": {"name": "a", "labels": {"l": "1"}}})
    await client.request("POST", MAPS, body={"metadata": {"name": "b"}})
    await client.request(
        "POST", "/api/v1/namespaces/kube-system/configmaps", body={"metadata": {"name": "a"}}
    )

    async def names(path: str = MAPS, **query: str) -> list[str]:
        items = (await client.request("GET", path, query=query)).object["items"]
        return [f"{i['metadata']['namespace']}/{i['metadata']['name']}" for i in items]

    assert await names(labelSelector="l=1") == ["default/a"]
    assert await names(labelSelector="l!=1") == ["default/b"]
    assert await names(fieldSelector="metadata.name=b") == ["default/b"]
    assert await names("/api/v1/configmaps", fieldSelector="metadata.name=a") == [
        "default/a",
        "kube-system/a",
    ]
    assert await names("/api/v1/configmaps", fieldSelector="metadata.namespace=kube-system") == [
        "kube-system/a"
    ]
    for bad in ({"labelSelector": "a in"}, {"fieldSelector": "spec.x=1"}, {"fieldSelector": "x"}):
        with pytest.raises(BadRequest):
            await names(**bad)


async def test_a_list_can_ask_for_a_past_moment_and_not_for_the_future(monkeypatch):
    from dray.server.handlers import list as listing

    monkeypatch.setattr(listing, "_FRESH_SECONDS", 0.01)
    client = (await make_server()).as_user()
    first = (await client.request("POST", MAPS, body=config("a"))).object["metadata"]["resourceVersion"]
    await client.request("POST", MAPS, body=config("b"))
    exact = {"resourceVersion": first, "resourceVersionMatch": "Exact"}
    past = (await client.request("GET", MAPS, query=exact)).object
    assert [i["metadata"]["name"] for i in past["items"]] == ["a"]
    assert past["metadata"]["resourceVersion"] == first
    with pytest.raises(Timeout, match="Too large resource version"):
        await client.request("GET", MAPS, query={"resourceVersion": "999999"})
    with pytest.raises(BadRequest, match="invalid resource version"):
        await client.request("GET", MAPS, query={"resourceVersion": "abc"})


# -- delete


async def test_a_finalizer_holds_an_object_until_it_is_removed():
    client = (await make_server()).as_user()
    body = config("a")
    body["metadata"]["finalizers"] = ["example.com/f"]
    await client.request("POST", MAPS, body=body)
    held = (await client.request("DELETE", f"{MAPS}/a")).object
    assert held["metadata"]["deletionTimestamp"] and held["metadata"]["deletionGracePeriodSeconds"] == 0
    with pytest.raises(Invalid, match="no new finalizers can be added"):
        await client.request(
            "PATCH",
            f"{MAPS}/a",
            body={"metadata": {"finalizers": ["x/y", "example.com/f"]}},
            content_type=MERGE,
        )
    await client.request("PATCH", f"{MAPS}/a", body={"metadata": {"finalizers": None}}, content_type=MERGE)
    with pytest.raises(NotFound):
        await client.request("GET", f"{MAPS}/a")


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")]
)
async def test_dependents_are_left_to_the_garbage_collector(policy, finalizer):
    client = (await make_server()).as_user()
    await client.request("POST", MAPS, body=config("a"))
    held = (await client.request("DELETE", f"{MAPS}/a", query={"propagationPolicy": policy})).object
    assert held["metadata"]["finalizers"] == [finalizer]


async def test_preconditions_guard_a_deletion():
    client = (await make_server()).as_user()
    created = (await client.request("POST", MAPS, body=config("a"))).object["metadata"]
    for wrong in ({"uid": "x"}, {"resourceVersion": "1"}):
        with pytest.raises(Conflict, match="in the precondition"):
            await client.request("DELETE", f"{MAPS}/a", body={"preconditions": wrong})
    right = {"uid": created["uid"], "resourceVersion": created["resourceVersion"]}
    assert (await client.request("DELETE", f"{MAPS}/a", body={"preconditions": right})).object[
        "status"
    ] == "Success"


async def test_a_pod_on_a_node_gets_its_grace_which_can_only_be_shortened():
    server = await make_server()
    client = server.as_user()
    await client.request("POST", PODS, body=pod("p", nodeName="n"))

    async def delete(**options: object) -> dict:
        return (await client.request("DELETE", f"{PODS}/p", body=options)).object["metadata"]

    assert (await delete())["deletionGracePeriodSeconds"] == 30
    assert (await delete(gracePeriodSeconds=60))["deletionGracePeriodSeconds"] == 30
    assert (await delete(gracePeriodSeconds=5))["deletionGracePeriodSeconds"] == 5
    server.time.now += 20
    assert (await delete(gracePeriodSeconds=2))["deletionGracePeriodSeconds"] == 1
    await delete(gracePeriodSeconds=0)
    with pytest.raises(NotFound):
        await client.request("GET", f"{PODS}/p")


async def test_some_namespaces_must_stay_and_others_end_by_finalizing():
    client = (await make_server()).as_user()
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await client.request("DELETE", "/api/v1/namespaces/default")
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "n"}})
    ending = (await client.request("DELETE", "/api/v1/namespaces/n")).object
    assert ending["status"]["phase"] == "Terminating"
    await client.request(
        "PUT", "/api/v1/namespaces/n/finalize", body={"metadata": {"name": "n"}, "spec": {"finalizers": []}}
    )
    with pytest.raises(NotFound):
        await client.request("GET", "/api/v1/namespaces/n")


async def test_a_collection_is_deleted_by_selector():
    client = (await make_server()).as_user()
    for name, label in (("a", "1"), ("b", "2"), ("c", "1")):
        await client.request("POST", MAPS, body={"metadata": {"name": name, "labels": {"l": label}}})
    gone = (await client.request("DELETE", MAPS, query={"labelSelector": "l=1"})).object
    assert [i["metadata"]["name"] for i in gone["items"]] == ["a", "c"]
    left = (await client.request("GET", MAPS)).object["items"]
    assert [i["metadata"]["name"] for i in left] == ["b"]


# -- authorization


async def test_what_is_not_allowed_is_forbidden_in_upstreams_words():
    from dray.server.auth.authorizer import AuthorizerChain, PrivilegedGroups

    server = await make_server(authorizer=AuthorizerChain([PrivilegedGroups()]))
    nobody = server.as_user("bob", "people")
    with pytest.raises(Forbidden) as refused:
        await nobody.request("GET", f"{MAPS}/a")
    assert refused.value.message == (
        'configmaps "a" is forbidden: User "bob" cannot get resource "configmaps" in API group "" '
        'in the namespace "default"'
    )
    with pytest.raises(Forbidden, match='forbidden: User "bob" cannot get path "/metrics"'):
        await nobody.request("GET", "/metrics")


async def test_an_apply_that_creates_needs_the_right_to_create():
    from dray.server.auth.authorizer import Attributes, Decision, Verdict

    class NoCreation:
        def authorize(self, attributes: Attributes) -> Verdict:
            allowed = attributes.verb != "create" or attributes.user.name != "bob"
            return Verdict(Decision.ALLOW if allowed else Decision.NO_OPINION)

    server = await make_server(authorizer=NoCreation())
    apply = {"content_type": "application/apply-patch+yaml", "query": {"fieldManager": "me"}}
    with pytest.raises(Forbidden, match='User "bob" cannot create resource "configmaps"'):
        await server.as_user("bob").request("PATCH", f"{MAPS}/a", body=config("a"), **apply)
    await server.as_user().request("POST", MAPS, body=config("a"))
    changed = await server.as_user("bob").request("PATCH", f"{MAPS}/a", body=config("a", k="v"), **apply)
    assert changed.object["data"] == {"k": "v"}


async def test_every_error_is_a_status():
    client = (await make_server()).as_user()
    with pytest.raises(StatusError) as refused:
        await client.request(
            "POST", MAPS, body={**config("a"), "metadata": {"name": "a", "resourceVersion": "5"}}
        )
    assert refused.value.message == "resourceVersion should not be set on objects to be created"


async def test_a_continue_token_expires_with_its_revision_and_another_goes_on_from_where_it_was():
    server = await make_server()
    client = server.as_user()
    path = "/api/v1/namespaces/default/configmaps"
    for name in "abcde":
        await client.request("POST", path, body={"metadata": {"name": name}})
    first = (await client.request("GET", path, query={"limit": "2"})).body
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "other"}})
    await server.api.store.compact(server.api.store.revision)
    with pytest.raises(Expired) as expired:
        await client.request("GET", path, query={"limit": "2", "continue": first["metadata"]["continue"]})
    token = expired.value.status()["metadata"]["continue"]
    rest = (await client.request("GET", path, query={"continue": token})).body
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e"]


async def test_errors_are_worded_as_upstream_words_them():
    server = await make_server(served=SERVED | {"events"})
    client = server.as_user()
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    with pytest.raises(NotFound, match=r'^events "x" not found$'):
        await client.request("GET", f"{events}/x")
    with pytest.raises(Invalid, match=r'^Event "x" is invalid'):
        await client.request("POST", events, body={"metadata": {"name": "x"}})
    maps = "/api/v1/namespaces/default/configmaps"
    await client.request("POST", maps, body={"metadata": {"name": "a"}})
    with pytest.raises(StatusError, match=r'^strconv.ParseUint: parsing "z": invalid syntax$'):
        await client.request("PUT", f"{maps}/a", body={"metadata": {"name": "a", "resourceVersion": "z"}})
    user = UserInfo("u", extra={"b": ("1",), "a": ("2",)})
    assert list(user.document()["extra"]) == ["a", "b"]


@pytest.mark.parametrize("query", [{}, {"labelSelector": "no=body"}])
async def test_others_have_their_turn_while_much_is_listed(query: dict[str, str]):
    """A list of so many objects that decoding them would hold the loop."""
    client = (await make_server()).as_user()
    for number in range(500):
        await client.request("POST", MAPS, body=config(f"c-{number}"))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    found = (await client.request("GET", MAPS, query=query)).object
    waiting.cancel()
    assert len(found["items"]) == (0 if query else 500)
    assert turns >= 3
