"""What is asked of the fields of Workload, PodGroup and CompositePodGroup, and of a Job's configuration for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dray.api.groups.scheduling.priorityclass import HIGHEST_USER_PRIORITY
from dray.api.validation import names
from dray.api.validation.declarative import Rule, Struct, label_key

_TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
_POLICIES: Final = ("PreemptLowerPriority", "Never")
MOST_TEMPLATES: Final = 8
MOST_CLAIMS: Final = 4

_LONG_NAME: Final = Rule(check=names.dns1123_subdomain)
_LONG_NAME_IF_ANY: Final = replace(_LONG_NAME, pointer=True)
_SHORT_NAME: Final = Rule(required=True, check=names.dns1123_label)
_PATH_SEGMENT: Final = Rule(required=True, check=names.path_segment)
_EMPTY: Final = Struct(fields={})

GANG: Final = Struct(fields={"minCount": Rule(required=True, minimum=1)})
POLICY: Final = Struct(
    union=("basic", "gang"),
    fields={
        "basic": Rule(immutable=True, struct=lambda: _EMPTY),
        "gang": Rule(kept=True, struct=lambda: GANG),
    },
)
_GROUPS: Final = Struct(fields={"minGroupCount": Rule(required=True, minimum=1)})
COMPOSITE_POLICY: Final = Struct(
    union=("basic", "gang"),
    fields={
        "basic": Rule(immutable=True, struct=lambda: _EMPTY),
        "gang": Rule(kept=True, struct=lambda: _GROUPS),
    },
)
DISRUPTION: Final = Struct(union=("single", "all"), fields={})
_KEY: Final = Struct(fields={"key": Rule(required=True, check=label_key)})
CONSTRAINTS: Final = Struct(fields={"topology": Rule(most=1, struct=lambda: _KEY)})
CLAIM: Final = Struct(
    union=("resourceClaimName", "resourceClaimTemplateName"),
    fields={
        "name": _SHORT_NAME,
        "resourceClaimName": _LONG_NAME_IF_ANY,
        "resourceClaimTemplateName": _LONG_NAME_IF_ANY,
    },
)
_WORKLOAD_REF: Final = Struct(
    fields={"workloadName": replace(_LONG_NAME, required=True), "templateName": _SHORT_NAME}
)
_CLAIMS: Final = Rule(immutable=True, most=MOST_CLAIMS, key="name", struct=lambda: CLAIM)
_PRIORITY: Final = Rule(immutable=True, maximum=HIGHEST_USER_PRIORITY)
_PRIORITY_CLASS: Final = replace(_LONG_NAME, immutable=True)
_PREEMPTION: Final = Rule(immutable=True, values=_POLICIES, gate="PodGroupPreemptionPolicy")
_DISRUPTION: Final = Rule(immutable=True, struct=lambda: DISRUPTION)
_CONSTRAINTS: Final = Rule(immutable=True, gate=_TOPOLOGY, struct=lambda: CONSTRAINTS)

POD_GROUP: Final = Struct(
    fields={
        "parentCompositePodGroupName": replace(_LONG_NAME_IF_ANY, immutable=True, gate="CompositePodGroup"),
        "workloadRef": Rule(immutable=True, struct=lambda: _WORKLOAD_REF),
        "schedulingPolicy": Rule(struct=lambda: POLICY),
        "schedulingConstraints": _CONSTRAINTS,
        "resourceClaims": _CLAIMS,
        "disruptionMode": _DISRUPTION,
        "priorityClassName": _PRIORITY_CLASS,
        "priority": _PRIORITY,
        "preemptionPolicy": _PREEMPTION,
    }
)
_CLAIM_STATUS: Final = Struct(fields={"resourceClaimName": _LONG_NAME_IF_ANY})
POD_GROUP_STATUS: Final = Struct(
    fields={"resourceClaimStatuses": Rule(most=MOST_CLAIMS, key="name", struct=lambda: _CLAIM_STATUS)}
)
COMPOSITE: Final = Struct(
    fields={
        "parentCompositePodGroupName": replace(_LONG_NAME_IF_ANY, immutable=True),
        "workloadRef": Rule(required=True, immutable=True, struct=lambda: _WORKLOAD_REF),
        "schedulingPolicy": Rule(immutable=True, struct=lambda: COMPOSITE_POLICY),
        "schedulingConstraints": replace(_CONSTRAINTS, gate=""),
        "disruptionMode": _DISRUPTION,
        "priorityClassName": _PRIORITY_CLASS,
        "priority": _PRIORITY,
        "preemptionPolicy": _PREEMPTION,
    }
)
_TEMPLATE: Final = Struct(
    fields={
        "name": _SHORT_NAME,
        "schedulingPolicy": Rule(struct=lambda: POLICY),
        "schedulingConstraints": _CONSTRAINTS,
        "resourceClaims": _CLAIMS,
        "disruptionMode": _DISRUPTION,
        "priorityClassName": _PRIORITY_CLASS,
        "priority": _PRIORITY,
        "preemptionPolicy": _PREEMPTION,
    }
)
_TEMPLATES: Final = Rule(most=MOST_TEMPLATES, key="name", fixed_items=True, struct=lambda: _TEMPLATE)
_COMPOSITE_TEMPLATES: Final = Rule(
    most=MOST_TEMPLATES, key="name", fixed_items=True, struct=lambda: _COMPOSITE_TEMPLATE
)
_COMPOSITE_TEMPLATE: Final[Struct] = Struct(
    fields={
        "name": _SHORT_NAME,
        "schedulingPolicy": Rule(struct=lambda: COMPOSITE_POLICY),
        "schedulingConstraints": replace(_CONSTRAINTS, gate=""),
        "disruptionMode": _DISRUPTION,
        "priorityClassName": _PRIORITY_CLASS,
        "priority": _PRIORITY,
        "preemptionPolicy": _PREEMPTION,
        "podGroupTemplates": _TEMPLATES,
        "compositePodGroupTemplates": _COMPOSITE_TEMPLATES,
    }
)
_CONTROLLER: Final = Struct(fields={"apiGroup": _LONG_NAME, "kind": _PATH_SEGMENT, "name": _PATH_SEGMENT})
WORKLOAD: Final = Struct(
    union=("podGroupTemplates", "compositePodGroupTemplates"),
    fields={
        "controllerRef": Rule(immutable=True, struct=lambda: _CONTROLLER),
        "podGroupTemplates": _TEMPLATES,
        "compositePodGroupTemplates": replace(_COMPOSITE_TEMPLATES, gate="CompositePodGroup"),
    },
)
#: A Job's ``spec.scheduling``: where minCount is not given, it is the Job's parallelism.
_JOB_GANG: Final = Struct(fields={"minCount": Rule(minimum=1)})
_JOB_POLICY: Final = replace(
    POLICY,
    fields={
        "basic": Rule(immutable=True, struct=lambda: _EMPTY),
        "gang": Rule(kept=True, struct=lambda: _JOB_GANG),
    },
)
JOB: Final = Struct(
    fields={
        "schedulingPolicy": Rule(kept=True, struct=lambda: _JOB_POLICY),
        "schedulingConstraints": _CONSTRAINTS,
        "disruptionMode": _DISRUPTION,
        "resourceClaims": _CLAIMS,
    }
)
