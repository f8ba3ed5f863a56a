"""News of owned objects: each is told to those who keep its owner's kind."""

from __future__ import annotations

from types import SimpleNamespace

from dray.client.informers import Informer
from dray.client.resources import PODS
from dray.controllers.owner_events import OwnerEvents


def pod(name, kind=None, *, controller=True, uid="u", **labels):
    owners = [{"kind": kind, "name": "o", "uid": uid, "controller": controller}] if kind else []
    return {"metadata": {"namespace": "n", "name": name, "ownerReferences": owners, "labels": labels}}


def tell(informer, kind, document):
    informer._apply([SimpleNamespace(type=kind, object=document)])


class Keeper(list):
    def follow(self, news, kind, *, strays=False):
        def name(mark):
            return lambda one, *_: self.append(mark + one["metadata"]["name"])

        news.add_handler(
            kind,
            on_change=lambda new, old: name("~" if old else "+")(new),
            on_delete=name("-"),
            on_orphan=name("?") if strays else None,
        )
        return self


async def test_each_keeper_hears_of_its_own_and_of_nobody_elses():
    informer = Informer(None, PODS)
    news = OwnerEvents(informer)
    jobs, sets = Keeper().follow(news, "Job"), Keeper().follow(news, "ReplicaSet", strays=True)
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        for document in (
            pod("a", "Job"),
            pod("b", "ReplicaSet"),
            pod("c"),
            pod("d", "Job", controller=False),
        ):
            tell(informer, kind, document)
    assert jobs == ["+a", "~a", "-a"]
    assert sets == ["+b", "?c", "?d", "~b", "-b"], (
        "strays that stay as they are, or go, are nobody's business"
    )


async def test_who_comes_late_hears_of_what_is_there():
    informer = Informer(None, PODS)
    tell(informer, "ADDED", pod("a", "Job"))
    tell(informer, "ADDED", pod("b"))
    news = OwnerEvents(informer)
    assert Keeper().follow(news, "Job") == ["+a"]
    assert Keeper().follow(news, "Job", strays=True) == ["+a", "?b"]


async def test_an_owner_hears_that_it_lost_an_object_to_another_or_to_nobody():
    informer = Informer(None, PODS)
    news = OwnerEvents(informer)
    jobs, sets = Keeper().follow(news, "Job"), Keeper().follow(news, "ReplicaSet", strays=True)
    tell(informer, "ADDED", pod("a", "Job"))
    tell(informer, "MODIFIED", pod("a", "ReplicaSet", uid="v"))
    tell(informer, "MODIFIED", pod("a", "ReplicaSet", uid="w"))
    tell(informer, "MODIFIED", pod("a"))
    assert jobs == ["+a", "-a"]
    assert sets == ["~a", "-a", "~a", "-a", "?a"]


async def test_a_stray_with_other_labels_is_offered_again():
    informer = Informer(None, PODS)
    sets = Keeper().follow(OwnerEvents(informer), "ReplicaSet", strays=True)
    for document in (pod("a"), pod("a"), pod("a", app="x")):
        tell(informer, "MODIFIED", document)
    assert sets == ["?a", "?a"]
