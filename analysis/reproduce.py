"""The former place of ``python -m analysis reproduce``; ``python -m analysis.reproduce`` still works."""

import sys

from analysis.papers.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
