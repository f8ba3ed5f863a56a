"""Decoding of objects that a policy or webhook has changed, as if the client had sent them so."""

from __future__ import annotations

from dray.api.objects import clone
from dray.api.scheme.kinds import Object
from dray.server.admission import Attributes, internal_error
from dray.server.apiserver import APIServer
from dray.server.storage.codec import Codec


def decode_mutated(api: APIServer, obj: Object, codec: Codec, attributes: Attributes) -> None:
    """Put an object of the codec's version in the place of the request's, shaped and defaulted.

    BadRequest if it has a shape that its type cannot have.
    """
    found = api.resources.find(attributes.group, attributes.version, attributes.resource)
    if found is None or codec.kind.kind != attributes.codec.kind.kind:
        raise internal_error(f"{codec.kind.kind} cannot be changed here")
    shaped, _ = api.decoder.shape(clone(obj), codec, strict=False)
    if attributes.restore is not None:
        assert attributes.object is not None
        attributes.replace(attributes.restore(shaped, attributes.object))
    elif codec.kind is found[0].kind:
        attributes.replace(api.decoder.hub(shaped, codec.version, found[0].codecs))
    else:
        attributes.replace(shaped)  # the body of a subresource, which has a single version
