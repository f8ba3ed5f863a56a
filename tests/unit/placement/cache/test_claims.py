"""The ledger of claims: news may come twice, late, or without versions."""

from __future__ import annotations

from dray.placement.cache.claims import ClaimCache

DEVICE = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu-0"}


def claim(version, *, allocated=False, uid="u"):
    metadata = {"namespace": "n", "name": "c", "uid": uid}
    status = {"allocation": {"devices": {"results": [DEVICE]}}} if allocated else {}
    return {"metadata": metadata | ({"resourceVersion": version} if version else {}), "status": status}


def known(claim_cache):
    return claim_cache.claim("n", "c")


def test_older_and_known_versions_of_a_claim_are_ignored():
    claim_cache = ClaimCache()
    newest = claim("10", allocated=True)
    for news in (claim("9"), newest, claim("9"), claim("10", allocated=True)):
        claim_cache.set_claim(news)
    assert known(claim_cache) is newest


def test_where_versions_are_not_numbers_the_last_event_counts():
    claim_cache = ClaimCache()
    first, second = claim("b"), claim("a", allocated=True)
    claim_cache.set_claim(first)
    claim_cache.set_claim(second)
    assert known(claim_cache) is second


def test_without_versions_the_last_event_counts():
    claim_cache = ClaimCache()
    claim_cache.set_claim(claim(""))
    second = claim("", allocated=True)
    claim_cache.set_claim(second)
    assert known(claim_cache) is second


def test_another_claim_of_the_same_name_replaces_the_first_whatever_its_version():
    claim_cache = ClaimCache()
    claim_cache.set_claim(claim("10", allocated=True))
    second = claim("9", uid="other")
    claim_cache.set_claim(second)
    assert known(claim_cache) is second
