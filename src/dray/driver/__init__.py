"""Write a DRA driver in thirty lines: say which devices there are and what containers get; the SDK does the rest.

class Cats(Driver):
    name = "cats.example.com"

    def devices(self, node):
        return [Device(name=f"cat-{i}", attributes={"color": "black"}) for i in range(4)]

    def edits(self, claim, device):
        return Edits(env={"CAT": device.name})

main(Cats())
"""

from dray.driver.base import Driver, FunctionDriver
from dray.driver.health import Health
from dray.driver.main import main
from dray.driver.model import (
    Allocated,
    Attribute,
    Capacity,
    Claim,
    ClaimRef,
    Counters,
    Device,
    DeviceID,
    Edits,
    Handle,
    Metadata,
    Pool,
    Prepared,
    Slice,
    Taint,
    Version,
)
from dray.driver.plugin import Options, Plugin, run, serving

__all__ = [
    "Allocated",
    "Attribute",
    "Capacity",
    "Claim",
    "ClaimRef",
    "Counters",
    "Device",
    "DeviceID",
    "Driver",
    "Edits",
    "FunctionDriver",
    "Handle",
    "Health",
    "Metadata",
    "Options",
    "Plugin",
    "Pool",
    "Prepared",
    "Slice",
    "Taint",
    "Version",
    "main",
    "run",
    "serving",
]
