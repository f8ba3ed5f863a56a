"""The gallery of puzzles: what each page is made of, and ``python -m tests.support.gallery`` to write them anew.

A puzzle is a folder with a cluster, with what is applied to it, and with what the scheduler said about it
(``scheduler.txt``, checked by the end-to-end tests, which also write it: ``python -m tests.e2e.test_tools``). The page is made from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dray.api.identity import ObjectKey
from dray.explain import Cluster, Snapshot
from dray.explain.explainer import explain_pod
from dray.explain.model import manifests
from dray.explain.model.explanation import Explanation
from dray.explain.model.workloads import expand_workload
from dray.explain.render.text import render_text
from tests.support.paths import GALLERY

POD = ObjectKey("default", "train")
RELEASE = "1.36"  # of Kubernetes, whose words are shown


@dataclass(frozen=True)
class Puzzle:
    folder: Path

    @property
    def title(self) -> str:
        return self._comment()[0]

    @property
    def text(self) -> str:
        return " ".join(self._comment()[2:])

    @property
    def apply(self) -> str:
        lines = (self.folder / "apply.yaml").read_text().splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("#"))

    @property
    def scheduler(self) -> str:
        return (self.folder / "scheduler.txt").read_text().strip()

    @property
    def refused(self) -> bool:
        """The API server does not even take what is applied."""
        return " is invalid: " in self.scheduler

    @property
    def where(self) -> str:
        return "as the answer to `kubectl apply`" if self.refused else "in the pod's condition and its event"

    @property
    def command(self) -> str:
        # What was refused is in no cluster; the tool must be shown it.
        return "dray explain pod train" + (" -f apply.yaml" if self.refused else "")

    def _comment(self) -> list[str]:
        lines = (self.folder / "apply.yaml").read_text().splitlines()
        return [line.removeprefix("#").strip() for line in lines if line.startswith("#")]

    def documents(self, name: str) -> list[dict[str, object]]:
        found = manifests.read_files([self.folder / name])
        return [dict(d) for one in found for d in expand_workload(one.document, "default")]

    def explain(self) -> Explanation:
        snapshot = Snapshot(release=RELEASE).with_objects(self.documents("cluster.yaml"))
        applied = snapshot.with_objects(self.documents("apply.yaml"))
        return explain_pod(Cluster(applied, filters_nodes=True), POD)

    def page(self) -> str:
        return f"""# {self.title}

{self.text}

```yaml
{self.apply.strip()}
```

What Kubernetes {RELEASE} says, {self.where}:

```
{self.scheduler}
```

`{self.command}` says:

```
{render_text(self.explain())}
```

[The cluster](cluster.yaml) · [what is applied](apply.yaml) · try it without a cluster:
`dray explain pod train --offline -f cluster.yaml -f apply.yaml`
"""


def puzzles() -> list[Puzzle]:
    return [Puzzle(path) for path in sorted(GALLERY.iterdir()) if path.is_dir()]


def index() -> str:
    lines = [f"{n}. [{p.title}]({p.folder.name}/README.md)" for n, p in enumerate(puzzles(), 1)]
    return (
        "# Ten pods that do not start\n\n"
        f"Each page shows a pending pod, what Kubernetes {RELEASE} has to say about it, and what `dray explain` finds.\n\n"
        + "\n".join(lines)
        + "\n"
    )


if __name__ == "__main__":
    (GALLERY / "README.md").write_text(index())
    for puzzle in puzzles():
        (puzzle.folder / "README.md").write_text(puzzle.page())
