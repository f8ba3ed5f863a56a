"""The life of a pod, decided step by step, without a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.times import from_epoch
from dray.node.pod_actions import (
    Action,
    DeletePod,
    Failure,
    KillPod,
    KnownContainer,
    PodState,
    SetUpPod,
    StartContainer,
    StopContainer,
    TearDownPod,
    compute_pod_actions,
    has_finished,
    resized,
    restarts_to_resize,
)
from dray.node.pod_status import NodeFacts, pod_status
from dray.runtimes.interface import ContainerStatus, SandboxStatus, State

T0 = 1_700_000_000.0
FACTS = NodeFacts("10.0.0.1", "process")


def pod(*containers: str, init: tuple[Any, ...] = (), **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": "p", "uid": "uid"},
        "spec": {
            "containers": [{"name": c, "image": "i"} for c in containers or ("main",)],
            "initContainers": [c if isinstance(c, dict) else {"name": c, "image": "i"} for c in init],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def sidecar(name: str) -> dict[str, Any]:
    return {"name": name, "image": "i", "restartPolicy": "Always"}


class Node:
    """Carries out decisions at once; containers run until the test ends them."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.pod = pod
        self.state = PodState()
        self.now = T0
        self.done: list[Action] = []
        self.wake_at: float | None = None

    def settle(self) -> list[str]:
        """Lets the pod go on until it waits; returns what was done, in short."""
        before = len(self.done)
        for _ in range(50):
            decision = compute_pod_actions(self.pod, self.state, now=self.now)
            self.wake_at = decision.wake_at
            if not decision.actions:
                return [_short(a) for a in self.done[before:]]
            for action in decision.actions:
                self.done.append(action)
                self._carry_out(action)
        raise AssertionError(f"it does not come to rest: {self.done[-5:]}")

    def _carry_out(self, action: Action) -> None:
        match action:
            case SetUpPod():
                sandbox = SandboxStatus(id="s", pod_uid="uid", name="p", namespace="ns", ip="10.0.0.9")
                self.state = replace(self.state, set_up=True, sandbox=sandbox)
            case StartContainer(container=name, attempt=attempt):
                known = self.state.container(name)
                status = ContainerStatus(
                    id=f"{name}-{attempt}",
                    sandbox="s",
                    pod_uid="uid",
                    name=name,
                    attempt=attempt,
                    state=State.RUNNING,
                    started_at=self.now,
                )
                fresh = KnownContainer(
                    current=status,
                    previous=known.current,
                    backoff=known.next_backoff(),
                    started=True,
                    ready=True,
                )
                self.state = self.state.with_container(name, fresh)
            case StopContainer(container=name):
                self.state = self.state.with_container(
                    name, replace(self.state.container(name), stopping=True)
                )
            case KillPod(reason=reason, message=message):
                self.state = replace(self.state, killed=Failure(reason, message))
            case TearDownPod():
                self.state = replace(self.state, torn_down=True)
            case DeletePod():
                self.state = replace(self.state, removed=True)

    def end(self, name: str, code: int = 0) -> None:
        known = self.state.container(name)
        assert known.current is not None
        ended = replace(known.current, state=State.EXITED, exit_code=code, finished_at=self.now)
        self.state = self.state.with_container(
            name, replace(known, current=ended, stopping=False, ready=False)
        )

    def delete(self, grace: int = 30) -> None:
        metadata = self.pod["metadata"]
        self.pod = {
            **self.pod,
            "metadata": {
                **metadata,
                "deletionTimestamp": from_epoch(self.now + grace),
                "deletionGracePeriodSeconds": grace,
            },
        }

    @property
    def status(self) -> dict[str, Any]:
        return pod_status(self.pod, self.state, node=FACTS, now=self.now)


def _short(action: Action) -> str:
    match action:
        case StartContainer(container=name, attempt=attempt):
            return f"start {name}" if attempt == 0 else f"start {name} #{attempt}"
        case StopContainer(container=name):
            return f"stop {name}"
    return type(action).__name__


def test_a_pod_is_set_up_and_its_containers_start_together() -> None:
    node = Node(pod("a", "b"))
    assert node.settle() == ["SetUpPod", "start a", "start b"]
    assert node.status["phase"] == "Running"
    assert [c["status"] for c in node.status["conditions"]] == ["True"] * 5


def test_init_containers_run_one_after_the_other() -> None:
    node = Node(pod("a", init=("i1", "i2")))
    assert node.settle() == ["SetUpPod", "start i1"]
    assert node.status["phase"] == "Pending"
    assert node.status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    initialized = node.status["conditions"][1]
    assert initialized["message"] == "containers with incomplete status: [i1 i2]"
    node.end("i1")
    assert node.settle() == ["start i2"]
    node.end("i2")
    assert node.settle() == ["start a"]


def test_sidecars_start_in_order_and_keep_running() -> None:
    node = Node(pod("a", init=(sidecar("log"), "i")))
    assert node.settle() == ["SetUpPod", "start log", "start i"]
    node.end("i")
    assert node.settle() == ["start a"]
    node.end("log", 1)
    assert node.settle() == ["start log #1"]


def test_sidecars_end_after_the_others_the_last_first() -> None:
    node = Node(pod("a", init=(sidecar("one"), sidecar("two")), restartPolicy="Never"))
    node.settle()
    node.end("a")
    assert node.settle() == ["stop two"]
    node.end("two", 143)
    assert node.settle() == ["stop one"]
    node.end("one", 143)
    assert node.settle() == ["TearDownPod"]
    assert node.status["phase"] == "Succeeded"


def test_a_failing_container_comes_back_after_growing_pauses() -> None:
    node = Node(pod("a"))
    node.settle()
    waits = []
    for attempt in range(1, 9):
        node.end("a", 1)
        done = node.settle()
        if not done:
            assert node.wake_at is not None
            waits.append(node.wake_at - node.now)
            assert node.status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            node.now = node.wake_at
            done = node.settle()
        assert done == [f"start a #{attempt}"]
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert node.status["containerStatuses"][0]["restartCount"] == 8


def test_a_container_that_ran_long_restarts_without_back_off() -> None:
    node = Node(pod("a"))
    node.settle()
    node.end("a", 1)
    node.settle()
    node.now += 700
    node.end("a", 1)
    node.now += 10
    assert node.settle() == ["start a #2"]
    node.end("a", 1)
    assert node.settle() == ["start a #3"]


def test_back_off_has_the_kubelets_reason_and_message() -> None:
    node = Node(pod("a"))
    node.settle()
    for _ in range(2):
        node.end("a", 1)
        node.settle()
    waiting = node.status["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == "back-off 10s restarting failed container=a pod=p_ns(uid)"
    assert node.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_policies_decide_whether_a_container_runs_again() -> None:
    for policy, code, phase in [
        ("Never", 0, "Succeeded"),
        ("Never", 3, "Failed"),
        ("OnFailure", 0, "Succeeded"),
    ]:
        node = Node(pod("a", restartPolicy=policy))
        node.settle()
        node.end("a", code)
        assert node.settle() == ["TearDownPod"]
        assert node.status["phase"] == phase
    node = Node(pod("a", restartPolicy="OnFailure"))
    node.settle()
    node.end("a", 3)
    assert node.settle() == ["start a #1"]


def test_a_failed_init_container_fails_a_pod_that_is_never_restarted() -> None:
    node = Node(pod("a", init=("i",), restartPolicy="Never"))
    node.settle()
    node.end("i", 1)
    assert node.settle() == ["TearDownPod"]
    assert node.status["phase"] == "Failed"


def test_a_pod_is_terminal_only_after_it_is_torn_down() -> None:
    node = Node(pod("a", restartPolicy="Never"))
    node.settle()
    node.end("a")
    assert node.status["phase"] == "Running"
    node.settle()
    assert node.status["phase"] == "Succeeded"
    assert node.status["conditions"][2]["reason"] == "PodCompleted"


def test_deletion_stops_containers_then_clears_away_then_removes_the_object() -> None:
    node = Node(pod("a", "b"))
    node.settle()
    node.delete()
    assert node.settle() == ["stop a", "stop b"]
    node.end("a", 143)
    assert node.settle() == []
    node.end("b", 143)
    assert node.settle() == ["TearDownPod", "DeletePod"]


def test_containers_get_the_rest_of_the_grace_period() -> None:
    node = Node(pod("a"))
    node.settle()
    node.delete(grace=30)
    node.now += 10
    node.settle()
    [stop] = [a for a in node.done if isinstance(a, StopContainer)]
    assert 19 <= stop.grace <= 21
    forced = Node(pod("a"))
    forced.settle()
    forced.delete(grace=0)
    forced.settle()
    assert [a.grace for a in forced.done if isinstance(a, StopContainer)] == [0]


def test_a_pod_deleted_before_it_was_set_up_is_only_torn_down() -> None:
    node = Node(pod("a"))
    node.delete()
    assert node.settle() == ["TearDownPod", "DeletePod"]


def test_failed_set_up_is_retried_after_a_pause() -> None:
    node = Node(pod("a"))
    node.state = replace(node.state, failure=Failure("X", "y", tries=3), retry_at=T0 + 2)
    assert node.settle() == []
    assert node.wake_at == T0 + 2
    node.now += 2
    assert node.settle() == ["SetUpPod", "start a"]
    assert [Failure("X", "y", t).pause for t in (1, 2, 3, 9)] == [0.5, 1.0, 2.0, 10.0]


def test_a_container_that_a_probe_has_given_up_is_restarted() -> None:
    node = Node(pod("a"))
    node.settle()
    node.state = node.state.with_container("a", replace(node.state.container("a"), unhealthy="liveness"))
    assert node.settle() == ["stop a"]
    node.end("a", 137)
    assert node.settle() == ["start a #1"]


def test_a_pod_that_runs_too_long_fails() -> None:
    node = Node(pod("a", activeDeadlineSeconds=60))
    node.settle()
    node.pod = {**node.pod, "status": {"phase": "Running", "startTime": from_epoch(T0)}}
    assert node.settle() == []
    assert node.wake_at == T0 + 60
    node.now += 60
    assert node.settle() == ["KillPod", "stop a"]
    node.end("a", 143)
    assert node.settle() == ["TearDownPod"]
    assert (node.status["phase"], node.status["reason"]) == ("Failed", "DeadlineExceeded")


def test_an_unready_container_makes_the_pod_unready() -> None:
    node = Node(pod("a", "b"))
    node.settle()
    node.state = node.state.with_container("b", replace(node.state.container("b"), ready=False))
    ready = node.status["conditions"][2]
    assert (ready["type"], ready["status"], ready["message"]) == (
        "Ready",
        "False",
        "containers with unready status: [b]",
    )


def test_conditions_keep_the_time_of_their_last_change() -> None:
    node = Node(pod("a"))
    node.settle()
    first = node.status
    node.pod = {**node.pod, "status": first}
    node.now += 100
    assert node.status["conditions"] == first["conditions"]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.sampled_from("abij"), st.integers(0, 2)),
        st.tuples(st.just("time"), st.floats(0, 400)),
        st.tuples(st.just("delete"), st.sampled_from([0, 1, 30])),
        st.tuples(st.just("gone")),
        st.tuples(st.just("sick"), st.sampled_from("ab")),
    ),
    max_size=25,
)


@settings(max_examples=300)
@given(EVENTS, st.sampled_from(["Always", "OnFailure", "Never"]), st.booleans())
def test_no_container_runs_before_set_up_or_after_the_end_of_its_pod(
    events: list[Any], policy: str, with_sidecar: bool
) -> None:
    init = (sidecar("i") if with_sidecar else "i", "j")
    node = Node(pod("a", "b", init=init, restartPolicy=policy))
    node.settle()
    for event in events:
        if event[0] == "end" and node.state.container(event[1]).alive:
            node.end(event[1], event[2])
        elif event[0] == "time":
            node.now += event[1]
        elif event[0] == "delete":
            node.delete(event[1])
        elif event[0] == "gone":
            node.state = replace(node.state, removed=True)
        elif event[0] == "sick" and node.state.container(event[1]).running:
            node.state = node.state.with_container(
                event[1], replace(node.state.container(event[1]), unhealthy="x")
            )
        before = node.state
        mark = len(node.done)
        node.settle()
        fresh = node.done[mark:]
        if before.torn_down:
            assert not any(isinstance(a, StartContainer | SetUpPod) for a in fresh)
        for action in fresh:
            if isinstance(action, TearDownPod):
                assert not any(c.alive for c in node.state.containers.values())
            if isinstance(action, DeletePod):
                assert node.state.torn_down
        if any(node.state.container(c).alive for c in "ab") and not with_sidecar:
            assert node.state.container("i").succeeded
            assert node.state.container("j").succeeded
        assert node.state.set_up or not node.state.containers
    assert not (has_finished(node.pod, node.state) and node.state.container("a").alive)


def test_a_pod_whose_containers_are_only_created_is_not_running_yet() -> None:
    state = PodState(set_up=True)
    created = ContainerStatus(id="1", sandbox="s", pod_uid="uid", name="main")
    for at, phase in ((State.CREATED, "Pending"), (State.RUNNING, "Running"), (State.EXITED, "Running")):
        there = state.with_container("main", KnownContainer(current=replace(created, state=at)))
        assert pod_status(pod(), there, node=FACTS, now=T0)["phase"] == phase


def test_an_ephemeral_container_runs_once_and_the_pod_does_not_depend_on_it() -> None:
    node = Node(pod("main", ephemeralContainers=[{"name": "debug", "image": "i"}]))
    assert node.settle() == ["SetUpPod", "start debug", "start main"]
    node.end("debug", 1)
    assert node.settle() == []
    status = pod_status(node.pod, node.state, node=FACTS, now=node.now)
    assert status["phase"] == "Running"
    assert status["ephemeralContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


def test_containers_of_a_pod_with_init_containers_wait_for_initializing_from_the_first_report_on() -> None:
    made = pod("main", init=("first",))
    status = pod_status(made, PodState(), node=FACTS, now=T0)
    reasons = [
        s["state"]["waiting"]["reason"]
        for s in (*status["initContainerStatuses"], *status["containerStatuses"])
    ]
    assert reasons == ["PodInitializing", "PodInitializing"]


def test_the_status_says_which_generation_of_the_pod_it_is_about() -> None:
    made = pod("main")
    made["metadata"]["generation"] = 7
    status = pod_status(made, PodState(), node=FACTS, now=T0)
    assert status["observedGeneration"] == 7
    assert {c["observedGeneration"] for c in status["conditions"]} == {7}


def test_a_pod_that_shares_the_hosts_network_has_the_address_of_the_node() -> None:
    node = Node(pod("main"))
    node.settle()
    shared = replace(
        node.state, sandbox=SandboxStatus(id="s", pod_uid="uid", name="p", namespace="ns", ip="")
    )
    assert pod_status(node.pod, shared, node=FACTS, now=T0)["podIP"] == "10.0.0.1"


def test_a_resize_is_due_for_running_containers_whose_resources_differ() -> None:
    node = Node(pod("main"))
    node.settle()
    before: Any = {"requests": {"cpu": "1", "memory": "1Gi"}}
    node.state = node.state.with_container("main", replace(node.state.container("main"), resources=before))
    spec = node.pod["spec"]["containers"][0]
    spec["resources"] = {"requests": {"cpu": "2", "memory": "1Gi"}}
    assert resized(node.pod, node.state) == [spec]
    spec["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    assert not restarts_to_resize(spec, before)
    spec["resources"]["requests"]["memory"] = "2Gi"
    assert restarts_to_resize(spec, before)
