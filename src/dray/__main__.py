"""``python -m dray``: the command line, where ``dray`` itself is not on the PATH."""

from dray.cli import main

if __name__ == "__main__":
    main()
