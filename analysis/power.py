"""The former place of ``python -m analysis power``; ``python -m analysis.power`` still works."""

import sys

from analysis.stats.power import main

if __name__ == "__main__":
    sys.exit(main())
