"""networking.k8s.io: how requests come in from outside, and which traffic between pods is allowed.

Nothing here carries traffic; the kinds are there for the controllers and charts that bring their own.
"""

from __future__ import annotations

from dray.api.groups.networking import ingress, ingressclass, ipaddress, networkpolicy, servicecidr

KINDS = (ingress.KIND, ingressclass.KIND, ipaddress.KIND, networkpolicy.KIND, servicecidr.KIND)
