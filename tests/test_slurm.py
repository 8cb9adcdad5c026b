"""An array of shards on a real SLURM of two nodes, cancelled and submitted again: the bytes of a single process."""

import json
import subprocess
import sys

import pytest

from probes.runs.store import Run
from tests.probes.conftest import stored
from tests.slurm.two_nodes import OUTER, missing
from tests.test_shards import CONFIG
from tests.tiny_runs import run_here, saved_yaml

PROMPTS = [
    f"a {{person}} with a {thing}" for thing in ("dog", "cat", "ball", "book", "hat", "cup", "guitar", "kite")
]
PATIENCE = 3600


@pytest.mark.slow
def test_an_array_that_is_cancelled_and_submitted_again(tmp_path, capsys):
    if why := missing():
        pytest.skip(f"no SLURM of two nodes can be started here: {why}")
    yaml = saved_yaml(tmp_path, CONFIG, "array.yaml", prompts=PROMPTS, sampler={"steps": 20})
    assert run_here(yaml, tmp_path / "whole") == 0
    path = tmp_path / "shared" / "run"
    path.parent.mkdir()
    command = [sys.executable, "-m", "tests.slurm.resubmit", yaml, path, "2"]
    cluster = [*OUTER, sys.executable, "-m", "tests.slurm.two_nodes", tmp_path / "slurm", "--", *command]
    done = subprocess.run(list(map(str, cluster)), capture_output=True, text=True, timeout=PATIENCE)
    written = "\n".join(file.read_text() for file in sorted(path.parent.glob("*.out")))
    assert done.returncode == 0, done.stderr + written
    said = json.loads(done.stdout.splitlines()[-1])
    assert "CANCELLED" in said["cancelled"].values() and len(said["cancelled"]) == 4, said
    assert said["again"] == {str(index): "COMPLETED" for index in range(3)}, written
    expected = stored(tmp_path / "whole")
    samples = [name for name in said["there"] if name.startswith("samples/")]
    assert 2 <= len(samples) < len(PROMPTS)  # it was cancelled in the middle
    assert stored(path) == expected
    run = Run.open(path)
    assert run.status == "complete" and {one["host"] for one in run.meta["shards"]} == {"node1", "node2"}
    assert not list(path.rglob(".tmp-*"))
    with capsys.disabled():
        print(f"cancelled with {len(samples)} of 8 parts: {said['cancelled']}, then {said['again']}")
