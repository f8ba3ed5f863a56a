from __future__ import annotations

from dray.allocation import Feasibility, Plan, Usage, shape_of

from .making import claim, device, inventory, node, request, resource_slice, run


def test_claims_that_ask_for_the_same_have_one_shape() -> None:
    assert shape_of([claim(request("r"), name="a")]) == shape_of([claim(request("r"), name="b")])
    assert shape_of([claim(request("r"))]) != shape_of([claim(request("r", 2))])


def test_a_node_that_was_ruled_out_is_tried_again_once_something_is_freed_there() -> None:
    feasible, shape = Feasibility(["a", "b"]), shape_of([claim(request("r"))])
    assert feasible.first(shape) == "a"
    feasible.rule_out(shape, "a")
    assert feasible.ruled_out(shape, "a")
    assert feasible.nodes(shape) == ("b",)
    feasible.reopen("a")
    assert feasible.nodes(shape) == ("b", "a")
    feasible.rule_out(shape, "a")
    feasible.reopen_all()
    assert set(feasible.nodes(shape)) == {"a", "b"}


def test_one_shape_says_nothing_about_another() -> None:
    feasible = Feasibility(["a"])
    large, small = shape_of([claim(request("r", 8))]), shape_of([claim(request("r"))])
    feasible.rule_out(large, "a")
    assert feasible.first(large) is None
    assert feasible.first(small) == "a"


def test_nodes_come_and_go() -> None:
    feasible, shape = Feasibility(["a"]), shape_of([claim(request("r"))])
    assert feasible.first(shape) == "a"
    feasible.add_node("b")
    feasible.remove_node("a")
    feasible.reopen("a")
    assert feasible.nodes(shape) == ("b",)


def test_old_shapes_are_forgotten() -> None:
    feasible = Feasibility(["a"], shapes_kept=2)
    shapes = [shape_of([claim(request("r", count))]) for count in (1, 2, 3)]
    for shape in shapes:
        feasible.rule_out(shape, "a")
    assert not feasible.ruled_out(shapes[0], "a")
    assert feasible.ruled_out(shapes[2], "a")


def test_a_cluster_is_filled_without_looking_at_a_full_node_twice() -> None:
    nodes = [f"n{i}" for i in range(20)]
    stock = inventory(
        *(resource_slice(device("d0"), device("d1"), name=name, node=name, pool=name) for name in nodes)
    )
    usage, feasible, tries = Usage(), Feasibility(nodes), 0
    shape = shape_of([claim(request("r"))])
    for number in range(40):
        asks = claim(request("r"), name=f"c{number}")
        while (where := feasible.first(shape)) is not None:
            tries += 1
            outcome = run(stock, asks, usage=usage, on=node(where))
            if isinstance(outcome, Plan):
                usage.add(asks, outcome.results[0])
                break
            feasible.rule_out(shape, where)
    assert tries == 40 + 19
