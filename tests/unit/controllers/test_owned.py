"""News of owned objects: each is told to those who keep its owner's kind."""

from __future__ import annotations

from types import SimpleNamespace

from dray.client.informers import Informer
from dray.client.resources import PODS
from dray.controllers.owned import OwnedNews


def pod(name, kind=None, *, controller=True):
    owners = [{"kind": kind, "name": "o", "uid": "u", "controller": controller}] if kind else []
    return {"metadata": {"namespace": "n", "name": name, "ownerReferences": owners}}


def tell(informer, kind, document):
    informer._apply(SimpleNamespace(type=kind, object=document))


class Keeper(list):
    def follow(self, news, *kinds):
        news.follow(
            *kinds,
            on_change=lambda new, old: self.append(("~" if old else "+") + new["metadata"]["name"]),
            on_gone=lambda old: self.append("-" + old["metadata"]["name"]),
        )
        return self


async def test_each_keeper_hears_of_its_own_and_of_nobody_elses():
    informer = Informer(None, PODS)
    news = OwnedNews(informer)
    jobs, sets, all_strays = Keeper().follow(news, "Job"), Keeper().follow(news, "ReplicaSet", None), Keeper()
    all_strays.follow(news, None)
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        for document in (
            pod("a", "Job"),
            pod("b", "ReplicaSet"),
            pod("c"),
            pod("d", "Job", controller=False),
        ):
            tell(informer, kind, document)
    assert jobs == ["+a", "~a", "-a"]
    assert sets == ["+b", "+c", "+d", "~b", "~c", "~d", "-b", "-c", "-d"]
    assert all_strays == ["+c", "+d", "~c", "~d", "-c", "-d"]


async def test_who_comes_late_hears_of_what_is_there():
    informer = Informer(None, PODS)
    tell(informer, "ADDED", pod("a", "Job"))
    tell(informer, "ADDED", pod("b"))
    news = OwnedNews(informer)
    assert Keeper().follow(news, "Job") == ["+a"]
    assert Keeper().follow(news, "Job", None) == ["+a", "+b"]
