"""Libraries load without full collections of cyclic garbage; a helper that cannot read says so."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOADING = """
import gc
from probes.execution.team import loading_libraries

full = []
gc.callbacks.append(lambda phase, told: full.append(told["generation"]) if told["generation"] == 2 else None)
with loading_libraries():
    import analysis.tables.stage
assert not full, full
assert gc.isenabled()
assert gc.get_freeze_count() < 10_000  # what is frozen is never freed
young = sum(map(len, (gc.get_objects(generation) for generation in (0, 1))))
assert young < len(gc.get_objects(2)) / 10, young

class Cycle:
    ended = False
    def __del__(self):
        Cycle.ended = True

with loading_libraries():
    one = Cycle()
    one.itself = one
    del one
gc.collect()
assert Cycle.ended
"""

UNREADABLE = """
import time
from pathlib import Path
from analysis.tables.sharing import Piece, Sharing
from probes.execution.team import Team
from probes.runs.run import Run

def own():  # helpers do not run this script again, and know none of its functions
    time.sleep(0.5)

with Team() as team:
    team.start(2, "analysis.tables.sharing")
    list(Sharing(Run(Path(), {}), team, 2).results([Piece(own, ()) for _ in range(200)]))
"""


def test_a_piece_that_a_helper_cannot_read_is_an_error_and_no_endless_wait():
    done = subprocess.run(
        [sys.executable, "-c", UNREADABLE], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1 and "AttributeError: Can't get attribute 'own'" in done.stderr


def test_libraries_load_without_full_collections():
    done = subprocess.run(
        [sys.executable, "-c", LOADING], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
