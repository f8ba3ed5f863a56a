"""Requests and responses between the wire and the handlers: request info, options, negotiation, decoding, writing."""
