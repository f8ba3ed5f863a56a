"""Write the controller of a classic driver (Kubernetes 1.27 to 1.30): say what fits where, the SDK negotiates.

class Cats(ClassicDriver):
    name = "cats.example.com"

    async def allocate(self, pending, *, node, others):
        return [available_on(node, data=p.claim["metadata"]["name"]) for p in pending]

await run(client, Cats(), options=Options())
"""

from dray.driver.classic.base import CannotAllocate, ClassicDriver, Lookup, Pending, available_on
from dray.driver.classic.controller import Options, run

__all__ = ["CannotAllocate", "ClassicDriver", "Lookup", "Options", "Pending", "available_on", "run"]
