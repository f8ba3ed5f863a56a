from __future__ import annotations

from dray.metrics.registry import Registry, exponential


def test_families_are_written_as_prometheus_reads_them():
    registry = Registry()
    seen = registry.counter("seen_total", "What was seen.", "kind")
    seen.inc('a "cat"\n')
    seen.inc("dog", by=2)
    registry.gauge("size", "How many there are.", read=lambda: [((), 3.0)])
    waits = registry.histogram("wait_seconds", "How long it took.", "kind", bounds=(0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7):
        waits.observe(seconds, "x")
    assert registry.text().splitlines() == [
        "# HELP seen_total What was seen.",
        "# TYPE seen_total counter",
        r'seen_total{kind="a \"cat\"\n"} 1',
        'seen_total{kind="dog"} 2',
        "# HELP size How many there are.",
        "# TYPE size gauge",
        "size 3",
        "# HELP wait_seconds How long it took.",
        "# TYPE wait_seconds histogram",
        'wait_seconds_bucket{kind="x",le="0.1"} 2',
        'wait_seconds_bucket{kind="x",le="1"} 3',
        'wait_seconds_bucket{kind="x",le="+Inf"} 4',
        'wait_seconds_sum{kind="x"} 7.65',
        'wait_seconds_count{kind="x"} 4',
    ]


def test_buckets_grow_by_a_factor():
    assert exponential(1, 2, 4) == (1, 2, 4, 8)


def test_large_and_long_numbers_are_written_in_full():
    registry = Registry()
    seen = registry.counter("seen_total", "What was seen.")
    seen.inc(by=1_234_567)
    registry.gauge("share", "A part.", read=lambda: [((), 1 / 3)])
    lines = registry.text().splitlines()
    assert lines[2] == "seen_total 1234567" and lines[-1] == "share 0.3333333333333333"


def test_the_level_of_stability_is_written_before_the_help():
    registry = Registry()
    registry.counter("seen_total", "What was seen.", stability="STABLE")
    assert registry.text().startswith("# HELP seen_total [STABLE] What was seen.\n")


def test_the_text_of_other_components_comes_last():
    registry, other = Registry(), Registry()
    registry.counter("own_total", "Own.").inc()
    other.counter("other_total", "Other.").inc()
    with registry.include(other.text):
        assert registry.text().index("own_total 1") < registry.text().index("other_total 1")
    assert "other_total" not in registry.text()
