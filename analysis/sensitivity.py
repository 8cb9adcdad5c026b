"""The former place of ``python -m analysis sensitivity``; ``python -m analysis.sensitivity`` still works."""

import sys

from analysis.studies.sensitivity.command import main

if __name__ == "__main__":
    sys.exit(main())
