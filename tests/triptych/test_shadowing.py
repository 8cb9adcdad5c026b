"""What of the user's hides a package: `import triptych` names it, and the command works all the same."""

import os
from pathlib import Path

import tqdm

from tests.runs import ROOT
from tests.runs import python as start

CONSOLE = "import sys\nfrom triptych.cli.main import main\nsys.exit(main())\n"


def python(*line, cwd, path=str(ROOT)):
    done = start(*line, cwd=cwd, PYTHONPATH=path)
    return done.returncode, done.stdout, done.stderr


def hide(folder, name, kind):
    """A module of the user's of that name; gives its path."""
    if kind == "file":
        place = folder / f"{name}.py"
        place.write_text("data = 1\n")
        return place
    place = folder / name
    place.mkdir()
    (place / ("__init__.py" if kind == "package" else "results.csv")).write_text("")
    return place


def test_the_import_names_what_hides_a_package(tmp_path):
    place = hide(tmp_path, "hooks", "file")
    status, out, err = python("-c", "import triptych", cwd=tmp_path)
    assert status == 1 and out == ""
    assert err.splitlines()[-1] == (
        f"ImportError: triptych: {place} hides Triptych's own package `hooks`: rename it,"
        " or start Python in another folder"
    )
    place.unlink()
    place = hide(tmp_path, "analysis", "package")  # one that was imported before
    status, _, err = python("-c", "import analysis, triptych", cwd=tmp_path)
    assert status == 1 and f"ImportError: triptych: {place} hides" in err


FINDER = f"""
import importlib.machinery, sys

sys.path.append({str(Path(tqdm.__file__).parents[1])!r})

class Finder:
    def find_spec(name, path=None, target=None):
        if path is None and name in ("triptych", "hooks", "probes", "analysis"):
            return importlib.machinery.PathFinder.find_spec(name, [{str(ROOT)!r}])

sys.meta_path.append(Finder)  # as an editable installation does
"""


def test_in_an_editable_installation_any_folder_hides_a_package(tmp_path):
    place = hide(tmp_path, "analysis", "folder")
    status, _, err = python("-S", "-c", f"{FINDER}\nimport triptych", cwd=tmp_path, path="")
    assert status == 1 and f"ImportError: triptych: {place} hides Triptych's own package `analysis`" in err


def test_the_command_works_all_the_same(tmp_path):
    for name, kind in (("analysis", "package"), ("hooks", "file"), ("probes", "package")):
        hide(tmp_path, name, kind)
    script = tmp_path / "bin" / "triptych"
    script.parent.mkdir()
    script.write_text(CONSOLE)
    status, out, err = python(script, "nowhere.yaml", cwd=tmp_path, path=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (status, out) == (
        2,
        "",
    ) and err == "nowhere.yaml: expected a YAML file, found none: check the path\n"
