"""The certificate authority and the key of service accounts: in the data directory, and in the store.

API servers on one etcd take them from the store. The first one to start puts them there: its own, if its data directory has
some, else new ones. The write is a create, so of several that start at once one wins, and the others take what it wrote.
A store that no other server uses has a copy of what is in the data directory, so that a backup holds the whole cluster.
Whoever can read the store can read all of the cluster's Secrets; these keys are no worse kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from dray.app import pki
from dray.app.options import OptionError
from dray.store.interface import KeyExists, KeyValue, Store

KEY: Final = "/dray/pki"
_ACCOUNTS: Final = "sa.key"


async def adopt(store: Store, folder: Path, *, maker: pki.KeyMaker | None = None) -> None:
    """Make the files in ``folder`` those of the cluster; refuses a folder that belongs to another cluster."""
    maker = maker or pki.InProcess()
    entry = await store.get(KEY)
    own = _own(folder, _decoded(entry) if entry is not None else {}, maker)
    value = msgspec.json.encode(own)
    if entry is None:
        try:
            await store.create(KEY, value)
        except KeyExists as e:
            entry = e.current or await store.get(KEY)
    elif not store.shared and entry.value != value:
        await store.update(KEY, value, expected=entry.mod_revision)
        entry = None
    files = own if entry is None else _decoded(entry)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, content in files.items():
        if name not in own:  # it is the name of somebody who wrote to the store
            continue
        path = folder / name
        if not path.exists():
            pki.write_private(path, content.encode())
        elif path.read_text() != content:
            raise OptionError(
                f"{path} is not that of the cluster in the store: move {folder} away to join that cluster, "
                f"or name another store"
            )


def _decoded(entry: KeyValue) -> dict[str, str]:
    try:
        return msgspec.json.decode(entry.value, type=dict[str, str])
    except msgspec.DecodeError as e:
        raise OptionError(f"{KEY} in the store does not hold a cluster's keys: {e}") from None


def _own(folder: Path, known: Mapping[str, str], maker: pki.KeyMaker) -> dict[str, str]:
    """What the folder has, completed by what is known, completed by new keys."""
    names = pki.Pki(folder)
    certificate, key, accounts = names.ca.name, names.ca_key.name, _ACCOUNTS
    found = {
        name: path.read_text() for name in (certificate, key, accounts) if (path := folder / name).exists()
    }
    if not {certificate, key} <= found.keys():
        if {certificate, key} <= known.keys():
            found |= {certificate: known[certificate], key: known[key]}
        else:
            made = maker.new_ca()
            found |= {certificate: made[0].decode(), key: made[1].decode()}
    if accounts not in found:
        found[accounts] = known.get(accounts) or maker.new_account_key().decode()
    return found
