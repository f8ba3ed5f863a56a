"""Stored objects in memory: documents and their codecs, the watch cache, continue tokens, bridged generations."""
