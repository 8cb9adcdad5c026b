"""The former place of ``python -m analysis calibrate``; ``python -m analysis.calibrate`` still works."""

import sys

from analysis.validation.specimens import main

if __name__ == "__main__":
    sys.exit(main())
