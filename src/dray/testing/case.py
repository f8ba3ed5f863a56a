"""The cluster for ``unittest``: one for all tests of a class, a namespace for each test."""

from __future__ import annotations

import unittest
from contextlib import ExitStack
from typing import ClassVar

from dray.testing.environment import Cluster, Settings


class ClusterTestCase(unittest.TestCase):
    """Set ``settings`` to choose what the cluster is like."""

    settings: ClassVar[Settings] = Settings()
    cluster: ClassVar[Cluster]
    namespace: str

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cluster = Cluster(cls.settings)
        cls.cluster.start()
        cls.addClassCleanup(cls.cluster.stop)

    def setUp(self) -> None:
        super().setUp()
        stack = ExitStack()
        self.namespace = stack.enter_context(self.cluster.namespace())
        self.addCleanup(stack.close)
