"""The former place of ``python -m analysis human-check``; ``python -m analysis.objects`` still works."""

import sys

from analysis.studies.human_check.command import main

if __name__ == "__main__":
    sys.exit(main())
