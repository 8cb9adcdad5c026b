"""The public functions are used as their annotations say: `tests/public_face.py` under mypy, by `setup.cfg`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FACE = ROOT / "tests" / "public_face.py"


def checked(path: Path, cache: Path) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "setup.cfg"),
        "--cache-dir",
        str(cache),
    ]
    return subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=1800)


def test_the_public_face_is_typed(tmp_path):
    done = checked(FACE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        FACE.read_text("utf-8").replace("claim: str = words.claim", "claim: int = words.claim"), "utf-8"
    )
    done = checked(wrong, tmp_path)
    assert done.returncode == 1 and 'has type "str", variable has type "int"' in done.stdout, done.stdout
