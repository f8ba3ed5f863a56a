"""``dray help``: pages about topics for those in a terminal, and the help of commands."""

from __future__ import annotations

import sys
from importlib.resources import files

import click

#: What is made from the code and not from a file.
_CONFIG = "config"


def topics() -> dict[str, str]:
    """Names of topics, and their titles."""
    found = {}
    for entry in (files("dray.cli") / "topics").iterdir():
        if entry.name.endswith(".md"):
            found[entry.name.removesuffix(".md")] = entry.read_text().partition("\n")[0].lstrip("# ")
    return {**dict(sorted(found.items())), _CONFIG: "The file of dray up --config"}


def page(name: str) -> str:
    if name == _CONFIG:
        from dray.cli.configfile import example
        from dray.cli.up import up

        return f"# The file of dray up --config\n\n{example(up)}"
    return (files("dray.cli") / "topics" / f"{name}.md").read_text()


@click.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC | COMMAND...]")
@click.pass_context
def show_help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Read about a topic, or about a command. Without one, list the topics.

    \b
    Examples:
      dray help releases
      dray help driver verify
    """
    known = topics()
    if not words:
        click.echo("Topics (dray help TOPIC):")
        for name, title in known.items():
            click.echo(f"  {name:<12}  {title}")
        click.echo("dray --help lists the commands.")
        return
    if len(words) == 1 and words[0] in known:
        text = page(words[0])
        if sys.stdout.isatty():
            click.echo_via_pager(_for_terminal(text))
        else:
            click.echo(text, nl=False)
        return
    click.echo(_command_help(ctx, words, known))


def _for_terminal(text: str) -> str:
    """Headings are bold, and fences are left out."""
    lines = [line for line in text.splitlines() if not line.startswith("```")]
    return (
        "\n".join(click.style(one.lstrip("# "), bold=True) if one.startswith("#") else one for one in lines)
        + "\n"
    )


def _command_help(ctx: click.Context, words: tuple[str, ...], known: dict[str, str]) -> str:
    from dray.cli.commands import dray

    command: click.Command = dray
    inner = click.Context(command, info_name="dray")
    for word in words:
        found = command.get_command(inner, word) if isinstance(command, click.Group) else None
        if found is None:
            raise click.UsageError(
                f"there is no command or topic {' '.join(words)}; topics: {', '.join(known)}", ctx
            )
        command, inner = found, click.Context(found, info_name=word, parent=inner)
    return command.get_help(inner)
