"""The run directory: the one reader and writer of what a run stores. Needs no torch.

::

    runs/NAME/
      run.json           format, status, configuration, versions, model and its hash, times, files that the
                         stages wrote, and a checksum of all this
      triplets.yaml      the configuration as it was given
      samples/           part-00000.parquet: one row per image; its prompt's words, their characters and tokens
      captures/          one row per (triplet, seed, pair): similarities per site
      words/             one row per (sample, word): heat maps
      kept/              one row per (sample, site): activations, where `capture.keep` asked for them
      pooled/            one row per (sample, site, group of tokens): means, where `capture.pool` asked for them
      observed/, objects/  one row per image: tags searched for, found, dropped; one row per detection: label, score,
      box, mask
      traced/            one row per image drawn with patched activations, where `trace` asked for them
      tables/            results as CSV and Parquet; similarities of pictures, for later stages, as Parquet alone
      report.html        the page, with figures/
      README.md          a dataset card, by which `datasets` loads the run

Everything is written to a temporary file, fsynced and renamed. Tables made elsewhere (human labels, images
of a closed model) enter by the same door: any directory with a ``run.json`` and these columns can be read.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from probes.config.schema import Config
from probes.errors import UserError
from probes.paths import require_no_address
from probes.runs.image_faults import reason
from probes.runs.images import Stamp, StoredImages, stamp
from probes.runs.part_columns import matching_columns, require_names
from probes.runs.parts import (
    column_names,
    is_leftover,
    part_files,
    part_name,
    read_part,
)
from probes.runs.record import no_record, read_record
from probes.runs.results import ResultWriter
from probes.runs.selection import restricted
from probes.runs.tables import read_table

KINDS = ("samples", "captures", "words", "kept", "pooled", "observed", "objects", "traced")


class Run(ResultWriter):
    """One run directory; make it with :meth:`Run.open`.

    Attributes
    ----------
    path : pathlib.Path
        The run directory.
    meta : dict
        What ``run.json`` says.

    Examples
    --------
    ::

        run = Run.open("runs/triplets")
        run.samples()  # a DataFrame, one row per image
        run.image("t00000-s0-feminine")  # a PIL image
    """

    def __init__(self, path: Path, meta: dict[str, Any]):
        super().__init__(path, meta)
        self._images = StoredImages(self.path, self._sample_files)
        self._read: dict[str, tuple[list[Stamp | None], dict[str, pa.ChunkedArray]]] = {}  # by kind
        self._config: tuple[dict[str, Any], Config] | None = None

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Read a run directory."""
        require_no_address(path)
        path = Path(path)
        return cls(path, read_record(path / "run.json"))

    def __repr__(self) -> str:
        parts = f"{len(self.parts('samples'))} of {self.meta.get('parts', '?')} parts"
        return f"Run({str(self.path)!r}, status={self.status!r}, {parts})"

    @property
    def resolved(self) -> dict[str, Any]:
        """The configuration as resolved, as plain data, as ``run.json`` holds it; nothing where there is none yet."""
        return self.meta.get("config", {}).get("resolved", {})

    @property
    def config(self) -> Config:
        """The configuration as resolved: every default in place."""
        resolved = self.resolved
        if self._config is None or self._config[0] is not resolved:  # read again where it was written anew
            try:
                self._config = (resolved, Config.stored(resolved))
            except ValueError as error:
                raise no_record(self.path / "run.json", str(error)) from None
        return self._config[1]

    @property
    def status(self) -> str:
        """Status of the run: planned, generated, observed, measured or complete."""
        return self.meta["status"]

    def part_path(self, kind: str, part: int) -> Path:
        """Return where a part is, or will be."""
        return self.path / kind / part_name(part)

    def parts(self, kind: str) -> list[Path]:
        """The parts of a kind that are there and the run is to have, in order; where it was measured, those of then."""
        return restricted(self.meta, kind, part_files(self.path / kind))

    def samples(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The samples, one row per image; without the image itself unless `columns` names it."""
        if columns is None:
            columns = [name for name in column_names(self._files("samples")[0]) if name != "image"]
        if "image" in columns or not columns:
            return self._frame("samples", columns)
        return self._remembered("samples", columns)

    def samples_by_part(self, columns: Sequence[str]) -> Iterator[tuple[Path, pd.DataFrame]]:
        """Yield each part file of the samples with columns of its rows; see `samples`."""
        for file, table in zip(self._files("samples"), self.part_tables("samples", columns)):
            yield file, table.to_pandas()

    def _sample_files(self) -> Iterator[tuple[Path, list[str]]]:
        """Yield each part file of the samples with their ids; nothing where there is none."""
        if self.parts("samples"):
            for file, rows in self.samples_by_part(["sample_id"]):
                yield file, rows["sample_id"].tolist()

    def captures(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The similarities, one row per (triplet, seed, pair), a column of arrays per site and metric."""
        return self._frame("captures", columns)

    def words(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The heat maps, one row per (sample, word); ``heat`` is row-major, ``height`` x ``width``, as summed."""
        return self._frame("words", columns)

    def kept(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """What was kept of activations, one row per (sample, site); reshape ``values`` to ``shape``."""
        return self._frame("kept", columns)

    def observed(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the observe stage's record of each image, one row per image.

        Columns: :data:`probes.runs.schemas.OBSERVED`.
        """
        return self._frame("observed", columns) if columns is None else self._remembered("observed", columns)

    def objects(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The objects found, one row per detection; `probes.runs.coco_masks.decode` gives a mask as pixels.

        An image in which nothing was found has no row here; it has one in :meth:`observed`.
        """
        return self._frame("objects", columns)

    def traced(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The images of the trace, one row each, see :data:`probes.runs.schemas.TRACED`; all columns by default."""
        return self._frame("traced", columns)

    def part_tables(self, kind: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the parts of a kind one after another, so that no more than one need fit in memory."""
        files = self._files(kind)
        first = None
        for file in files:
            table = read_part(file, columns)
            first = table.slice(0, 0) if first is None else first
            table = matching_columns(file, table, files[0], first)
            self._require_known(kind, table)
            yield table

    def of_samples(
        self, kind: str, samples: Iterable[str], columns: Sequence[str] | None = None
    ) -> pd.DataFrame | None:
        """Rows of a kind of part that are of some samples; None where the run has no such part.

        They stand in part files that are called as those of their samples. Where one of the samples has no row there,
        all others are looked through, of which the column ``sample_id`` alone is read.
        """
        missing, files = set(samples), self.parts(kind)
        ids = pa.array(sorted(missing), pa.string())
        homes = {file.name for file, own in self._sample_files() if not missing.isdisjoint(own)}
        near = {file for file in files if file.name in homes} | set(files[:1])  # the first gives the columns
        tables: dict[Path, pa.Table] = {}
        for chosen in (near, {*files} - near):
            for file in sorted(chosen) if missing or not tables else ():
                here = read_part(file, ["sample_id"])["sample_id"]
                there = pc.is_in(here, ids)
                if pc.any(there).as_py() or file == files[0]:
                    tables[file] = read_part(file, columns).filter(there).replace_schema_metadata(None)
                    missing -= {*here.filter(there).to_pylist()}
        return (
            pa.concat_tables([tables[file] for file in files if file in tables]).to_pandas()
            if tables
            else None
        )

    def of_part(
        self, kind: str, part: str, samples: Iterable[str], columns: Sequence[str]
    ) -> pd.DataFrame | None:
        """Rows of one part file that are of some samples; None where the run has no such file."""
        file = self.path / kind / part
        if not file.exists() or not restricted(self.meta, kind, [file]):
            return None
        table = read_part(file, columns)
        wanted = pa.array(sorted(set(samples)), pa.string())
        return table.filter(pc.is_in(table["sample_id"], wanted)).replace_schema_metadata(None).to_pandas()

    def columns(self, kind: str) -> list[str]:
        """The columns that all parts of a kind have."""
        files = self._files(kind)
        first = column_names(files[0])
        for file in files[1:]:
            require_names(file, column_names(file), files[0], first)
        return first

    def _files(self, kind: str) -> list[Path]:
        files = self.parts(kind)
        if not files:
            not_requested = "" if kind in KINDS[:2] else " or was not asked for"
            raise UserError(
                f"{self.path / kind}: expected parts, found none: it is {self.status}{not_requested}, generate first"
            )
        return files

    def _frame(self, kind: str, columns: Sequence[str] | None) -> pd.DataFrame:
        return pa.concat_tables(list(self.part_tables(kind, columns))).to_pandas()

    def _remembered(self, kind: str, columns: Sequence[str]) -> pd.DataFrame:
        """Columns of all parts of a kind, kept while no file changes: to open a part takes longer than to read it."""
        stamps = [
            stamp(file) for file in self._files(kind)
        ]  # before they are read: what changes then is read again
        if None in stamps or stamps != self._read.get(kind, (None, {}))[0]:
            self._read[kind] = (stamps, {})
        known = self._read[kind][1]
        if missing := [name for name in columns if name not in known]:
            read = pa.concat_tables(self.part_tables(kind, missing))
            known |= {name: read[name] for name in missing}
        return pa.table({name: known[name] for name in columns}).to_pandas()

    def _require_known(self, kind: str, table: pa.Table) -> None:
        """Refuse rows of indicators that the run does not have."""
        names = set(self.config.indicators)
        pairs = {f"{first}-{second}" for first in names for second in names}
        for column, known in (("indicator", names), ("recipient", names), ("donor", names), ("pair", pairs)):
            there = names and column in table.column_names
            values = table[column].unique().drop_null().to_pylist() if there else ()
            unknown = [value for value in values if value not in known]
            if unknown:
                raise UserError(
                    f"{self.path / kind}: expected {column}s of {', '.join(sorted(names))!s:.120}, got"
                    f" {unknown[0]!r:.60}: mend the parts, or delete them and run again"
                )

    def image(self, sample_id: str) -> Image.Image:
        """One image, RGB."""
        return self.images([sample_id])[0]

    def images(self, sample_ids: Iterable[str]) -> list[Image.Image]:
        """Images in the order asked for."""
        return self._images.images(sample_ids)

    def unreadable(self) -> set[str]:
        """The samples whose image cannot be read: as the observe stage found, or by trying where it did not look."""
        seen = self.parts("observed")
        observed = self.observed(["sample_id", "status"]) if seen else None
        found = set() if observed is None else set(observed["sample_id"][observed["status"] == "unreadable"])
        names = {file.name for file in seen}
        return found | self._images.unreadable(
            [file for file in self.parts("samples") if file.name not in names]
        )

    def faults(self) -> dict[str, str]:
        """The samples that were at fault when they were drawn, and with what, see `probes.runs.image_faults`."""
        samples = self.samples(["sample_id", "fault"])
        samples = samples[samples["fault"].notna()]
        return dict(zip(samples["sample_id"], samples["fault"]))

    def left_out(self) -> dict[str, str]:
        """The samples that enter no mean, and why: those at fault, and those whose image cannot be read."""
        unreadable = dict.fromkeys(sorted(self.unreadable()), "image cannot be read")
        return unreadable | {sample: reason(fault) for sample, fault in self.faults().items()}

    def tables(self) -> list[str]:
        """The names of the result tables that are there."""
        files = (self.path / "tables").glob("*.parquet")
        return sorted(file.stem for file in files if not is_leftover(file.name))

    def _remedy(self, measured: bool) -> str:
        """Return how to come by a table that is not there."""
        if not measured:
            return "run --stage measure"
        if not self.parts("objects"):
            why = (
                "objects were switched off: set observe.objects to true,"
                if not self.config.observe.objects
                else "no object was looked for:"
            )
            return f"{why} run --stage observe and then --stage measure"
        return "choose one that is there, or run --stage measure again"

    def table(
        self, name: str, columns: Iterable[str] = (), texts: Collection[str] | None = None
    ) -> pd.DataFrame:
        """A result table by name, such as ``gap``; it must have the columns named, whatever else it has.

        `texts` are those of them that hold text, see `probes.runs.tables.read_table`.
        """
        path = self.path / "tables" / f"{name}.parquet"
        if not path.exists():
            there = self.tables()
            close = difflib.get_close_matches(name, there, 3, 0.3)
            found = f"{len(there)} others (such as {', '.join(close or there[:3])})" if there else "none"
            raise UserError(f"{path}: expected a table, found {found}: {self._remedy(bool(there))}")
        return read_table(path, columns, texts)
