"""What is remembered of content, and what never is."""

from __future__ import annotations

from dray.api.validation.cache import GeneratedName, Interner, ValidationCache, content_key


def test_content_is_looked_at_once_if_nothing_was_found() -> None:
    memory, looked = ValidationCache(), []

    def check() -> list[str]:
        looked.append(1)
        return []

    for _ in range(3):
        assert memory.once("pod", check, {"a": [1, True]}, None) in ([], ())
    assert len(looked) == 1
    memory.once("pod", check, {"a": [1, 1]}, None)
    memory.once("warnings", check, {"a": [1, True]}, None)
    assert len(looked) == 3


def test_what_is_wrong_is_said_every_time() -> None:
    memory = ValidationCache()
    assert [list(memory.once("pod", lambda: ["bad"], {"a": 1})) for _ in range(2)] == [["bad"], ["bad"]]


def test_the_oldest_content_is_forgotten_first() -> None:
    memory, looked = ValidationCache(size=2), []

    def look(name: str) -> None:
        def check() -> list[str]:
            looked.append(name)
            return []

        memory.once("x", check, name)

    for name in ("a", "b", "c", "c", "b", "a"):
        look(name)
    assert looked == ["a", "b", "c", "a"]


def test_what_is_too_long_or_cannot_be_written_is_not_remembered() -> None:
    looked: list[int] = []

    def check() -> list[str]:
        looked.append(1)
        return []

    memory = ValidationCache()
    for part in ("x" * 10_000, object(), "\ud800"):
        assert content_key(part) == b""
        memory.once("x", check, part)
        memory.once("x", check, part)
    assert len(looked) == 6


def test_contents_that_differ_in_a_generated_name_alone_are_one():
    def key(name: str, mounted: str, other: str = "") -> bytes:
        content = {"volumes": [{"name": name}], "mounts": [{"name": mounted}], "other": other}
        return content_key(content, generated=GeneratedName(name, 1 + (mounted == name)))

    assert key("token-abcde", "token-abcde") == key("token-fghij", "token-fghij")
    assert key("token-abcde", "token-abcde") != key("token-fghij", "token-abcde")
    assert key("token-abcde", "x") == key("token-fghij", "x")
    elsewhere = [key(name, name, other=f"as {name}") for name in ("token-abcde", "token-fghij")]
    assert elsewhere[0] != elsewhere[1]


def test_equal_values_are_held_once() -> None:
    shared = Interner()
    first = shared.one({"value": "80Gi"})
    assert shared.one({"value": "80Gi"}) is first
    assert shared.one({"value": "40Gi"}) is not first
    assert shared.one({"bool": True}) != shared.one({"int": 1})
