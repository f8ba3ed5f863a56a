"""Pod security: the labels of a namespace say which Pod Security Standard its pods must meet."""

from dray.server.admission.podsecurity.plugin import PodSecurity

__all__ = ["PodSecurity"]
