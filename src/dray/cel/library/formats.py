"""Named formats: ``format.dns1123Label().validate(text)`` gives the reasons why a text does not fit, if any."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

from dray.api.validation import names
from dray.cel.common import types as t
from dray.cel.common.decls import Library, overload
from dray.cel.common.values import NONE, Optional
from dray.cel.library.urls import parse as parse_url

FORMAT_TYPE: Final = t.object_type("kubernetes.NamedFormat")
_UUID: Final = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_TIME: Final = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Format:
    """A format: its name, its check, and how large its pattern counts."""

    __slots__ = ("check", "max_regex_size", "name")
    cel_type = FORMAT_TYPE
    go_type = "cel.Format"

    def __init__(self, name: str, check: Callable[[str], Sequence[str]], max_regex_size: int) -> None:
        self.name = name
        self.check = check
        self.max_regex_size = max_regex_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _prefix(check: Callable[[str], Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """The same check for a name that more will be appended to: it may end in a dash."""

    def checked(text: str) -> Sequence[str]:
        return check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)

    return checked


def _matching(test: Callable[[str], bool], complaint: str) -> Callable[[str], Sequence[str]]:
    return lambda text: () if test(text) else (complaint,)


def _uri(text: str) -> Sequence[str]:
    try:
        parse_url(text, request=True)
    except ValueError as wrong:
        return (str(wrong),)
    return ()


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        # Go knows a year zero.
        date.fromisoformat("2000" + text[4:] if text.startswith("0000") else text)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    day, _, time = text.lower().partition("t")
    found = re.match(_TIME, time.partition("t")[0])
    return _is_date(day) and found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


FORMATS_BY_NAME: Final = {
    "dns1123Label": Format("DNS1123Label", names.dns1123_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", names.dns1123_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", names.dns1035_label, 30),
    "qualifiedName": Format("QualifiedName", names.qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(names.dns1123_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(names.dns1123_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(names.dns1035_label), 30),
    "labelValue": Format("LabelValue", names.label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format(
        "uuid",
        _matching(lambda text: re.search(_UUID, text) is not None, "does not match the UUID format"),
        len(_UUID),
    ),
    "byte": Format("byte", _matching(lambda text: _BASE64.fullmatch(text) is not None, "invalid base64"), 84),
    "date": Format("date", _matching(_is_date, "invalid date"), len(_TIME)),
    "datetime": Format("datetime", _matching(_is_datetime, "invalid datetime"), len(_TIME)),
}


def _validate(format: Format, text: str) -> Optional:
    complaints = format.check(text)
    return Optional(list(complaints)) if complaints else NONE


def _named(name: str) -> Optional:
    found = FORMATS_BY_NAME.get(name)
    return Optional(found) if found is not None else NONE


_F: Final = "kubernetes.NamedFormat"

FORMATS: Final = Library(
    name="kubernetes.format",
    types=(FORMAT_TYPE,),
    overloads=(
        overload("validate", "format-validate", f"{_F}.(string) -> optional(list(string))", _validate),
        overload("format.named", "format-named", f"(string) -> optional({_F})", _named),
        *(
            overload(f"format.{name}", f"format.{name}", f"() -> {_F}", lambda found=found: found)
            for name, found in FORMATS_BY_NAME.items()
        ),
    ),
)
