"""``resource-driver.example.com``: cats with a color and a size, for every generation of the API.

Classic: ``CatsController`` negotiates and allocates. 1.30's structured parameters: ``structured`` publishes slices and
turns ClaimParameters into what the scheduler understands. Today: ``CatsDriver`` is an ordinary driver on each node.
"""

from dray.drivers.cats.animals import DRIVER, Cat, cats_of
from dray.drivers.cats.controller import CatsController
from dray.drivers.cats.node import CatsDriver

__all__ = ["DRIVER", "Cat", "CatsController", "CatsDriver", "cats_of"]
