"""Taking hold of a run directory: whose it is, whether it can be gone on with, what a new run clears away.

Only one process writes to a run directory at a time; it holds a lock that ends with it, however it ends.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from platform import platform, python_version
from typing import Any

from probes.config import Config
from probes.errors import UserError
from probes.parts import FORMAT, TEMPORARY, clean, disk_error, write_bytes
from probes.store import STATUSES, Run

_LOCK = ".lock"
_FOLDERS = (
    *("samples", "captures", "words", "kept", "observed", "objects", "features", "attributes"),
    *("tables", "figures"),
)
_FILES = ("report.html", "triplets.yaml", "run.json")
_LIBRARIES = (
    *("triptych", "torch", "diffusers", "transformers", "tokenizers", "safetensors", "numpy", "scipy"),
    *("scikit-image", "pandas", "pyarrow", "pillow", "pydantic", "matplotlib"),
)
_ALTERING = (
    *(
        "limit",
        "indicators",
        "prompts",
        "seeds",
        "sampler.steps",
        "sampler.guidance_scale",
        "sampler.scheduler",
    ),
    *("sampler.negative_prompt", "sampler.height", "sampler.width", "capture.sites", "capture.words"),
    *(
        "capture.keep",
        "generate.batch_triplets",
        "generate.part_triplets",
        "generate.dtype",
        "generate.device",
    ),
)
# what alters a run's objects, once it has some
_OBSERVING = tuple(
    f"observe.{name}"
    for name in (
        *("engine", "detector", "segmenter", "text_encoder", "tags", "vocabulary", "tagger", "tagger_top"),
        *("ram", "box_threshold", "text_threshold", "nms_iou", "batch", "device"),
    )
)


def now() -> str:
    """The time as ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of Python, the system and the libraries that matter, without importing them."""
    found = {"python": python_version(), "system": platform()}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@contextlib.contextmanager
def claim(path: Path, *, overwrite: bool = False) -> Iterator[Run]:
    """Hold a run directory for writing, making it if there is none; nothing in it is changed yet.

    Yields
    ------
    Run
        The run that is there, or one with an empty ``meta``.

    Raises
    ------
    UserError
        The folder cannot be written, holds something else than a run, or another process is writing to it.
    """
    path = Path(path)
    _require_ours(path, overwrite)
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = open(path / _LOCK, "ab")  # noqa: SIM115  (closed below, after the whole run)
    except OSError as error:
        _unmake(path, made)
        raise disk_error(path, error) from None
    with lock:
        _lock(lock, path)
        try:
            for folder in (path, *(path / name for name in _FOLDERS)):
                if folder.is_dir():
                    clean(folder)
            yield _there(path, overwrite)
        finally:
            _unmake(path, made)


def _require_ours(path: Path, overwrite: bool) -> None:
    """Refuse a folder that holds something else than a run, before anything in it is touched."""
    try:
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    except OSError as error:
        raise disk_error(path, error) from None
    others = sorted(name for name in names if name != _LOCK and not name.startswith(TEMPORARY))
    interrupted = overwrite and set(others) <= {*_FOLDERS, *_FILES}
    if others and "run.json" not in others and not interrupted:
        raise UserError(
            f"{path}: expected an empty folder or a run, got other files ({others[0]}): choose another --out"
        )


def _there(path: Path, overwrite: bool) -> Run:
    if not (path / "run.json").exists():
        return Run(path, {})
    try:
        return Run.open(path)
    except UserError:
        if overwrite:
            return Run(path, {})
        raise


def _lock(file: Any, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such lock on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"{path}: expected to be the only one writing here, found another process: let it end first"
        ) from None
    except OSError:  # some network file systems have no locks
        return


def _unmake(path: Path, made: list[Path]) -> None:
    """Take away folders made for a run that came to nothing."""
    with contextlib.suppress(OSError):
        if made and path.is_dir() and [entry.name for entry in path.iterdir()] == [_LOCK]:
            (path / _LOCK).unlink()
        for folder in made:
            folder.rmdir()


def clear(run: Run) -> None:
    """Remove what a run stored; other files in the folder stay. ``run.json`` goes last."""
    remove(run, _FOLDERS)
    try:
        for name in _FILES:
            (run.path / name).unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(run.path, error) from None
    run.meta = {}


def remove(run: Run, kinds: Sequence[str]) -> None:
    """Remove the folders of these kinds, so that they are made anew."""
    try:
        for kind in kinds:
            if (run.path / kind).is_dir():
                shutil.rmtree(run.path / kind)
    except OSError as error:
        raise disk_error(run.path, error) from None


def require_same(run: Run, resolved: Mapping[str, Any]) -> None:
    """Refuse a configuration that differs from the run's in anything that alters what is generated.

    A value that is still open (``auto``, ``null``: the model's default) agrees with any.

    Raises
    ------
    UserError
        Names the first field that differs.
    """
    if not run.meta:
        return
    observed = _OBSERVING if run.parts("observed") else ()
    for name in (*_ALTERING, *observed):
        old, new = _content(run.config, name), _content(resolved, name)
        if name == "limit":  # a limit beyond the end is none
            old, new = (
                n if n and n < len(c["prompts"]) else None for n, c in ((old, run.config), (new, resolved))
            )
        still_open = name.startswith(("sampler.", "generate.", "observe.")) and (
            old in (None, "auto") or new in (None, "auto")
        )
        if old != new and not still_open:
            raise another_run(run, name, old, new)


def another_run(run: Run, field: str, old: Any, new: Any) -> UserError:
    """The line that names the field in which a run differs from what was asked."""
    if isinstance(old, list) and isinstance(new, list):
        index = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        field = f"{field}[{index}]"
        old, new = (values[index] if index < len(values) else "nothing" for values in (old, new))
    old, new = (repr(value) if len(repr(value)) < 80 else repr(value)[:76] + "..." for value in (old, new))
    remedy = "use --overwrite to replace it or another --out"
    if field.startswith("observe."):
        remedy = "use --stage observe --overwrite to look at its images anew, or another --out"
    return UserError(f"{run.path}: holds another run: {field} is {old} there, expected {new}: {remedy}")


def _content(config: Mapping[str, Any], name: str) -> Any:
    value: Any = config
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    if name == "indicators":
        return [[key, entry["word"]] for key, entry in value.items()]
    return value


def record(
    run: Run, config: Config, passed: Mapping[str, Any], text: str | None, status: str, **fields: Any
) -> None:
    """Write ``run.json`` and the copy of ``triplets.yaml``.

    Parameters
    ----------
    passed
        The configuration as passed: ``{"file": ..., "command_line": ...}``.
    text
        The YAML file as it stands, or None to leave the copy alone.
    """
    assert status in STATUSES
    times = {"created": now(), **run.meta.get("times", {})}
    if text is not None:
        write_bytes(run.path / "triplets.yaml", text.encode())
    run.write_meta(
        **{
            "format": FORMAT,
            "status": status,
            "name": config.name,
            "config": {"passed": dict(passed), "resolved": config.resolved()},
            "versions": versions(),
            **fields,
            "times": times,
        }
    )


def plan(
    run: Run,
    config: Config,
    passed: Mapping[str, Any],
    text: str | None,
    images: int,
    *,
    overwrite: bool,
) -> None:
    """Record a plan. A run that is there and the same keeps what it has reached."""
    if overwrite:
        clear(run)
    if not run.meta:
        record(run, config, passed, text, "planned", images=images)


def take_up(run: Run, config: Config, sections: Sequence[str] = ("measure", "report")) -> None:
    """Go on with a generated run: only these sections may differ from what it was made with.

    Raises
    ------
    UserError
        Nothing is generated yet.
    """
    if not run.meta or run.status == "planned":
        there = run.status if run.meta else "empty"
        raise UserError(f"{run.path}: expected a generated run, found it {there}: run --stage generate first")
    fresh = config.resolved()
    resolved = {**run.config, **{section: fresh[section] for section in sections}}
    run.write_meta(config={**run.meta["config"], "resolved": resolved})


def reached(run: Run, status: str, seconds: float) -> None:
    """Record that a stage is done, when, and how long it took."""
    times = run.meta.get("times", {})
    took = {**times.get("seconds", {}), status: round(seconds, 1)}
    run.write_meta(status=status, times={**times, status: now(), "seconds": took})
