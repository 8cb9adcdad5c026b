"""A small run of four words and three prompts by the command line, and what it says."""

import subprocess
import sys
from pathlib import Path

from tests.tiny import tiny_pipeline

ROOT = Path(__file__).parent.parent
PATIENCE = 1800  # seconds until a command counts as hanging, also on a machine that is busy otherwise
YAML = """\
name: small
model: {model}
indicators:
  neutral: person
  feminine: woman
  masculine: man
  individual: {{word: individual, control: true}}
prompts:
  - a {{person}} with a dog
  - a {{person}} reading a book
  - a {{person}} in a car
seeds: [0, 1]
sampler: {{steps: 2}}
generate: {{part_triplets: 1, batch_triplets: 1, device: cpu}}
observe: {{engine: toyworld-checker}}
measure: {{bootstrap: 50, permutations: 64}}
report: {{gallery: 2}}
"""


def run(*arguments):
    """Exit status, stdout and stderr of the command line in a process of its own."""
    line = [sys.executable, "-m", "probes.run", *map(str, arguments)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def one_line(captured, *messages):
    """Hold that nothing but a line on stderr was said, and what it says."""
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    for message in messages:
        assert message in captured.err


def small_yaml(folder):
    """Save a tiny pipeline and a file that draws with it; gives the file."""
    tiny_pipeline("toy").save_pretrained(folder / "tiny")
    path = folder / "small.yaml"
    path.write_text(YAML.format(model=folder / "tiny"))
    return path
