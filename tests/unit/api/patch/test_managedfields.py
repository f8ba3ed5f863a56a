"""The order in which the fields of a manager are written."""

from __future__ import annotations

from dray.api.patch.managedfields import Manager, Owned, write_entries


def test_fields_are_written_in_upstreams_order():
    fields = {
        "f:b": {},
        'k:{"name":"x"}': {"f:z": {}, ".": {}, "f:a": {}},
        "f:a": {},
        "i:0": {},
        'v:"q"': {},
        ".": {},
    }
    for _ in range(2):
        (entry,) = write_entries({Manager("m", "Update", "v1", ""): Owned(fields, "v1", None)})
        assert list(entry["fieldsV1"]) == [".", "f:a", "f:b", 'k:{"name":"x"}', 'v:"q"', "i:0"]
        assert list(entry["fieldsV1"]['k:{"name":"x"}']) == [".", "f:a", "f:z"]
