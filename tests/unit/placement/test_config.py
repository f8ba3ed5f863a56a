"""The configuration file: what is taken, and that what cannot be taken is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dray.cli.scheduler import scheduler
from dray.placement.config import ConfigError, Configuration, SchedulerProfile, parse
from dray.placement.placement import Placement
from dray.placement.status import ScheduleResult
from tests.support.scheduler import cluster, node, pod

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def test_configuration_takes_profiles_weights_and_device_arguments() -> None:
    config = parse(
        {
            **HEAD,
            "leaderElection": {"leaderElect": True, "leaseDuration": "1m30s"},
            "profiles": [
                {
                    "schedulerName": "packer",
                    "plugins": {
                        "score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]},
                        "multiPoint": {"disabled": [{"name": "InterPodAffinity"}]},
                    },
                    "pluginConfig": [
                        {
                            "name": "DynamicResources",
                            "args": {"filterTimeout": "500ms", "devicePolicy": "pack"},
                        },
                        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
                    ],
                }
            ],
        }
    )
    (profile,) = config.profiles
    assert profile.name == "packer"
    assert profile.filter_timeout == 0.5
    assert profile.device_policy == "pack"
    assert profile.plugins.scoring.most_allocated
    assert not profile.enabled("InterPodAffinity")
    assert "NodeResourcesBalancedAllocation" not in profile.plugins.scoring.weights
    assert config.leader_election.lease_seconds == 90


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ({"kind": "Other"}, "kind 'Other'"),
        ({"extenders": [{}]}, "extenders are not supported"),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Mine"}]}}}]},
            "plugin 'Mine' is not supported",
        ),
        ({"profiles": [{}, {}]}, "used more than once"),
        ({"leaderElection": {"leaseDuration": "soon"}}, "'soon' is not a duration"),
        ({"colour": "blue"}, "colour: not supported"),
    ],
)
def test_the_error_names_what_is_not_supported(extra: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse({**HEAD, **extra})


def profile(**more: Any) -> SchedulerProfile:
    (one,) = parse({**HEAD, "profiles": [more]}).profiles
    return one


def test_an_empty_configuration_has_upstreams_defaults() -> None:
    config = parse(HEAD)
    assert config.profiles == Configuration().profiles
    assert config.leader_election.enabled
    assert (config.initial_backoff, config.max_backoff) == (1.0, 10.0)


def test_a_score_can_be_disabled_without_its_filter() -> None:
    one = profile(plugins={"score": {"disabled": [{"name": "TaintToleration"}]}})
    assert one.enabled("TaintToleration")
    assert "TaintToleration" not in one.plugins.scoring.weights


def test_a_filter_can_be_disabled_without_its_score() -> None:
    one = profile(plugins={"filter": {"disabled": [{"name": "TaintToleration"}]}})
    assert not one.enabled("TaintToleration")
    assert "TaintToleration" in one.plugins.scoring.weights


def test_all_plugins_but_the_enabled_ones_can_be_disabled() -> None:
    named = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeName"}, {"name": "DynamicResources"}]}
    one = profile(plugins={"multiPoint": named})
    assert one.enabled("NodeName") and one.enabled("DynamicResources")
    assert not one.enabled("NodeResourcesFit") and not one.enabled("DefaultPreemption")
    assert dict(one.plugins.scoring.weights) == {"DynamicResources": 2}


@pytest.mark.parametrize(
    ("plugin", "spec", "nodes"),
    [
        ("NodeResourcesFit", {"requests": {"cpu": "100"}}, [node("a")]),
        (
            "TaintToleration",
            {},
            [node("a", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})],
        ),
        (
            "InterPodAffinity",
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "labelSelector": {"matchLabels": {"app": "other"}},
                                "topologyKey": "kubernetes.io/hostname",
                            }
                        ]
                    }
                }
            },
            [node("a")],
        ),
    ],
)
def test_a_disabled_plugin_rejects_no_node(
    plugin: str, spec: dict[str, Any], nodes: list[dict[str, Any]]
) -> None:
    left_out = profile(plugins={"multiPoint": {"disabled": [{"name": plugin}]}})
    for chosen, fits in ((SchedulerProfile(), False), (left_out, True)):
        placement = Placement(cluster(*nodes), plugins=chosen.plugins)
        assert isinstance(placement.find(pod(**spec), None), ScheduleResult) is fits


def plugin_args(name: str, **args: Any) -> dict[str, Any]:
    return {"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        (
            plugin_args("DynamicResources", devicePolicy="tidy"),
            "there is no device policy 'tidy'; there are default, pack, spread",
        ),
        (plugin_args("DynamicResources", colour="blue"), r"pluginConfig\[0\].args.colour: not supported"),
        (plugin_args("NodeResourcesFit", ignoredResources=["x"]), "ignoredResources: not supported"),
        (
            plugin_args(
                "NodeResourcesFit",
                scoringStrategy={"type": "LeastAllocated", "resources": [{"name": "example.com/gpu"}]},
            ),
            "only cpu and memory with weight 1",
        ),
        (plugin_args("VolumeBinding", bindTimeoutSeconds=1), "arguments for plugin 'VolumeBinding'"),
        (
            {"profiles": [{"plugins": {"preBind": {"disabled": [{"name": "DynamicResources"}]}}}]},
            "DynamicResources cannot be left out there alone",
        ),
        ({"clientConnection": {"proxy": "x"}}, "clientConnection.proxy: not supported"),
        ({"leaderElection": {"resourceLock": "endpoints"}}, "'endpoints' is not supported; use leases"),
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "is not kubescheduler.config.k8s.io/v1"),
    ],
)
def test_the_error_names_plugin_arguments_that_are_not_supported(
    extra: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse({**HEAD, **extra})


def test_the_command_names_the_file_and_the_problem(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: [{}]\n"
    )
    done = CliRunner().invoke(scheduler, ["--config", str(file)])
    assert done.exit_code == 1
    assert f"Error: {file}: extenders: scheduler extenders are not supported" in done.output
