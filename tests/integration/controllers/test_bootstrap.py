"""What a cluster says about itself is signed with each of its tokens, and tokens go when they have run out."""

from __future__ import annotations

from dray.api import bootstraptoken
from dray.api.bootstraptoken import Token
from dray.client.resources import CONFIGMAPS, SECRETS
from dray.controllers.bootstrap import signed_cluster_info
from tests.support.controlplane import control_plane
from tests.support.wait import wait_for

ONE, TWO = Token("aaaaaa", "0123456789abcdef"), Token("bbbbbb", "0123456789abcdef")
SIGNER, CLEANER = "bootstrap-signer-controller", "token-cleaner-controller"


def test_each_token_that_may_sign_has_its_signature_and_no_other_has():
    ended = bootstraptoken.secret(TWO, expiration="1970-01-01T00:01:40Z")
    data = {"kubeconfig": "k", "jws-kubeconfig-cccccc": "old", "else": "kept"}
    wanted = {"kubeconfig": "k", "else": "kept", "jws-kubeconfig-aaaaaa": bootstraptoken.signature("k", ONE)}
    assert signed_cluster_info(data, [bootstraptoken.secret(ONE), ended], now=100) == wanted
    assert signed_cluster_info({"jws-kubeconfig-cccccc": "old"}, [bootstraptoken.secret(ONE)], now=0) == {
        "jws-kubeconfig-cccccc": "old"
    }


async def test_signatures_follow_what_is_signed_and_the_tokens():
    async with control_plane(SIGNER) as s:
        info = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "first"}}
        await s.client.create(CONFIGMAPS, "kube-public", info)
        await s.client.create(SECRETS, "kube-system", bootstraptoken.secret(ONE))

        async def data() -> dict[str, str]:
            return (await s.client.get(CONFIGMAPS, "kube-public", "cluster-info"))["data"]

        async def is_signed() -> bool:
            found = await data()
            return bootstraptoken.is_signed(found["kubeconfig"], found.get("jws-kubeconfig-aaaaaa", ""), ONE)

        await wait_for("a signature of the cluster-info", is_signed)
        await s.client.patch(CONFIGMAPS, "kube-public", "cluster-info", {"data": {"kubeconfig": "second"}})
        await wait_for("a signature of the cluster-info", is_signed)
        assert (await data())["kubeconfig"] == "second"
        await s.client.delete(SECRETS, "kube-system", ONE.name)

        async def is_unsigned() -> bool:
            return list(await data()) == ["kubeconfig"]

        await wait_for("the cluster-info without signatures", is_unsigned)


async def test_a_token_goes_when_it_has_run_out():
    async with control_plane(CLEANER) as s:
        for token, ends in ((ONE, ""), (TWO, "2020-01-01T00:00:00Z")):
            await s.client.create(SECRETS, "kube-system", bootstraptoken.secret(token, expiration=ends))
        await s.wait_gone(SECRETS, TWO.name, "kube-system")
        assert await s.get(SECRETS, ONE.name, "kube-system") is not None
