"""The option that names a device policy. Names are looked up only when one is given: other packages may bring some."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem


class PolicyName(click.ParamType[str]):
    """The name of a device policy."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "default":
            return "default"
        from dray.placement.policies.model import PolicyError
        from dray.placement.policies.registry import policy_type

        try:
            policy_type(value)
        except PolicyError as problem:
            self.fail(str(problem), param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from dray.placement.policies.registry import policy_names

        return [CompletionItem(name) for name in policy_names() if name.startswith(incomplete)]


POLICY_NAMES = "default, pack, spread, random, bestfit, dotprod, gpupacking, gpuclustering, fgd"
