"""Values against schemas: shaping, checking, paths and formats."""

from __future__ import annotations

import copy
import time

import pytest

from dray.api.errors import RequestEntityTooLarge
from dray.api.groups.apiextensions import formats, jsonpath, listtype, pruning, values
from dray.api.groups.apiextensions.fieldpaths import Target, find_field

STATUS = {
    "status": {
        "conditions": [{"type": "A", "status": "True", "n": 1}, {"type": "Ready", "status": "False", "n": 5}],
        "n": 3,
        "none": None,
    },
    "metadata": {"labels": {"a.b/c": "x"}},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".status.n", [3]),
        (".status.missing.deeper", []),
        (".status.none", [None]),
        ('.status.conditions[?(@.type=="Ready")].status', ["False"]),
        (".status.conditions[?(@.n>1)].type", ["Ready"]),
        (".status.conditions[?(@.n!=1)].type", ["Ready"]),
        (".status.conditions[?(@.missing)].type", []),
        (".status.conditions[-1].type", ["Ready"]),
        (".status.conditions[*].type", ["A", "Ready"]),
        (".status.conditions[0:1].type", ["A"]),
        (".status.conditions[0,1].type", ["A", "Ready"]),
        (".metadata.labels['a\\.b/c']", ["x"]),
        (".metadata.labels.a\\.b/c", ["x"]),
        (".metadata.labels.*", ["x"]),
        ("..type", ["A", "Ready"]),
    ],
)
def test_json_paths_find(path, found):
    assert jsonpath.parse(path).find(STATUS) == found


@pytest.mark.parametrize("path", [".a[", ".a[?(@.x==1)", ".a[x]", '.a[?(@.b=="x)]', "#"])
def test_broken_json_paths_are_refused(path):
    with pytest.raises(jsonpath.PathError):
        jsonpath.parse(path)


@pytest.mark.parametrize("path", [".status.conditions[7]", ".status.n[0]", ".status.n[?(@.x==1)]"])
def test_json_paths_that_do_not_fit_say_so(path):
    with pytest.raises(jsonpath.PathError):
        jsonpath.parse(path).find(STATUS)


def test_found_values_become_text():
    assert [jsonpath.to_text(v) for v in (True, 3, 3.0, 1.5, "x", {"b": [1], "a": None}, None)] == [
        "true", "3", "3", "1.5", "x", '{"a":null,"b":[1]}', "<nil>",
    ]  # fmt: skip


CHECKS = [
    ({"type": "integer"}, "x", 'Invalid value: "string": a in body must be of type integer: "string"'),
    ({"type": "integer"}, 3.0, None),
    ({"type": "number"}, 3, None),
    ({"type": "boolean"}, 1, 'Invalid value: "integer": a in body must be of type boolean: "integer"'),
    ({"type": "string"}, None, 'Invalid value: "null": a in body must be of type string: "null"'),
    ({"type": "string", "nullable": True}, None, None),
    ({"x-kubernetes-int-or-string": True}, "5", None),
    (
        {"x-kubernetes-int-or-string": True},
        True,
        'Invalid value: "boolean": a in body must be of type integer,string: "boolean"',
    ),
    (
        {"type": "integer", "maximum": 10},
        11,
        "Invalid value: 11: a in body should be less than or equal to 10",
    ),
    (
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        0,
        "Invalid value: 0: a in body should be greater than 0",
    ),
    (
        {"type": "number", "minimum": 0.5},
        0.25,
        "Invalid value: 0.25: a in body should be greater than or equal to 0.5",
    ),
    ({"type": "integer", "multipleOf": 3}, 4, "Invalid value: 4: a in body should be a multiple of 3"),
    ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
    (
        {"type": "string", "minLength": 2},
        "ä",
        'Invalid value: "ä": a in body should be at least 2 chars long',
    ),
    ({"type": "string", "pattern": "^x+$"}, "y", "Invalid value: \"y\": a in body should match '^x+$'"),
    ({"type": "string", "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
    ({"type": "string", "format": "date"}, "x", 'Invalid value: "x": a in body must be of type date: "x"'),
    ({"type": "string", "format": "nonsense"}, "x", None),
    ({"type": "array", "maxItems": 1, "items": {}}, [1, 2], "Too many: 2: must have at most 1 item"),
    (
        {"type": "array", "minItems": 1, "items": {}},
        [],
        "Invalid value: 0: a in body should have at least 1 items",
    ),
    ({"type": "object", "maxProperties": 0}, {"x": 1}, "Too many: 1: must have at most 0 items"),
    (
        {"type": "object", "minProperties": 1},
        {},
        "Invalid value: 0: a in body should have at least 1 properties",
    ),
]


@pytest.mark.parametrize(("schema", "value", "problem"), CHECKS)
def test_values_are_checked(schema, value, problem):
    found = values.check({"a": value}, {"type": "object", "properties": {"a": schema}})
    assert [str(e) for e in found] == ([] if problem is None else [f"a: {problem}"])


def test_problems_name_where_they_are():
    schema = {
        "properties": {"l": {"items": {"properties": {"n": {"type": "string"}}, "required": ["n"]}}},
        "required": ["r"],
    }
    found = [str(e) for e in values.check({"l": [{"n": 1}, {}]}, schema, prefix="status")]
    assert found == [
        'status.l[0].n: Invalid value: "integer": l[0].n in body must be of type string: "integer"',
        "status.l[1].n: Required value",
        "status.r: Required value",
    ]


def test_of_alternatives_the_closest_is_explained():
    one = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
    two = {"properties": {"b": {"type": "integer"}}, "required": ["b"]}
    found = [str(e) for e in values.check({"x": {}}, {"properties": {"x": {"oneOf": [one, two]}}})]
    assert found == [
        '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid',
        "x.a: Required value",
    ]
    both = values.check({"x": {"a": 1, "b": 1}}, {"properties": {"x": {"oneOf": [one, two]}}})
    assert "Found 2 valid alternatives" in str(both[0])
    assert not values.check({"a": 1}, {"anyOf": [one, two]})
    assert "must not validate the schema (not)" in str(values.check({"a": 1}, {"not": one})[0])
    assert "must validate all the schemas (allOf)" in str(values.check({"a": 1}, {"allOf": [one, two]})[-1])


def test_what_was_wrong_before_may_stay():
    schema = {
        "properties": {
            "a": {"type": "integer"},
            "l": {
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"properties": {"v": {"type": "integer"}}},
            },
        }
    }
    old = {"a": "x", "l": [{"k": "1", "v": "x"}, {"k": "2", "v": 1}]}
    assert not values.check({**old, "b": 1}, schema, old=old)
    reordered = {"a": "x", "l": [{"k": "2", "v": 1}, {"k": "1", "v": "x"}]}
    assert not values.check(reordered, schema, old=old)
    changed = {"a": "y", "l": [{"k": "1", "v": "x"}, {"k": "2", "v": "x"}]}
    assert [e.field for e in values.check(changed, schema, old=old)] == ["a", "l[1].v"]


def test_unknown_fields_are_pruned_and_reported():
    schema = {
        "properties": {
            "spec": {
                "properties": {
                    "a": {"type": "string"},
                    "free": {
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"k": {"properties": {}}},
                    },
                    "m": {"additionalProperties": {"properties": {"v": {}}}},
                    "l": {"items": {"properties": {"v": {}}}},
                    "o": {"x-kubernetes-embedded-resource": True, "properties": {"spec": {}}},
                }
            }
        }
    }
    spec = {
        "a": "x",
        "junk": 1,
        "free": {"anything": [1], "k": {"gone": 1}},
        "m": {"x": {"v": 1, "w": 2}},
        "l": [{"v": 1}, {"w": 2}],
        "o": {"kind": "X", "apiVersion": "v1", "metadata": {"name": "n"}, "data": 1},
    }
    obj = {
        "kind": "X",
        "apiVersion": "g/v1",
        "metadata": {"name": "n"},
        "spec": copy.deepcopy(spec),
        "other": 1,
    }
    gone = pruning.prune(obj, schema)
    assert gone == ["other", "spec.free.k.gone", "spec.junk", "spec.l[1].w", "spec.m.x.w", "spec.o.data"]
    assert obj["spec"] == {
        "a": "x",
        "free": {"anything": [1], "k": {}},
        "m": {"x": {"v": 1}},
        "l": [{"v": 1}, {}],
        "o": {"kind": "X", "apiVersion": "v1", "metadata": {"name": "n"}},
    }


def test_defaults_are_filled_in_where_their_parents_are():
    schema = {
        "properties": {
            "a": {"default": {"x": 1}, "properties": {"y": {"default": 2}}},
            "b": {"properties": {"z": {"default": 3}}},
            "n": {"default": 4},
            "null": {"nullable": True, "default": 5},
            "m": {"additionalProperties": {"properties": {"q": {"default": 6}}}},
            "l": {"items": {"properties": {"q": {"default": 7}}}},
        }
    }
    value = {"n": None, "null": None, "m": {"k": {}}, "l": [{}]}
    pruning.apply_defaults(value, schema)
    assert value == {
        "a": {"x": 1, "y": 2}, "n": 4, "null": None, "m": {"k": {"q": 6}}, "l": [{"q": 7}],
    }  # fmt: skip
    assert schema["properties"]["a"]["default"] == {"x": 1}


def test_nulls_go_where_none_belong():
    schema = {"properties": {"a": {}, "b": {"nullable": True}, "c": {"default": 1}, "free": {}}}
    value = {"a": None, "b": None, "c": None, "unknown": None}
    pruning.drop_nulls(value, schema)
    assert value == {"b": None, "c": None, "unknown": None}


def test_sets_and_maps_have_no_doubles():
    schema = {
        "properties": {
            "s": {"x-kubernetes-list-type": "set", "items": {}},
            "m": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {}},
        }
    }
    value = {"s": ["a", "b", "a", "a"], "m": [{"k": 1}, {"k": 2}, {"k": 1}]}
    assert [str(e) for e in listtype.check_lists(value, schema)] == [
        's[2]: Duplicate value: "a"',
        'm[2]: Duplicate value: {"k":1}',
    ]
    assert [str(e) for e in listtype.check_lists({"m": ["x"]}, schema)] == [
        'm[0]: Invalid value: "x": must be an object for an array of list-type map'
    ]


def test_embedded_objects_are_objects():
    schema = {"properties": {"o": {"x-kubernetes-embedded-resource": True}}}
    value = {"o": {"kind": "A B", "metadata": {"name": "a/b"}}}
    assert [e.field for e in listtype.check_embedded(value, schema)] == [
        "o.apiVersion",
        "o.kind",
        "o.metadata.name",
    ]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", ("a", "b")),
        (".m.any", ("m", "any")),
        ("['a']['b']", ("a", "b")),
        (".a.c", "does not refer to a valid field"),
        (".a.b.c", "does not refer to a valid field"),
        ("a", "expected [ or . but got: a"),
        (".", "unexpected end of JSON path"),
        ("[a]", "expected single quoted string but got a"),
        ("['a'", "unexpected end of JSON path"),
    ],
)
def test_paths_into_schemas(path, found):
    schema = {
        "properties": {
            "a": {"properties": {"b": {"type": "string"}}},
            "m": {"additionalProperties": {"type": "string"}},
        }
    }
    target = find_field(path, schema)
    assert (target.names if isinstance(target, Target) else target) == found


FORMATS = {
    "uri": (["http://a/b", "/a"], ["a b", "", "nothing"]),
    "email": (["a@b.c", "X <a@b.c>"], ["a", "@b"]),
    "hostname": (["a", "a.example", "1.example"], ["-a", "a_b", "a." + "b" * 64]),
    "ipv4": (["1.2.3.4", "01.2.3.4"], ["1.2.3", "::1"]),
    "ipv6": (["::1"], ["1.2.3.4", ":"]),
    "cidr": (["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/33"]),
    "mac": (["00:11:22:33:44:55"], ["00:11"]),
    "uuid": (["0e2d51c4-7d5b-4c0f-9a5e-1f2a3b4c5d6e"], ["x"]),
    "uuid4": (["0e2d51c4-7d5b-4c0f-9a5e-1f2a3b4c5d6e"], ["0e2d51c4-7d5b-3c0f-9a5e-1f2a3b4c5d6e"]),
    "isbn10": (["0321751043"], ["0321751044"]),
    "isbn13": (["978-0321751041"], ["978-0321751042"]),
    "creditcard": (["4111 1111 1111 1111"], ["4111 1111 1111 1112"]),
    "ssn": (["123-45-6789"], ["1"]),
    "hexcolor": (["#fff", "ABCDEF"], ["#ff"]),
    "rgbcolor": (["rgb(1,2,3)"], ["rgb(1,2)"]),
    "byte": (["YQ=="], ["Y", ""]),
    "date": (["2026-01-02"], ["2026-13-02", "x"]),
    "date-time": (["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1+01:00"], ["2026-01-02", "x"]),
    "duration": (["1h", "1.5s", "3 days"], ["x", ""]),
    "k8s-short-name": (["a-b"], ["A", "a" * 64]),
    "k8s-long-name": (["a.b"], ["a..b"]),
    "password": (["", "anything"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name):
    good, bad = FORMATS[name]
    assert formats.recognized({"type": "string", "format": name})
    assert [text for text in good if not formats.fits(text, name)] == []
    assert [text for text in bad if formats.fits(text, name)] == []


def test_formats_belong_to_types():
    assert formats.recognized({"type": "integer", "format": "int32"})
    assert not formats.recognized({"type": "integer", "format": "float"})
    assert not formats.recognized({"type": "boolean", "format": "date"})
    assert not formats.recognized({"format": "nonsense"})


def test_many_patterns_read_a_long_text_only_so_often():
    schema = {"type": "string", "allOf": [{"pattern": f"^x{{1,{n}}}y"} for n in range(1, 300)]}
    started = time.process_time()
    found = values.check("x" * (1 << 20), schema)
    assert [error.detail for error in found] == [
        "patterns of the schema are matched with at most 16777216 characters of an object"
    ]
    assert time.process_time() - started < 1
    assert values.check("xy" * 1000, {"type": "string", "allOf": [{"pattern": "x"}] * 300}) == []


def test_defaults_take_no_more_room_than_an_object_may_have():
    schema = {"items": {"properties": {"a": {"default": "x" * 100_000}, "b": {"default": {"c": [1]}}}}}
    with pytest.raises(RequestEntityTooLarge, match="the 1572864 bytes that an object may have"):
        pruning.apply_defaults([{} for _ in range(20_000)], schema)
    few = [{}, {}]
    pruning.apply_defaults(few, schema)
    assert few[1] == {"a": "x" * 100_000, "b": {"c": [1]}}
