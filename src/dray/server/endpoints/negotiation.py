"""Content negotiation: the media type of the response, and that of the request's body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api import protobuf
from dray.api.errors import NotAcceptable, UnsupportedMediaType
from dray.api.textcache import cache_short
from dray.server.endpoints.requests import Request
from dray.wire.messages import Headers

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = protobuf.MEDIA_TYPE
OFFERED: Final = (JSON, YAML, PROTOBUF)
OFFERED_CUSTOM: Final = (JSON, YAML)

_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_PLAIN: Final = ("", JSON, "*/*")


@dataclass(frozen=True, slots=True)
class MediaType:
    """The chosen representation."""

    type: str = JSON
    transform: str = ""  # Table, PartialObjectMetadata or PartialObjectMetadataList
    transform_version: str = ""  # v1 or v1beta1
    pretty: bool = False


PLAIN: Final = MediaType()


def negotiate_output(
    request: Request, *, custom: bool = False, transforms: bool = True, numbered: bool = True
) -> MediaType:
    """The media the answer will have, or a 406.

    ``transforms`` says whether tables and partial objects are offered. Custom resources, and what else has no
    numbered fields, have no form in protobuf, though their metadata has.
    """
    headers = request.headers
    if headers.once(_wants_plain) and not request.query:
        return PLAIN
    accept, pretty = headers.get("accept"), _pretty(request)
    if not pretty and accept in _PLAIN:
        return PLAIN
    media = choose(accept, transforms=transforms, numbered=numbered and not custom)
    if media is None:
        raise not_acceptable(custom=custom, known=any(_named(c) for c in clauses(accept)))
    return MediaType(media.type, media.transform, media.transform_version, True) if pretty else media


def _named(clause: AcceptClause) -> bool:
    """Whether upstream's router would let a clause pass on to the handler: it compares types, not parameters."""
    return f"{clause.type}/{clause.subtype}" in (*OFFERED, "*/*")


def not_acceptable(*, custom: bool = False, stream: bool = False, known: bool = False) -> NotAcceptable:
    """406 in the router's words or, for types that are known but not in this form, in the handler's."""
    names: tuple[str, ...] = OFFERED_CUSTOM if custom else OFFERED
    if stream:
        names = tuple(f"{n};stream=watch" for n in names if n != YAML)
    if custom or stream or known:
        return NotAcceptable(f"only the following media types are accepted: {', '.join(names)}")
    return NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(names)}", details={})


def _pretty(request: Request) -> bool:
    if request.query:
        asked = request.query.get("pretty")
        if asked:
            return asked in ("1", "t", "T", "true", "TRUE", "True")
    return _human(request.headers)


def _wants_plain(headers: Headers) -> bool:
    return headers.get("accept") in _PLAIN and not _human(headers)


def _human(headers: Headers) -> bool:
    return headers.get("user-agent").startswith(_HUMAN_AGENTS)


@cache_short(256)
def choose(accept: str, *, transforms: bool = True, numbered: bool = True) -> MediaType | None:
    """The first clause of an Accept header, best first, that can be served."""
    if not accept:
        return PLAIN
    for clause in clauses(accept):
        for offered in OFFERED:
            if not clause.accepts(offered):
                continue
            media = _media(offered, clause.parameters, transforms=transforms)
            if media is not None and (numbered or media.type != PROTOBUF or media.transform):
                return media
    return None


@dataclass(frozen=True, slots=True)
class AcceptClause:
    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]

    def accepts(self, media: str) -> bool:
        """Whether the clause names a media type, whatever its parameters say."""
        kind, _, subtype = media.partition("/")
        return self.type in ("*", kind) and self.subtype in ("*", subtype)


def clauses(accept: str) -> list[AcceptClause]:
    found = []
    for part in accept.split(","):
        media, *rest = part.strip().split(";")
        kind, _, subtype = media.strip().partition("/")
        if not subtype:
            if kind != "*":
                continue
            subtype = "*"
        parameters = {}
        quality = 1.0
        for parameter in rest:
            name, _, value = parameter.strip().partition("=")
            if name == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 1.0
            else:
                parameters[name] = value.strip('"')
        found.append(AcceptClause(kind.strip(), subtype.strip(), quality, parameters))
    return sorted(found, key=lambda c: (-c.quality, c.type == "*", c.subtype == "*"))


def _media(offered: str, parameters: dict[str, str], *, transforms: bool) -> MediaType | None:
    stream = parameters.get("stream", "")
    if stream and (stream != "watch" or offered == YAML):
        return None
    if parameters.get("sv"):
        return None
    kind = parameters.get("as", "")
    if kind or "g" in parameters or "v" in parameters:
        group, version = parameters.get("g", ""), parameters.get("v", "")
        if not transforms or group != "meta.k8s.io" or version not in ("v1", "v1beta1"):
            return None
        if kind not in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            return None
        if offered == PROTOBUF and (kind == "Table" or version != "v1"):
            return None
        return MediaType(offered, kind, version, parameters.get("pretty") == "1")
    return MediaType(offered, pretty=parameters.get("pretty") == "1")


def negotiate_input(request: Request, *, custom: bool = False) -> str:
    """JSON, YAML or, for built-in kinds, protobuf; else a 415."""
    declared = request.headers.get("content-type")
    if not declared or declared == JSON:
        return JSON
    media = declared.partition(";")[0].strip().lower()
    if media in (JSON, YAML) or (media == PROTOBUF and not custom):
        return media
    raise unsupported(OFFERED_CUSTOM if custom else OFFERED)


def unsupported(accepted: tuple[str, ...]) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    )
