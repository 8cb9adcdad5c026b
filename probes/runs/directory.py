"""Work on a run directory that is held (`probes.execution.claim`): whether it can be gone on with, what is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from probes.config.schema import Config
from probes.errors import UserError
from probes.runs import completeness, image_faults, part_rows, recorded_files
from probes.runs.folders import clear
from probes.runs.identity import (
    as_written,
    differing,
    drawn_fields,
    later_fields,
    measured_fields,
    observed_fields,
    traced_fields,
)
from probes.runs.parts import FORMAT, write_bytes
from probes.runs.record import STATUSES
from probes.runs.selection import KEY, KINDS, STOPPED
from probes.runs.store import Run
from probes.versions import versions


def now() -> str:
    """The time as ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def require_same(
    run: Run, resolved: Mapping[str, Any], *, observing_anew: bool = False, tracing_anew: bool = False
) -> None:
    """Refuse a configuration that differs from the run's in anything that alters what is stored already.

    A value that is still open (``auto``, ``null``: the model's default) agrees with any.
    """
    if not run.meta:
        return
    there = recorded_files.aligned(run.resolved, resolved)
    _require(run, drawn_fields(there), drawn_fields(resolved))
    if run.parts("observed") and not observing_anew:
        _require(run, observed_fields(there), observed_fields(resolved))
    if run.parts("traced") and resolved.get("trace") and not tracing_anew:
        _require(run, (run.meta.get("trace") or {}).get("fields", {}), traced_fields(resolved))


def _require(
    run: Run, before: Mapping[str, Any], after: Mapping[str, Any], *, remedy: str = "", drawn: bool = False
) -> None:
    """Refuse the first field that differs; fields that a run lacks are not compared with it.

    ``drawn`` says that the run's own values are settled: then only what `after` leaves open agrees with them.
    """
    sections = ("sampler.", "generate.", "observe.", "trace.")

    def agree(name: str) -> bool:
        left_open = (after[name],) if drawn else (before[name], after[name])
        return name.startswith(sections) and any(value in (None, "auto") for value in left_open)

    names = [name for name in after if name in before and not agree(name)]
    name = differing({name: before[name] for name in names}, {name: after[name] for name in names})
    if name is not None:
        raise another_run(run, name, before[name], after[name], remedy)


def require_model(path: Path, files: Mapping[str, str], published: str = "") -> None:
    """Refuse a model whose description differs from that of the run in a folder, before any of it is read."""
    if not files or not (path / "run.json").exists():
        return
    run = Run.open(path)
    there = run.meta.get("part_fields") or {}
    there = {name: value for name, value in there.items() if name.startswith("model/")}
    name = differing(there, files) if there else None
    if name is not None and published not in ("", before := run.resolved.get("model")):
        raise another_run(run, "model", before, published)
    if name is not None:
        raise another_run(run, name, there.get(name), files.get(name))


def pinned(config: Config) -> str | None:
    """The commit of the hub that the run in a configuration's folder began with, where it is of the same model.

    Whoever goes on with a run draws with that one, wherever a branch has moved since.
    """
    if not (config.out_path / "run.json").exists():
        return None
    model = Run.open(config.out_path).meta.get("model") or {}
    same = model.get("kind") == "hub" and model.get("id") == config.model and "@" not in config.model
    return model.get("revision") if same else None


def another_run(run: Run, field: str, old: Any, new: Any, remedy: str = "") -> UserError:
    """The line that names the field in which a run differs from what was asked."""
    old, new = (as_written(field, value) for value in (old, new))
    if isinstance(old, list) and isinstance(new, list):
        index = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        field = f"{field}[{index}]"
        old, new = (values[index] if index < len(values) else "nothing" for values in (old, new))
    old, new = (repr(value) if len(repr(value)) < 80 else repr(value)[:76] + "..." for value in (old, new))
    if not remedy:
        remedy = "use --overwrite to replace it or another --out"
        if field.startswith("observe."):
            remedy = "use --stage observe --overwrite to observe its images anew, or another --out"
        if field.startswith("trace."):
            remedy = "use --stage trace --overwrite to trace it anew, or another --out"
    return UserError(f"{run.path}: holds another run: {field} is {old} there, expected {new}: {remedy}")


def part_of_another_run(run: Run, path: Path, field: str, old: Any, new: Any) -> UserError:
    """The line that names a part that was made from something else than the run asks for."""
    return UserError(f"{path.name} of {another_run(run, field, old, new)}")


def record(
    run: Run,
    config: Config,
    passed: Mapping[str, Any],
    text: str | None,
    status: str,
    *,
    captions: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Write ``run.json`` and, of a `text`, the copy of ``triplets.yaml``; without captions those there stay."""
    assert status in STATUSES
    times = {"created": now(), **_times(run, status)}
    for name in (KEY, completeness.LOST):
        run.meta.pop(name, None)
    # the record first: a folder that holds but a copy of a configuration is no run's
    run.write_meta(
        **{
            "format": FORMAT,
            "status": status,
            "name": config.name,
            "config": {"passed": dict(passed), "resolved": config.resolved()},
            "versions": versions(),
            **({"captions": dict(captions)} if captions else {}),
            **fields,
            "times": times,
        }
    )
    _copy(run, text)


def _copy(run: Run, text: str | None) -> None:
    if text is not None:
        write_bytes(run.path / "triplets.yaml", text.encode())


def _times(run: Run, status: str) -> dict[str, Any]:
    """Return times and durations of the stages up to a status: what comes after is to be done again."""
    times = run.meta.get("times", {})
    later = STATUSES[STATUSES.index(status) + 1 :]
    took = {name: value for name, value in times.get("seconds", {}).items() if name not in later}
    kept = {name: value for name, value in times.items() if name not in (*later, "seconds")}
    return kept | ({"seconds": took} if took else {})


def write_plan(
    run: Run,
    config: Config,
    passed: Mapping[str, Any],
    text: str | None,
    images: int,
    *,
    captions: Mapping[str, Any] | None = None,
    overwrite: bool,
) -> None:
    """Record a plan. A run that is there and the same keeps what it has reached."""
    if overwrite:
        clear(run)
    if not run.meta:
        record(run, config, passed, text, "planned", captions=captions, images=images)
    elif not (run.path / "triplets.yaml").exists():
        _copy(run, text)


def take_up(
    run: Run,
    config: Config,
    stages: Sequence[str],
    *,
    passed: Mapping[str, Any] | None = None,
    text: str | None = None,
) -> None:
    """Go on with a generated run: put the configuration over its own as far as these stages apply it.

    To measure and report parts may be missing: what there is then is recorded.
    """
    there = run.status if run.meta else "empty"
    if not run.meta or not run.parts("samples"):
        raise UserError(
            f"{run.path}: expected a generated run, found it {there}"
            + (", without images" if there not in ("empty", "planned") else "")
            + ": run --stage generate first"
        )
    noted = _noted(run, stages)
    fresh = config.resolved()
    there = recorded_files.aligned(run.resolved, fresh)
    before, after = ({"model": side.get("model"), **drawn_fields(side)} for side in (there, fresh))
    _require(run, before, after, drawn=True)
    if set(stages) <= {"report"}:
        if STATUSES.index(run.status) < STATUSES.index("measured"):
            raise UserError(
                f"{run.path}: expected a measured run, found it {run.status}: run --stage measure first"
            )
        _require(run, measured_fields(there), measured_fields(fresh), remedy="run --stage measure first")
        status = "measured"
    else:
        seen = "observe" not in stages and bool(run.parts("observed"))
        status = "observed" if seen else "generated"
    as_drawn = ("sampler", "capture", "generate", "out", *(() if "observe" in stages else ("observe",)))
    kept = {
        section: later_fields(section, there[section], fresh[section])
        for section in as_drawn
        if section in there
    }
    if "trace" not in stages:
        before, after = there.get("trace"), fresh["trace"]
        kept["trace"] = later_fields("trace", before, after) if before and after else before
    resolved = {**fresh, **kept}
    run.write_meta(
        status=status,
        name=config.name,
        config={"passed": dict(passed or run.meta["config"].get("passed", {})), "resolved": resolved},
        times=_times(run, status),
        **noted,
    )
    _copy(run, text)


def _noted(run: Run, stages: Sequence[str]) -> dict[str, Any]:
    """Return what is recorded of the images that are there, where some are missing.

    The report alone is made of what was measured, and speaks of the same: of what it shows nothing may have been lost.
    """
    if set(stages) <= {"report"}:
        return _noted_lost(run)
    for name in (KEY, completeness.LOST):
        run.meta.pop(name, None)
    missing = completeness.snapshot(run)
    if missing and not set(stages) <= {"measure", "report"}:
        if not completeness.is_generated(run):
            (images, planned) = missing["images"]
            raise UserError(
                f"{run.path}: expected a generated run, found {images:,} of its {planned:,} images: run --stage"
                " generate first, or measure what is there by --stage measure"
            )
        missing = None  # these stages make what is missing
    if not missing and run.status != "planned":
        return {}
    return _noted_over(run, missing)


def _noted_over(run: Run, missing: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is recorded of the images that a run speaks of, where others are missing."""
    run.meta |= {KEY: missing} if missing else {}
    noted: dict[str, Any] = {"faults": image_faults.counts(list(run.faults().values()))}
    if run.parts("traced") and run.meta.get("trace"):
        there = run.traced(["triplet", "seed", "fault"])
        rows = run.meta["trace"]["images"] * len(there[["triplet", "seed"]].drop_duplicates())
        counted = {"rows": rows, "faults": image_faults.counts(list(there["fault"].dropna()))}
        noted["trace"] = {**run.meta["trace"], **counted}
    return noted


def _noted_lost(run: Run) -> dict[str, Any]:
    """Return what is recorded of the kinds of parts that were lost since the run was measured."""
    run.meta.pop(completeness.LOST, None)
    lost = completeness.lost_parts(run)
    completeness.warn(run)
    return {completeness.LOST: completeness.name_files(lost)} if lost else {}


def fix_parts(run: Run) -> None:
    """Settle, when the measuring begins, of which parts it speaks; say on stderr what is missing."""
    if KEY not in run.meta and (missing := completeness.snapshot(run)):
        run.write_meta(**_noted_over(run, missing))
    part_rows.require_rows(run)
    completeness.warn(run)


def record_stage(run: Run, status: str, seconds: float) -> None:
    """Record that a stage is done, when, and how long it took."""
    times = _times(run, status)
    took = {**times.get("seconds", {}), status: round(seconds, 1)}
    run.write_meta(status=status, times={**times, status: now(), "seconds": took})


def record_stop(run: Run, parts: int, images: int) -> None:
    """Record that the first n parts, with so many images, are all that a run is to have."""
    counts = {kind: min(count, parts) for kind, count in (run.meta.get(KINDS) or {}).items()}
    run.write_meta(
        **{STOPPED: {"parts": parts, "images": images}, "parts": parts, "images": images, KINDS: counts}
    )
