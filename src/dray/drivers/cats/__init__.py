"""``resource-driver.example.com``: cats with a color and a size, for every generation of the API.

Classic: ``CatsController`` negotiates and allocates. 1.30's structured parameters: ``parameters`` turns ClaimParameters
into what the scheduler understands. ``CatsDriver`` is the part on each node, for all of them; ``control_plane`` is the
rest, as far as the cluster has use for it.
"""

from dray.drivers.cats.controller import CatsController, control_plane
from dray.drivers.cats.inventory import DRIVER, Cat, Generation, cats_of
from dray.drivers.cats.node import CatsDriver

__all__ = ["DRIVER", "Cat", "CatsController", "CatsDriver", "Generation", "cats_of", "control_plane"]
