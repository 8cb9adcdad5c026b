"""The run directory: the one reader and writer of what a run stores. Needs no torch.

What stands in it: docs/reference/runs.md. Parts made elsewhere (human labels, images of a closed model) enter by the
same door: any directory with a ``run.json`` and the columns of `probes.runs.schemas` can be read.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from probes.config.schema import Config
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.locks import GATE, locked, require_not_removed
from probes.paths import outermost_link, require_no_address
from probes.runs.images import fault_reason, read_image
from probes.runs.parts import (
    column_names,
    columns_error,
    disk_error,
    is_leftover,
    part_files,
    part_name,
    read_part,
    read_table,
    table_bytes,
    write_bytes,
)
from probes.runs.record import KINDS, STATUSES, first_difference, read_record, record_bytes, record_error

if TYPE_CHECKING:
    import pandas as pd

BESIDE = "beside"  # of the record: what commands beside the stages write
CSV_ROWS = 1_000_000  # of a result table, less than the 1,048,576 rows of a spreadsheet
MOST = 1_000_000  # parts of a kind: a record that says more is damaged
_KIND = re.compile(r"[a-z]+|(?:features|attributes)/\w[\w.-]*")
# what a stage may name as written
_RESULT = re.compile(r"(tables|figures|gallery)/[^/\\]+|report\.html|README\.md")


class Run:
    """A run directory, its parts, images and results; open one with :meth:`Run.open`."""

    def __init__(self, path: Path, meta: dict[str, Any]):
        """Take the path of the directory, and `meta`, the content of its ``run.json`` (empty if there is none)."""
        self.path, self.meta = path, meta
        self._stage = BESIDE  # that is under way
        self._names: set[str] = set()  # results that it has written
        self._part_of: dict[str, Path] = {}  # of each sample
        self._config: tuple[dict[str, Any], Config] | None = None

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Return the run in a folder; UserError if its ``run.json`` is absent or damaged."""
        require_no_address(path)
        return cls(Path(path), read_record(Path(path) / "run.json"))

    def __repr__(self) -> str:
        parts = f"{len(self.parts('samples'))} of {self.meta.get('parts', '?')} parts"
        return f"Run({str(self.path)!r}, status={self.status!r}, {parts})"

    # the record

    @property
    def resolved(self) -> dict[str, Any]:
        """The resolved configuration in ``run.json`` as plain data; empty if the run has no record yet."""
        return self.meta.get("config", {}).get("resolved", {})

    @property
    def config(self) -> Config:
        """The resolved configuration, with every default filled in; UserError if the stored one is not valid."""
        resolved = self.resolved
        if self._config is None or self._config[0] is not resolved:  # read again where it was written anew
            try:
                self._config = (resolved, Config.stored(resolved))
            except ValueError as error:
                raise record_error(self.path / "run.json", str(error)) from None
        return self._config[1]

    @property
    def status(self) -> str:
        """Status of the run: planned, generated, observed, measured or complete."""
        return self.meta["status"]

    def write_meta(self, **fields: Any) -> None:
        """Set fields of ``run.json``; what other processes have written to its other fields meanwhile is kept.

        If another process has reached a later stage meanwhile, its status and times are kept.
        """
        file, fields = self.path / "run.json", json.loads(json.dumps(fields))
        require_not_removed(file)
        with locked(self.path / GATE):
            current = read_record(file) if self.meta and file.exists() else self.meta
            recorded = {**current, **fields}
            went_on = current.get("status") != self.meta.get("status")
            if went_on and STATUSES.index(current["status"]) > STATUSES.index(recorded["status"]):
                recorded |= {name: current[name] for name in ("status", "times") if name in current}
            write_bytes(file, record_bytes(recorded))
        self.meta = {**self.meta, **fields}

    def reload_record(self) -> None:
        """Read ``run.json`` again, if it exists, since another process may have written it."""
        if (self.path / "run.json").exists():
            self.meta = read_record(self.path / "run.json")

    # parts

    def planned(self) -> dict[str, int]:
        """Return how many parts of each kind the run should have; empty if its record does not say."""
        parts, counts = self.meta.get("parts"), self.meta.get(KINDS)
        if not (isinstance(parts, int) and isinstance(counts, Mapping)):
            return {}
        planned = {**counts, "samples": parts}
        for kind, count in planned.items():
            if not (_KIND.fullmatch(kind) and isinstance(count, int) and 0 <= count <= MOST):
                raise record_error(self.path / "run.json", f"it has {count!r:.30} parts of {kind!r:.60}")
        return planned

    def updated_part_counts(self, names: Iterable[str], count: int) -> dict[str, int]:
        """Return the planned number of parts by kind, sorted, with that of the kinds `names` set to `count`."""
        return dict(sorted({**self.planned(), **dict.fromkeys(names, count)}.items()))

    def missing(self) -> dict[str, list[int]]:
        """Return the numbers of the planned parts that have no file, by kind of part."""
        missing = {
            kind: sorted({*range(count)} - part_files(self.path / kind).keys())
            for kind, count in self.planned().items()
        }
        return {kind: numbers for kind, numbers in missing.items() if numbers}

    def part_path(self, kind: str, part: int) -> Path:
        """Return the path of a part file, which need not exist yet."""
        return self.path / kind / part_name(part)

    def parts(self, kind: str) -> list[Path]:
        """Return the existing part files of a kind, in order, without those beyond the planned number of parts."""
        counts = self.meta.get(KINDS)
        most = counts.get(kind) if isinstance(counts, Mapping) else None  # who made parts by hand may not say
        files = part_files(self.path / kind).items()
        # more are another run's, or the user's
        return [file for number, file in files if not isinstance(most, int) or number < most]

    def part_tables(self, kind: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the parts of a kind one by one as tables; UserError if there are none or their columns differ."""
        files, first = self._require_files(kind), dict[str, pa.DataType]()
        for file in files:
            table = read_part(file, columns).replace_schema_metadata(None)
            kinds = zip(table.schema.names, table.schema.types)
            types = dict.fromkeys(column_names(file), pa.null()) | dict(kinds)  # null of what is not read
            if not first:
                first, names = types, table.column_names
            if (other := first_difference(first, types)) is not None:
                raise columns_error(file, f"the columns of {files[0].name}", f"others (`{other:.60}`)")
            self._require_known_indicators(kind, table)
            yield table.select(names)

    def columns(self, kind: str) -> list[str]:
        """Return the column names of the parts of a kind; UserError if there are none."""
        return column_names(self._require_files(kind)[0])

    def _require_files(self, kind: str) -> list[Path]:
        """Return the part files of a kind; UserError if there are none."""
        if files := self.parts(kind):
            return files
        not_requested = "" if kind in ("samples", "captures") else " or was not asked for"
        raise UserError(
            f"{self.path / kind}: expected parts, found none: it is {self.status}{not_requested}, generate first"
        )

    def _require_known_indicators(self, kind: str, table: pa.Table) -> None:
        """Raise UserError if a table has rows of indicators, or pairs of them, that the run does not have."""
        names = set(self.config.indicators)
        known = names | {f"{first}-{second}" for first in names for second in names}
        for column in ("indicator", "recipient", "donor", "pair") if names else ():
            rows = table[column].unique().drop_null().to_pylist() if column in table.column_names else []
            if unknown := {*rows} - known:
                raise UserError(
                    f"{self.path / kind}: expected {column}s of {', '.join(sorted(names))!s:.120}, got"
                    f" {min(unknown)!r:.60}: mend the parts, or delete them and run again"
                )

    def read(self, kind: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the rows of all parts of a kind, all columns by default, except the image of ``samples``.

        Kinds and columns: `probes.runs.schemas`. An image in which nothing was found has no row among ``objects``, but
        one in ``observed``; `probes.runs.images.decode_mask` gives a mask as pixels.
        """
        if columns is None and kind == "samples":
            columns = [name for name in self.columns(kind) if name != "image"]
        return pa.concat_tables(list(self.part_tables(kind, columns))).to_pandas()

    def samples(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the samples, one row per image; without the image itself unless `columns` names it."""
        return self.read("samples", columns)

    def rows_of_samples(
        self,
        kind: str,
        samples: Iterable[str],
        columns: Sequence[str] | None = None,
        part: str | None = None,
    ) -> pd.DataFrame | None:
        """Return the rows of some sample ids in parts of a kind, or in the file named `part`; None without a file."""
        wanted, tables = pa.array(sorted({*samples}), pa.string()), list[pa.Table]()
        for file in self.parts(kind):
            if part in (None, file.name):
                chosen = pc.is_in(read_part(file, ["sample_id"])["sample_id"], wanted)
                if not tables or pc.any(chosen).as_py():  # the first gives the columns
                    tables.append(read_part(file, columns).filter(chosen).replace_schema_metadata(None))
        return pa.concat_tables(tables).to_pandas() if tables else None

    # images

    def image(self, sample_id: str) -> Image.Image:
        """Return the RGB image of a sample; UserError if the sample is unknown or the image cannot be read."""
        return self.images([sample_id])[0]

    def images(self, sample_ids: Iterable[str]) -> list[Image.Image]:
        """Return RGB images in the order of `sample_ids`; UserError if one is unknown or cannot be read."""
        wanted, images = list(sample_ids), {}
        if not self._part_of.keys() >= {*wanted}:
            ids = ((file, read_part(file, ["sample_id"])["sample_id"]) for file in self.parts("samples"))
            self._part_of = {sample: file for file, samples in ids for sample in samples.to_pylist()}
        if unknown := [sample for sample in wanted if sample not in self._part_of]:
            raise UserError(
                f"{self.path}: expected a sample of this run, got {unknown[0]!r}: see run.samples()"
            )
        for sample in sorted(dict.fromkeys(wanted), key=self._part_of.__getitem__):
            file = self._part_of[sample]
            try:
                images[sample] = read_image(_encoded_images(file, file.stat().st_mtime_ns)[sample])
            except ValueError as error:
                raise UserError(
                    f"{self.path}: {sample}: expected an image, got `{error}`: leave it out"
                ) from None
        return [images[sample] for sample in wanted]

    def faults(self) -> dict[str, str]:
        """Return the fault (a key of `probes.runs.images.WHY`) of each sample stored with one, by sample id."""
        faults: dict[str, str] = {}
        for file in self.parts("samples"):
            part = read_part(file, ["sample_id", "fault"])
            part = part.filter(part["fault"].is_valid())
            faults |= zip(part["sample_id"].to_pylist(), part["fault"].to_pylist())
        return faults

    def left_out(self) -> dict[str, str]:
        """Return the samples left out of every mean, with the reason: at fault, or the image cannot be read.

        The observe stage records unreadable images; images of parts that it has not observed are read here.
        """
        observed_parts, unreadable = self.parts("observed"), set[str]()
        if observed_parts:
            observed = self.read("observed", ["sample_id", "status"])
            unreadable |= {*observed["sample_id"][observed["status"] == "unreadable"]}
        for file in self.parts("samples"):
            if file.name not in {part.name for part in observed_parts}:
                unreadable |= _unreadable_samples(file, file.stat().st_mtime_ns)
        left_out = {sample: fault_reason(fault) for sample, fault in self.faults().items()}
        return dict.fromkeys(sorted(unreadable), "image cannot be read") | left_out

    # results

    def tables(self) -> list[str]:
        """Return the names of the existing result tables, sorted."""
        files = (self.path / "tables").glob("*.parquet")
        return sorted(file.stem for file in files if not is_leftover(file.name))

    def table(
        self, name: str, columns: Iterable[str] = (), texts: Collection[str] | None = None
    ) -> pd.DataFrame:
        """Return a result table by name, such as ``gap``; UserError if it, or one of `columns`, does not exist.

        `texts`: those of `columns` that must hold text, see `probes.runs.parts.read_table`.
        """
        path, names = self.path / "tables" / f"{name}.parquet", self.tables()
        if name not in names:
            remedy = (
                "choose one that is there, or run --stage measure again" if names else "run --stage measure"
            )
            if names and not self.parts("objects"):
                remedy = "run --stage observe and then --stage measure"
                if self.config.observe.objects:
                    remedy = f"no object was looked for: {remedy}"
                else:
                    remedy = f"objects were switched off: set observe.objects to true, {remedy}"
            close = difflib.get_close_matches(name, names, 3, 0.3)
            found = f"{len(names)} others (such as {', '.join(close or names[:3])})" if names else "none"
            raise UserError(f"{path}: expected a table, found {found}: {remedy}")
        return read_table(path, columns, texts)

    def write_table(self, name: str, frame: pd.DataFrame, *, csv: bool = True) -> None:
        """Write a result table as Parquet and, with `csv` unless it is long, as CSV, and record it in the run.

        A table of more than :data:`CSV_ROWS` rows, which no spreadsheet opens, is written as Parquet alone. Equal
        frames give equal bytes.
        """
        files: dict[str, bytes | memoryview] = {f"tables/{name}.parquet": table_bytes(name, frame)}
        if csv and len(frame) <= CSV_ROWS:
            files[f"tables/{name}.csv"] = csv_bytes(frame)
        self.write_files([*files], files.values())

    def write_file(self, name: str, data: bytes | memoryview) -> None:
        """Write a result other than a table (a figure, LaTeX, the report) to a path in the run, and record it."""
        self.write_files([name], [data])

    def write_files(
        self, names: Sequence[str], data: Iterable[bytes | memoryview], *, synced: bool = True
    ) -> None:
        """Write results to paths in the run, after recording all of them in ``run.json``."""
        self._names |= {*names}
        self._record_results(self._names | {*self.written(self._stage)})
        for name, content in zip(names, data, strict=True):
            write_bytes(self.path / name, content, synced=synced)

    @contextlib.contextmanager
    def writing(self, stage: str) -> Iterator[None]:
        """Record results written inside a ``with`` block as a stage's; at its end remove the stage's earlier others.

        A result is recorded in ``run.json`` before it is written, so that no file is left that the run does not know.
        A stage that fails removes nothing.
        """
        self._stage, self._names = stage, set()
        try:
            yield
            self.remove_files(sorted({*self.written(stage)} - self._names))
            self._record_results(self._names)
        finally:
            self._stage, self._names = BESIDE, set()

    def _record_results(self, names: Iterable[str]) -> None:
        """Record paths in ``run.json`` as the results of the current stage, unless they are recorded already."""
        recorded = sorted(names)
        if self.meta and recorded != self.written(self._stage):
            self.write_meta(written={**(self.meta.get("written") or {}), self._stage: recorded})

    def written(self, stage: str | None = None) -> list[str]:
        """Return the paths in the run, sorted, of the results that a stage has written; None: all stages."""
        recorded = self.meta.get("written")
        by_stage = recorded if isinstance(recorded, dict) else {}
        lists = [names for key, names in by_stage.items() if stage in (None, key) and isinstance(names, list)]
        return sorted({name for names in lists for name in map(str, names) if _RESULT.fullmatch(name)})

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove files by their paths in the run, if they exist and are not links or reached through a link."""
        try:
            for name in names:
                if outermost_link(self.path, name) is None and (self.path / name).is_file():
                    (self.path / name).unlink()
        except OSError as error:
            raise disk_error(Path(error.filename or str(self.path)), error) from None


@lru_cache(maxsize=1)  # images that are asked for one after another stand in one file
def _encoded_images(file: Path, mtime_ns: int) -> dict[str, bytes | None]:
    """Return the encoded image, or None, of each sample of a part file; cached by modification time."""
    columns = read_part(file, ["sample_id", "image"]).to_pydict()
    return {
        sample: (image or {}).get("bytes") for sample, image in zip(columns["sample_id"], columns["image"])
    }


@lru_cache(maxsize=10_000)
def _unreadable_samples(file: Path, mtime_ns: int) -> frozenset[str]:
    """Return the ids of a part file's samples whose image cannot be read; cached by modification time."""
    unreadable = set[str]()
    for sample, data in _encoded_images(file, mtime_ns).items():
        try:
            read_image(data)
        except ValueError:
            unreadable.add(sample)
    return frozenset(unreadable)
