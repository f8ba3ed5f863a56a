"""Objects as rows of a Table and as bare metadata, the two shapes clients may ask for instead of the object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Object, Printer

META_GROUP: Final = "meta.k8s.io"

#: How much of the object a row carries.
Include = Literal["None", "Metadata", "Object"]


def printer_of(kind: Kind) -> Printer:
    return kind.printer or printers.DEFAULT_PRINTER


def table(
    printer: Printer,
    rows: Iterable[Object],
    *,
    metadata: Mapping[str, Any],
    version: str = "v1",
    columns: bool = True,
) -> Object:
    """A Table. Events of a watch after the first leave the columns out."""
    return {
        "kind": "Table",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": dict(metadata),
        "columnDefinitions": [_definition(c) for c in printer.columns] if columns else None,
        "rows": list(rows),
    }


def row(
    printer: Printer,
    hub: Object,
    versioned: Object,
    *,
    now: float,
    include: Include = "Metadata",
    version: str = "v1",
) -> Object:
    """One row; the cells come from the hub object, what goes along from the object in the request's version."""
    result: Object = {"cells": list(printer.cells(hub, now))}
    if printer.conditions is not None and (conditions := list(printer.conditions(hub))):
        result["conditions"] = conditions
    match include:
        case "None":
            result["object"] = None
        case "Metadata":
            result["object"] = partial_object_metadata(versioned, version=version)
        case "Object":
            result["object"] = versioned
    return result


def bookmark_row(printer: Printer, obj: Object, *, version: str = "v1") -> Object:
    """The row of a bookmark, which is about no object: what it says is in the metadata that goes along."""
    return {
        "cells": ["" for _ in printer.columns],
        "object": partial_object_metadata(obj, version=version),
    }


def partial_object_metadata(obj: Object, *, version: str = "v1") -> Object:
    """An object's metadata, without the rest."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": obj["metadata"],
    }


def partial_object_metadata_list(
    objects: Iterable[Object], *, metadata: Mapping[str, Any], version: str = "v1"
) -> Object:
    """The metadata of many objects."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": dict(metadata),
        "items": [partial_object_metadata(obj, version=version) for obj in objects],
    }


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
