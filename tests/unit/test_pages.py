"""The runner of pages notices when a page does not say what happens."""

from __future__ import annotations

import pytest

from tests.support.pages import Command, File, matches, steps

PAGE = """
Save this as `a.py`:

```python
print(1)
```

```console
$ python a.py \\
    --twice
1
$ true
```

```yaml
not: saved
```
"""


def test_files_are_saved_and_commands_typed_in_order() -> None:
    assert steps(PAGE) == [
        File("a.py", "print(1)\n"),
        Command("python a.py \\\n    --twice", "1"),
        Command("true", ""),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("NAME   AGE\npod-…  2s", "NAME AGE\npod-x7 13s\n", True),
        ("...\nB=2\n...", "A=1\nB=2\nC=3\n", True),
        ("B=2", "A=1\nB=2\n", False),
        ("...\nB=2\n...", "A=1\nB=3\n", False),
        ("one two", "one\n", False),
    ],
)
def test_what_is_shown_must_be_printed(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
