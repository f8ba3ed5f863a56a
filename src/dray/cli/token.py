"""``dray token``: the bootstrap tokens with which nodes join."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import click

from dray.cli.config_flags import kubeconfig_option

if TYPE_CHECKING:
    from dray.api.bootstraptoken import Token
    from dray.api.types.core import Secret
    from dray.client.client import Client
    from dray.client.config import Config
    from dray.client.http import HttpTransport

T = TypeVar("T")


@click.group()
def token() -> None:
    """Make, list and delete the tokens with which nodes join the cluster."""


@token.command()
@click.argument("wanted", metavar="[TOKEN]", default="")
@kubeconfig_option
@click.option("--ttl", default="24h", show_default=True, help="How long it is good; 0 for ever.")
@click.option("--description", default="", help="What it is for.")
@click.option("--print-join-command", is_flag=True, help="Print the command that a new node has to run.")
def create(
    wanted: str, kubeconfig: Path | None, ttl: str, description: str, print_join_command: bool
) -> None:
    """Make a token; it is printed once, and in no log.

    \b
    Examples:
      dray token create --print-join-command
      dray token create --ttl 2h --description "rack 7"
    """
    made = _token(wanted)
    secret = _secret(made, _seconds(ttl), description)

    async def run(client: Client) -> str:
        from dray.client.resources import SECRETS

        await client.create(SECRETS, secret["metadata"]["namespace"], secret)
        await _allow_bootstrap_tokens(client)
        return _command(_config(client), made) if print_join_command else str(made)

    click.echo(_run(kubeconfig, run))


@token.command("list")
@kubeconfig_option
def list_(kubeconfig: Path | None) -> None:
    """List the tokens without their secrets."""
    from dray.api import bootstraptoken

    async def run(client: Client) -> list[Secret]:
        from dray.client.resources import SECRETS

        found = await client.list(
            SECRETS, bootstraptoken.NAMESPACE, field_selector=f"type={bootstraptoken.TYPE}"
        )
        return list(found.items)

    found = _run(kubeconfig, run)
    click.echo(f"{'ID':8} {'EXPIRES':22} DESCRIPTION")
    for secret in found:
        ends = bootstraptoken.text(secret, "expiration") or "never"
        words = bootstraptoken.text(secret, "description")
        click.echo(f"{bootstraptoken.text(secret, 'token-id'):8} {ends:22} {words}".rstrip())


@token.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@kubeconfig_option
def delete(ids: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Delete tokens, by their IDs: nobody joins with them any more."""
    from dray.api import bootstraptoken

    async def run(client: Client) -> None:
        from dray.client.resources import SECRETS

        for id in ids:
            await client.delete(
                SECRETS, bootstraptoken.NAMESPACE, bootstraptoken.PREFIX + id.partition(".")[0]
            )

    _run(kubeconfig, run)
    click.echo(f"Deleted {', '.join(id.partition('.')[0] for id in ids)}")


def _run(kubeconfig: Path | None, work: Callable[[Client], Awaitable[T]]) -> T:
    from dray.cli.config_flags import connect

    async def main() -> T:
        async with connect(kubeconfig) as client:
            return await work(client)

    return asyncio.run(main())


def _config(client: Client) -> Config:
    """The configuration of a client that ``connect`` has made."""
    return cast("HttpTransport", client.transport).config


async def _allow_bootstrap_tokens(client: Client) -> None:
    """``dray up`` has done this; an API server that was started alone has not."""
    from dray.api.errors import Forbidden
    from dray.app.bootstraptoken import allow_bootstrap_tokens

    config = _config(client)
    try:
        servers = (config.server, *config.other_servers) if config.other_servers else ()
        await allow_bootstrap_tokens(client, server=config.server, servers=servers, ca=config.ca or b"")
    except Forbidden as problem:
        click.echo(f"Nodes may not be able to join: {problem}", err=True)


def _token(wanted: str) -> Token:
    import secrets
    import string

    from dray.api import bootstraptoken

    if wanted:
        given = bootstraptoken.parse(wanted)
        if given is None:
            raise click.UsageError("a token is six letters or digits, a dot, and sixteen more")
        return given
    letters = string.ascii_lowercase + string.digits
    return bootstraptoken.Token(
        *("".join(secrets.choice(letters) for _ in range(length)) for length in (6, 16))
    )


def _seconds(ttl: str) -> float:
    from dray.api.times import parse_duration

    try:
        seconds = parse_duration(ttl) / 1e9
    except ValueError as problem:
        raise click.UsageError(f"--ttl: {problem}") from None
    if seconds < 0:
        raise click.UsageError("--ttl: a token cannot have ended before it began")
    return seconds


def _secret(made: Token, seconds: float, description: str) -> Secret:
    import time

    from dray.api import bootstraptoken
    from dray.api.times import from_epoch

    ends = from_epoch(time.time() + seconds) if seconds else ""
    return bootstraptoken.secret(made, expiration=ends, description=description)


def _command(config: Config, made: Token) -> str:
    from dray.api import bootstraptoken

    hashes = " ".join(
        f"--discovery-token-ca-cert-hash {pin}" for pin in bootstraptoken.pins(config.ca or b"")
    )
    return f"dray node join {config.server.removeprefix('https://')} --token {made} {hashes}".rstrip()
