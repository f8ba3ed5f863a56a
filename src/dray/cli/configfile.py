"""The file that ``dray up --config FILE`` reads: every option of the command by its name in camel case.

Options on the command line come before those of the file, and paths in the file are relative to the file. The same
options make the file that ``dray config`` prints to start from.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from dray.cli.files import read_yaml

API_VERSION = "dray.dev/v1"
KIND = "Cluster"
#: Options that are about the command itself and not about the cluster.
_NOT_IN_FILE = frozenset({"config", "detach", "help"})
#: Options whose texts are comma-separated lists; the file may have lists and, where there is a ``=``, mappings.
_LISTS = frozenset(
    {"drivers", "without", "enable_admission_plugins", "disable_admission_plugins", "authorization_mode"}
)
_MAPPINGS = frozenset({"feature_gates", "runtime_config"})
_EXAMPLES = {
    "listen": "127.0.0.1:6443",
    "emulate": '"1.32"',
    "feature_gates": "\n  DynamicResourceAllocation: true",
    "runtime_config": "\n  resource.k8s.io/v1beta1: true",
    "drivers": "[gpu, cats]",
    "without": "[scheduler]",
}


def config_option(command: Any) -> Any:
    """``--config FILE``: the file's values stand in for options that are not on the command line."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_use,
        metavar="FILE",
        help="Read options from this file; those on the command line come first. dray config prints one.",
    )(command)


def _use(ctx: click.Context, option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        ctx.default_map = read(path, ctx)


def read(path: Path, ctx: click.Context) -> dict[str, object]:
    """The options in the file, as the command line would have them."""
    if not path.exists():
        raise click.ClickException(f"there is no {path}; write one to start from with: dray config > {path}")
    document = read_yaml(path)
    if not isinstance(document, Mapping):
        raise click.ClickException(f"{path}: not a mapping of options to values")
    known = {camel_case(option.name or ""): option for option in options(ctx.command)}
    found: dict[str, object] = {}
    for key, value in document.items():
        if key in ("apiVersion", "kind"):
            wanted = API_VERSION if key == "apiVersion" else KIND
            if value != wanted:
                raise click.ClickException(f"{path}: {key}: {value}: must be {wanted}")
            continue
        option = known.get(str(key))
        if option is None:
            raise click.ClickException(f"{path}: {_unknown(str(key), list(known))}")
        if value not in (None, ""):
            found[option.name or ""] = _checked(path, str(key), option, value, ctx)
    return found


def options(command: click.Command) -> list[click.Option]:
    """Those that may be in the file."""
    return [p for p in command.params if isinstance(p, click.Option) and p.name not in _NOT_IN_FILE]


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _unknown(key: str, known: list[str]) -> str:
    if camel_case(key.replace("-", "_")) in known:
        return f"{key}: it is written {camel_case(key.replace('-', '_'))} here"
    import difflib

    near = difflib.get_close_matches(key, known, 1)
    return f"{key}: there is no such option" + (
        f"; did you mean {near[0]}?" if near else "; see: dray config"
    )


def _checked(path: Path, key: str, option: click.Option, value: object, ctx: click.Context) -> object:
    """The value as click takes it; whatever is wrong with it is said with the file and the key."""
    try:
        text = _text(option, value)
        if isinstance(text, str):
            text = _beside(path, option, text)
        option.type_cast_value(ctx, text)
    except click.BadParameter as problem:
        raise click.ClickException(f"{path}: {key}: {problem.message}") from None
    except click.ClickException as problem:
        raise click.ClickException(f"{path}: {key}: {problem.format_message()}") from None
    return text


def _beside(path: Path, option: click.Option, text: str) -> str:
    """A path of the file, relative to the file; an absolute one stays what it is."""
    if isinstance(option.type, click.Path) or (option.name == "audit_log_path" and text != "-"):
        return str(path.absolute().parent / text)
    if option.name == "store" and text.startswith("sqlite:"):
        return f"sqlite:{path.absolute().parent / text.removeprefix('sqlite:')}"
    return text


def _text(option: click.Option, value: object) -> object:
    """What the command line would say. Numbers and booleans stay what they are."""
    name = option.name or ""
    if isinstance(value, Mapping):
        if name not in _MAPPINGS:
            raise click.BadParameter("a single value is expected here")
        return ",".join(f"{k}={_scalar(v)}" for k, v in value.items())
    if isinstance(value, list):
        if name not in _LISTS:
            raise click.BadParameter("a single value is expected here")
        return ",".join(map(_scalar, value))
    if option.is_flag or option.type is click.BOOL:
        if not isinstance(value, bool):
            raise click.BadParameter(f"{value!r} is not true or false")
        return value
    if isinstance(value, bool):
        raise click.BadParameter(f"{_scalar(value)} makes no sense here")
    if isinstance(value, float) and option.type is click.STRING:
        raise click.BadParameter(f"{value} is a number; put the text into quotes")  # 1.30 would be 1.3
    return value if isinstance(value, int | float) and option.type is not click.STRING else str(value)


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def example(command: click.Command) -> str:
    """A file with every option at its default, explained and commented out."""
    return "\n".join(_example_lines(command)) + "\n"


def _example_lines(command: click.Command) -> Iterator[str]:
    yield "# The options of a cluster, for: dray up --config FILE"
    yield "# Take away the # in front of what is to be different; the values shown are the defaults, or examples."
    yield f"apiVersion: {API_VERSION}"
    yield f"kind: {KIND}"
    for option in options(command):
        name = option.name or ""
        yield ""
        yield from textwrap.wrap(option.help or "", 100, initial_indent="# ", subsequent_indent="# ")
        for line in f"{camel_case(name)}:{_example_value(option)}".splitlines():
            yield f"#{line}"


def _example_value(option: click.Option) -> str:
    name = option.name or ""
    if name in _EXAMPLES:
        shown = _EXAMPLES[name]
        return shown if shown.startswith("\n") else f" {shown}"
    if name in _LISTS:
        return f" [{', '.join(str(option.default or '').split(','))}]"
    if isinstance(option.default, bool):
        return f" {_scalar(option.default)}"
    return (
        f" {option.default}"
        if isinstance(option.default, str | int | float) and option.default != ""
        else ' ""'
    )


@click.command()
def config() -> None:
    """Print a file of options for dray up --config, every option with its default and what it does.

    \b
    Examples:
      dray config > cluster.yaml
      dray up --config cluster.yaml
    """
    from dray.cli.up import up

    click.echo(example(up), nl=False)
