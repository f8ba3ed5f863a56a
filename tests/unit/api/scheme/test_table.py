"""Objects as table rows and as bare metadata."""

from __future__ import annotations

from dray.api.scheme import table
from dray.api.scheme.kinds import Column, Kind, Printer, Version

PRINTER = Printer(
    columns=(Column("Name", format="name"), Column("Size", type="integer", priority=1)),
    cells=lambda obj, now: (obj["metadata"]["name"], obj["size"]),
    conditions=lambda obj: [{"type": "Completed", "status": "True"}] if obj["size"] == 0 else [],
)
HUB = {"metadata": {"name": "a"}, "size": 3}
V1 = {"kind": "Thing", "apiVersion": "x/v1", "metadata": {"name": "a"}, "count": 3}


def test_a_table_has_columns_and_rows() -> None:
    rows = [table.row(PRINTER, HUB, V1, now=0)]
    found = table.table(PRINTER, rows, metadata={"resourceVersion": "5"})
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert found["metadata"] == {"resourceVersion": "5"}
    assert [(c["name"], c["type"], c["priority"]) for c in found["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Size", "integer", 1),
    ]
    assert found["rows"][0]["cells"] == ["a", 3]


def test_a_row_carries_as_much_of_the_object_as_is_asked_for() -> None:
    assert table.row(PRINTER, HUB, V1, now=0, include="None")["object"] is None
    assert table.row(PRINTER, HUB, V1, now=0, include="Object")["object"] == V1
    partial = table.row(PRINTER, HUB, V1, now=0, version="v1beta1")["object"]
    assert partial == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": {"name": "a"},
    }


def test_conditions_of_a_row_appear_only_when_there_are_some() -> None:
    assert "conditions" not in table.row(PRINTER, HUB, V1, now=0)
    assert table.row(PRINTER, {**HUB, "size": 0}, V1, now=0)["conditions"][0]["type"] == "Completed"


def test_later_events_of_a_watch_leave_the_columns_out() -> None:
    assert table.table(PRINTER, [], metadata={}, columns=False)["columnDefinitions"] is None


def test_a_list_can_be_reduced_to_metadata() -> None:
    found = table.partial_object_metadata_list([V1], metadata={"continue": "x"})
    assert found["kind"] == "PartialObjectMetadataList"
    assert found["items"] == [table.partial_object_metadata(V1)]


def test_kinds_without_columns_show_name_and_creation() -> None:
    kind = Kind(
        group="", kind="Thing", plural="things", versions=(Version(name="v1", type=""),), storage="v1"
    )
    names = [c.name for c in table.printer_of(kind).columns]
    assert names == ["Name", "Created At"]
