"""The user name and groups of a service account."""

from __future__ import annotations

from typing import Final, NamedTuple

from dray.api.validation import names

PREFIX: Final = "system:serviceaccount:"
#: Who issues the tokens of service accounts, and whom they are for unless they say otherwise.
ISSUER: Final = "https://kubernetes.default.svc"
ALL_SERVICE_ACCOUNTS: Final = "system:serviceaccounts"


class ServiceAccount(NamedTuple):
    namespace: str
    name: str

    @property
    def user(self) -> str:
        return f"{PREFIX}{self.namespace}:{self.name}"


def service_account_of(user: str) -> ServiceAccount | None:
    """The service account behind the name of a user, if it is one's."""
    if not user.startswith(PREFIX):
        return None
    parts = user[len(PREFIX) :].split(":")
    if len(parts) != 2 or names.dns1123_label(parts[0]) or names.dns1123_subdomain(parts[1]):
        return None
    return ServiceAccount(*parts)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return ALL_SERVICE_ACCOUNTS, f"{ALL_SERVICE_ACCOUNTS}:{namespace}"
