from __future__ import annotations

import pytest

from dray.api.errors import NotAcceptable, UnsupportedMediaType
from dray.server.endpoints import negotiation
from dray.server.endpoints.negotiation import JSON, PLAIN, PROTOBUF, YAML
from dray.server.endpoints.requests import Request
from dray.wire.messages import Headers, Query


def request(query: str = "", **headers: str) -> Request:
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Request("GET", "/", Query(query), Headers(pairs))


@pytest.mark.parametrize(
    ("accept", "type", "transform"),
    [
        ("", JSON, ""),
        ("*/*", JSON, ""),
        ("application/yaml", YAML, ""),
        ("application/yaml;q=0.5,application/json", JSON, ""),
        ("application/vnd.kubernetes.protobuf,application/json", PROTOBUF, ""),
        ("application/json,application/vnd.kubernetes.protobuf", JSON, ""),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json", JSON, ""),
        (f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io", PROTOBUF, "PartialObjectMetadata"),
        ("text/html, */*;q=0.1", JSON, ""),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", JSON, "Table"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", JSON, ""),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", JSON, "PartialObjectMetadata"),
    ],
)
def test_the_best_clause_that_can_be_served_wins(accept, type, transform):
    media = negotiation.negotiate_output(request(accept=accept))
    assert (media.type, media.transform) == (type, transform)


def test_custom_resources_have_no_form_in_protobuf_but_their_metadata_has():
    plain = request(accept=f"{PROTOBUF},application/json")
    assert negotiation.negotiate_output(plain, custom=True).type == JSON
    with pytest.raises(NotAcceptable):
        negotiation.negotiate_output(request(accept=PROTOBUF), custom=True)
    metadata = request(accept=f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json")
    assert negotiation.negotiate_output(metadata, custom=True).type == PROTOBUF


def test_an_unknown_type_is_refused_in_the_routers_words():
    with pytest.raises(NotAcceptable, match="406: Not Acceptable"):
        negotiation.negotiate_output(request(accept="text/plain"))


def test_an_unknown_form_of_a_known_type_is_refused_in_the_handlers_words():
    with pytest.raises(NotAcceptable, match="only the following media types are accepted"):
        negotiation.negotiate_output(request(accept="application/json;as=Table;v=v9;g=meta.k8s.io"))


def test_people_get_indented_answers_unless_they_say_otherwise():
    assert negotiation.negotiate_output(request(user_agent="curl/8")).pretty
    assert negotiation.negotiate_output(request("pretty=true")).pretty
    assert negotiation.negotiate_output(request("pretty=false", user_agent="curl/8")) is PLAIN
    assert negotiation.negotiate_output(request(user_agent="kubectl")) is PLAIN


def test_bodies_are_json_yaml_or_protobuf():
    assert negotiation.negotiate_input(request(content_type="application/json; charset=utf-8")) == JSON
    assert negotiation.negotiate_input(request()) == JSON
    assert negotiation.negotiate_input(request(content_type="application/yaml")) == YAML
    assert negotiation.negotiate_input(request(content_type=negotiation.PROTOBUF)) == negotiation.PROTOBUF
    with pytest.raises(UnsupportedMediaType):
        negotiation.negotiate_input(request(content_type=negotiation.PROTOBUF), custom=True)
    with pytest.raises(UnsupportedMediaType, match="unknown format"):
        negotiation.negotiate_input(request(content_type="text/plain"))


@pytest.mark.parametrize("accept", ["", JSON, "*/*", YAML, f"{JSON};as=Table;v=v1;g=meta.k8s.io"])
@pytest.mark.parametrize("agent", ["dray", "curl/8"])
@pytest.mark.parametrize("query", ["", "pretty=true", "pretty=false", "limit=1"])
def test_headers_that_were_looked_at_before_ask_for_the_same(accept, agent, query):
    seen = Headers([("accept", accept), ("user-agent", agent)])
    negotiation.negotiate_output(Request("GET", "/", Query(), seen))
    again = negotiation.negotiate_output(Request("GET", "/", Query(query), seen))
    assert again == negotiation.negotiate_output(request(query, accept=accept, user_agent=agent))
