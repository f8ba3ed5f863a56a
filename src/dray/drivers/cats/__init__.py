"""``resource-driver.example.com``: cats with a color and a size, for every generation of the API.

``CatsController`` allocates classic claims. ``parameters`` turns ClaimParameters into what the scheduler of 1.30 reads
(structured parameters). ``CatsDriver`` is the part on each node. ``control_plane`` runs the first two, as far as the
cluster serves their kinds.
"""

from dray.drivers.cats.controller import CatsController, control_plane
from dray.drivers.cats.inventory import DRIVER, Cat, Generation, cats_of
from dray.drivers.cats.node import CatsDriver

__all__ = ["DRIVER", "Cat", "CatsController", "CatsDriver", "Generation", "cats_of", "control_plane"]
