"""Control-C and SIGTERM while the libraries load: one line and status 130 or 143, at whichever module they come."""

import signal
import subprocess
import sys

import pytest

from tests.runs import ROOT

# Python imports `sitecustomize` before anything of ours; this one sends a signal when a module is looked for
PRESS = """
import os, signal, sys
class Press:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{signal})
sys.meta_path.insert(0, Press)
"""


def heard() -> None:
    """What a shell starts in the background ignores Control-C, and its children with it; these do not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("module", "number", "word"),
    [("pydantic", signal.SIGINT, "interrupted"), ("torch", signal.SIGTERM, "terminated")],
)
def test_a_signal_while_the_libraries_load(module, number, word, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(PRESS.format(module=module, signal=number.name))
    (tmp_path / "c.yaml").write_text("prompts: ['a {person}']\n")
    line = [sys.executable, "-m", "probes.run", str(tmp_path / "c.yaml"), "--out", str(tmp_path / "run")]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, preexec_fn=heard
    )
    assert (done.returncode, done.stdout) == (128 + number, "")
    assert done.stderr == f"{word}: nothing was begun, run the same command again\n"
    assert not (tmp_path / "run").exists()
