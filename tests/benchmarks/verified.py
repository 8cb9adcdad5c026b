"""`triptych verify` of the bundled models and of a tiny pipeline of every family, for docs/validation/verified.

python -m tests.benchmarks.verified            # all; or some: toyworld sd3
python -m lab.pages.verified > docs/validation/verified.md
"""

import sys
import tempfile
from pathlib import Path

from tests.tiny import KINDS as UNETS
from tests.tiny import tiny_pipeline
from tests.tiny_transformers import KINDS, call_options, tiny_transformer_pipeline
from triptych.cli.main import main

STORED = Path(__file__).parents[2] / "docs/validation/verified"
BUNDLED = ("toyworld", "toyworld-dit")


def verify(kind: str, folder: Path, *options: str) -> int:
    """Return the exit status of the command; a tiny pipeline is saved in the folder first. Results: folder/out."""
    model, size = kind, list[str]()
    if kind not in BUNDLED:
        pipe = tiny_pipeline(kind) if kind in UNETS else tiny_transformer_pipeline(kind)
        model = str(folder / f"tiny-{kind}")
        pipe.save_pretrained(model)
        size = ["--steps", "2"]
        size += [] if kind in UNETS else ["--size", str(call_options(kind)["height"])]
    return main(["verify", model, "--out", str(folder / "out"), *size, *options])


def run(kinds: list[str]) -> int:
    """Verify each kind, and store its JSON if no check failed; return the number of kinds that fail."""
    failed = 0
    for kind in kinds or [*BUNDLED, *UNETS, *KINDS]:
        with tempfile.TemporaryDirectory() as folder:
            status = verify(kind, Path(folder))
            failed += status != 0
            if not status:
                name = kind if kind in BUNDLED else f"tiny-{kind}"
                text = Path(folder, "out", "verify.json").read_text("utf-8")
                (STORED / f"{name}.json").write_text(text, "utf-8")
    return failed


if __name__ == "__main__":
    STORED.mkdir(exist_ok=True)
    sys.exit(run(sys.argv[1:]))
