"""Pod security: namespaces say by labels how careful their pods must be."""

from dray.server.admission.podsecurity.plugin import PodSecurity

__all__ = ["PodSecurity"]
