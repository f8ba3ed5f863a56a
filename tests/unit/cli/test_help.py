"""``dray help``: topics, commands, and what is neither."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dray.cli.commands import dray
from dray.cli.help import page, topics


def run(*words: str):
    return CliRunner().invoke(dray, ["help", *words])


@pytest.mark.parametrize("name", topics())
def test_every_topic_has_a_page_that_is_listed_by_its_title(name: str):
    shown = run(name)
    assert shown.exit_code == 0 and shown.output == page(name)
    assert topics()[name] in run().output and page(name).startswith(f"# {topics()[name]}\n")


def test_commands_have_their_help_and_the_rest_is_refused_with_the_topics():
    assert run("driver", "verify").output.startswith("Usage: dray driver verify")
    unknown = run("nosuch")
    assert unknown.exit_code == 2 and "topics: drivers, environment" in unknown.stderr
