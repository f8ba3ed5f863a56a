"""The scheduler's configuration, in upstream's ``KubeSchedulerConfiguration`` v1 form.

What dray does not support is named in an error rather than passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from dray.api import times
from dray.placement.placement import Plugins
from dray.placement.plugins.scores import DEFAULT_WEIGHTS, Scoring
from dray.placement.policies.model import PolicyError
from dray.placement.policies.registry import policy_type
from dray.placement.policies.workload import parse_typical

if TYPE_CHECKING:
    from dray.api.types.core import TopologySpreadConstraint
    from dray.placement.policies.model import DevicePolicy, TypicalShape

DEFAULT_NAME = "default-scheduler"
DEFAULT_FILTER_TIMEOUT = 10.0
DEFAULT_BINDING_TIMEOUT = 600.0

#: upstream's plugins. A configuration may also name those that do nothing here.
PLUGINS = frozenset(
    {
        "SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity",
        "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone",
        "PodTopologySpread", "InterPodAffinity", "DefaultPreemption", "NodeResourcesBalancedAllocation",
        "ImageLocality", "DefaultBinder", "DynamicResources", "NodeDeclaredFeatures",
    }
)  # fmt: skip
#: the extension points at which a plugin's filter, its score or its preemption is disabled
_FILTERING, _SCORING, _AFTERWARDS = ("preFilter", "filter"), ("preScore", "score"), ("postFilter",)
_POINTS = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit",
    "preBind", "bind", "postBind", "multiPoint",
)  # fmt: skip


class _Plugin(TypedDict, total=False):
    name: str
    weight: int


class _PluginSet(TypedDict, total=False):
    enabled: Sequence[_Plugin]
    disabled: Sequence[_Plugin]


class _PluginConfig(TypedDict, total=False):
    name: str
    args: Mapping[str, Any]  # of the type that belongs to the plugin


class _Profile(TypedDict, total=False):
    schedulerName: str
    percentageOfNodesToScore: int
    plugins: Mapping[str, _PluginSet]
    pluginConfig: Sequence[_PluginConfig]


class _LeaderElection(TypedDict, total=False):
    leaderElect: bool
    leaseDuration: str
    renewDeadline: str
    retryPeriod: str
    resourceLock: str
    resourceName: str
    resourceNamespace: str


class _ClientConnection(TypedDict, total=False):
    kubeconfig: str
    qps: float
    burst: int
    contentType: str
    acceptContentTypes: str


class _KubeSchedulerConfiguration(TypedDict, total=False):
    apiVersion: str
    kind: str
    parallelism: int
    leaderElection: _LeaderElection
    clientConnection: _ClientConnection
    percentageOfNodesToScore: int
    podInitialBackoffSeconds: int
    podMaxBackoffSeconds: int
    profiles: Sequence[_Profile]
    enableProfiling: bool
    enableContentionProfiling: bool
    delayCacheUntilActive: bool
    extenders: Sequence[object]


class _DynamicResourcesArgs(TypedDict, total=False):
    filterTimeout: str
    bindingTimeout: str
    devicePolicy: str
    devicePreemption: bool
    typicalPods: Sequence[object]
    seed: int


class _ResourceSpec(TypedDict, total=False):
    name: str
    weight: int


class _ScoringStrategy(TypedDict, total=False):
    type: str
    resources: Sequence[_ResourceSpec]


class _NodeResourcesFitArgs(TypedDict, total=False):
    scoringStrategy: _ScoringStrategy


class _PodTopologySpreadArgs(TypedDict, total=False):
    defaultConstraints: Sequence[TopologySpreadConstraint]
    defaultingType: str


class _DefaultPreemptionArgs(TypedDict, total=False):
    minCandidateNodesPercentage: int
    minCandidateNodesAbsolute: int


_ALWAYS = frozenset({"PrioritySort", "DefaultBinder", "SchedulingGates"})


class ConfigError(ValueError):
    """The configuration asks for something unknown or unsupported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerProfile:
    """One ``schedulerName`` and how it decides."""

    name: str = DEFAULT_NAME
    plugins: Plugins = field(default_factory=Plugins)
    filter_timeout: float = DEFAULT_FILTER_TIMEOUT
    binding_timeout: float = DEFAULT_BINDING_TIMEOUT
    device_policy: str | type[DevicePolicy] = "default"
    device_preemption: bool = False
    #: what device policies know of the workload; otherwise they count the pods that are there
    typical: tuple[TypicalShape, ...] = ()
    seed: int = 0  # decides between nodes of equal score, and what the policy "random" draws

    def enabled(self, plugin: str) -> bool:
        return plugin not in self.plugins.disabled


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaderElection:
    enabled: bool = False
    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(),)
    leader_election: LeaderElection = field(default_factory=LeaderElection)
    kubeconfig: str = ""
    initial_backoff: float = 1.0
    max_backoff: float = 10.0


def parse(configuration: Any) -> Configuration:
    if not isinstance(configuration, Mapping):
        raise ConfigError("not a KubeSchedulerConfiguration")
    document = cast(_KubeSchedulerConfiguration, configuration)
    if document.get("apiVersion") != "kubescheduler.config.k8s.io/v1":
        raise ConfigError(f"apiVersion {document.get('apiVersion')!r} is not kubescheduler.config.k8s.io/v1")
    if document.get("kind") != "KubeSchedulerConfiguration":
        raise ConfigError(f"kind {document.get('kind')!r} is not KubeSchedulerConfiguration")
    _known(configuration, "", _KubeSchedulerConfiguration.__annotations__)
    if document.get("extenders"):
        raise ConfigError("extenders: scheduler extenders are not supported")
    percent = document.get("percentageOfNodesToScore") or 0
    profiles = tuple(
        _profile(p, f"profiles[{i}]", percent) for i, p in enumerate(document.get("profiles") or ({},))
    )
    names = [p.name for p in profiles]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"profiles: schedulerName {name!r} is used more than once")
    return Configuration(
        profiles=profiles,
        leader_election=_leader_election(document.get("leaderElection") or {}),
        kubeconfig=_connection(document.get("clientConnection") or {}),
        initial_backoff=float(document.get("podInitialBackoffSeconds") or 1),
        max_backoff=float(document.get("podMaxBackoffSeconds") or 10),
    )


def _profile(profile_document: _Profile, path: str, percent: int) -> SchedulerProfile:
    document = _typed(profile_document, path, _Profile)
    disabled: set[str] = set()
    weights = dict(DEFAULT_WEIGHTS)
    plugins = document.get("plugins") or {}
    _known(plugins, f"{path}.plugins", _POINTS)
    for point in _POINTS:
        chosen = _typed(plugins.get(point) or {}, f"{path}.plugins.{point}", _PluginSet)
        for plugin in chosen.get("disabled") or ():
            names = PLUGINS if plugin["name"] == "*" else {_plugin(plugin, f"{path}.plugins.{point}")}
            _disable(point, frozenset(names), disabled, weights, f"{path}.plugins.{point}.disabled")
        for plugin in chosen.get("enabled") or ():
            name = _plugin(plugin, f"{path}.plugins.{point}")
            if point not in _SCORING:
                disabled.discard(name)
            if point in ("score", "multiPoint") and (name in DEFAULT_WEIGHTS):
                weights[name] = plugin.get("weight") or DEFAULT_WEIGHTS[name]
    profile = SchedulerProfile(
        name=document.get("schedulerName") or DEFAULT_NAME,
        plugins=Plugins(
            scoring=Scoring(weights=weights),
            disabled=frozenset(disabled),
            percentage_of_nodes_to_score=document.get("percentageOfNodesToScore") or percent,
        ),
    )
    for i, config in enumerate(document.get("pluginConfig") or ()):
        profile = _plugin_args(profile, config, f"{path}.pluginConfig[{i}]")
    return profile


def _disable(
    point: str, names: frozenset[str], disabled: set[str], weights: dict[str, int], path: str
) -> None:
    if point in ("multiPoint", *_SCORING):
        for name in names:
            weights.pop(name, None)
    if point in ("multiPoint", *_FILTERING):
        disabled |= names - _ALWAYS
    elif point in _AFTERWARDS and names <= {"DefaultPreemption"}:
        disabled |= names
    elif point not in _SCORING:
        raise ConfigError(
            f"{path}: {', '.join(sorted(names))} cannot be left out there alone; use multiPoint"
        )


def _plugin(plugin: _Plugin, path: str) -> str:
    name = plugin.get("name") or ""
    if name not in PLUGINS:
        raise ConfigError(f"{path}: plugin {name!r} is not supported")
    return name


def _plugin_args(profile: SchedulerProfile, config: _PluginConfig, path: str) -> SchedulerProfile:
    args = {k: v for k, v in (config.get("args") or {}).items() if k not in ("apiVersion", "kind")}
    match config.get("name"):
        case "DynamicResources":
            devices = _typed(args, f"{path}.args", _DynamicResourcesArgs)
            policy = devices.get("devicePolicy") or profile.device_policy
            typical = profile.typical
            try:
                policy_type(policy)
            except PolicyError as problem:
                raise ConfigError(f"{path}.args.devicePolicy: {problem}") from None
            if (pods := devices.get("typicalPods")) is not None:
                try:
                    typical = parse_typical(pods, f"{path}.args.typicalPods")
                except PolicyError as problem:
                    raise ConfigError(str(problem)) from None
            return replace(
                profile,
                filter_timeout=_seconds(
                    devices.get("filterTimeout"), profile.filter_timeout, f"{path}.args.filterTimeout"
                ),
                binding_timeout=_seconds(
                    devices.get("bindingTimeout"), profile.binding_timeout, f"{path}.args.bindingTimeout"
                ),
                device_policy=policy,
                device_preemption=bool(devices.get("devicePreemption")),
                typical=typical,
                seed=int(devices.get("seed") or 0),
            )
        case "NodeResourcesFit":
            fit = _typed(args, f"{path}.args", _NodeResourcesFitArgs)
            strategy = _typed(
                fit.get("scoringStrategy") or {}, f"{path}.args.scoringStrategy", _ScoringStrategy
            )
            kind = strategy.get("type") or "LeastAllocated"
            if kind not in ("LeastAllocated", "MostAllocated"):
                raise ConfigError(f"{path}.args.scoringStrategy: {kind!r} is not supported")
            for resource in strategy.get("resources") or ():
                if resource.get("name") not in ("cpu", "memory") or resource.get("weight", 1) != 1:
                    raise ConfigError(
                        f"{path}.args.scoringStrategy.resources: only cpu and memory with weight 1 are supported"
                    )
            scoring = replace(profile.plugins.scoring, most_allocated=kind == "MostAllocated")
            return replace(profile, plugins=replace(profile.plugins, scoring=scoring))
        case "PodTopologySpread":
            spread = _typed(args, f"{path}.args", _PodTopologySpreadArgs)
            constraints = tuple(spread.get("defaultConstraints") or ())
            if (spread.get("defaultingType") or "System") == "System":
                if constraints:
                    raise ConfigError(
                        f"{path}.args.defaultConstraints: when .defaultingType is System, must not be given"
                    )
                return profile
            return replace(profile, plugins=replace(profile.plugins, default_spread=constraints))
        case "DefaultPreemption":
            _typed(args, f"{path}.args", _DefaultPreemptionArgs)
            return profile
        case name:
            raise ConfigError(f"{path}: arguments for plugin {name!r} are not supported")


def _connection(document: _ClientConnection) -> str:
    """The kubeconfig. The client itself decides how fast it sends requests, and in which encoding."""
    return _typed(document, "clientConnection", _ClientConnection).get("kubeconfig") or ""


def _leader_election(election: _LeaderElection) -> LeaderElection:
    path = "leaderElection"
    document = _typed(election, path, _LeaderElection)
    lock = document.get("resourceLock") or "leases"
    if lock != "leases":
        raise ConfigError(f"{path}.resourceLock: {lock!r} is not supported; use leases")
    return LeaderElection(
        enabled=bool(document.get("leaderElect", True)),
        namespace=document.get("resourceNamespace") or "kube-system",
        name=document.get("resourceName") or "kube-scheduler",
        lease_seconds=_seconds(document.get("leaseDuration"), 15.0, f"{path}.leaseDuration"),
        renew_seconds=_seconds(document.get("renewDeadline"), 10.0, f"{path}.renewDeadline"),
        retry_seconds=_seconds(document.get("retryPeriod"), 2.0, f"{path}.retryPeriod"),
    )


def _seconds(text: str | None, default: float, path: str) -> float:
    """A Go duration such as ``1m30s``."""
    if text in (None, ""):
        return default
    try:
        nanoseconds = times.parse_duration(str(text))
    except ValueError:
        nanoseconds = -1
    if nanoseconds < 0:
        raise ConfigError(f"{path}: {text!r} is not a duration")
    return nanoseconds / 1e9


_T = TypeVar("_T", bound=Mapping[str, Any])


def _typed(document: Mapping[str, Any], path: str, type_: type[_T]) -> _T:
    """The document as this type; ``ConfigError`` if it has a field that the type does not have."""
    _known(document, path, type_.__annotations__)
    return cast(_T, document)


def _known(document: Mapping[str, object], path: str, names: Collection[str]) -> None:
    for name in document:
        if name not in names:
            raise ConfigError(f"{f'{path}.' if path else ''}{name}: not supported")
