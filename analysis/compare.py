"""The former place of ``python -m analysis compare``; ``python -m analysis.compare`` still works."""

import sys

from analysis.studies.compare.command import main

if __name__ == "__main__":
    sys.exit(main())
