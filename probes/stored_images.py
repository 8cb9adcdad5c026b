"""Images of a run, decoded: by the id of their sample, one part file in memory at a time. Needs no torch."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from PIL import Image

from probes import storage
from probes.errors import UserError
from probes.parts import read_part


def read_image(data: bytes | None) -> Image.Image:
    """Decode a stored image, RGB.

    Raises
    ------
    ValueError
        Why it cannot be read.
    """
    if not data:
        raise ValueError("no bytes are stored")
    try:
        return Image.open(io.BytesIO(data)).convert("RGB")
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        # the address of the stream that Pillow names differs from run to run
        text = re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
        raise ValueError(text.splitlines()[0][:120] if text else type(error).__name__) from error


def _unreadable(data: bytes | None) -> bool:
    try:
        read_image(data)
    except ValueError:
        return True
    return False


class StoredImages:
    """Images in the part files ``samples/`` of a run; the encoded images of the file read last are kept.

    Parameters
    ----------
    path : pathlib.Path
        The run directory.
    files : callable
        Gives its part files of samples, in order.
    """

    def __init__(self, path: Path, files: Callable[[], list[Path]]):
        self.path, self._files = path, files
        self._file_of: dict[str, Path] = {}  # of each sample, its part file
        self._last: tuple[Path | None, dict[str, bytes | None]] = (
            None,
            {},
        )  # the file read last, and what it holds

    def images(self, sample_ids: Iterable[str]) -> list[Image.Image]:
        """Images in the order asked for; :meth:`probes.store.Run.images` says what it raises."""
        wanted = list(sample_ids)
        self._look_up(wanted)
        data: dict[str, bytes | None] = {}
        for file in sorted({self._file_of[sample] for sample in wanted}):
            if self._last[0] != file:
                self._last = (file, dict(self._encoded(file)))
            data |= {sample: self._last[1][sample] for sample in wanted if self._file_of[sample] == file}
        try:
            return [read_image(data[sample]) for sample in wanted]
        except ValueError as error:
            broken = next(sample for sample in wanted if _unreadable(data[sample]))
            raise UserError(
                f"{self.path}: {broken}: expected an image, got `{error}`: leave it out"
            ) from None

    def unreadable(self, files: Iterable[Path]) -> set[str]:
        """The samples in some part files whose image cannot be decoded, by trying each."""
        return {sample for file in files for sample, data in self._encoded(file) if _unreadable(data)}

    def _look_up(self, wanted: Sequence[str]) -> None:
        """Know the part file of each sample asked for, or say which is not there."""
        if any(sample not in self._file_of for sample in wanted):
            self._file_of = {
                sample: file
                for file in self._files()
                for sample in read_part(file, ["sample_id"])["sample_id"].to_pylist()
            }
        for sample in wanted:
            if sample not in self._file_of:
                raise UserError(
                    f"{self.path}: expected a sample of this run, got {sample!r}: see run.samples()"
                )

    def _encoded(self, file: Path) -> Iterator[tuple[str, bytes | None]]:
        """Yield id and encoded image of each sample of a part file."""
        with storage.once(file, whole=True):
            table = read_part(file, ["sample_id", "image"])
        for sample, image in zip(table["sample_id"].to_pylist(), table["image"].to_pylist()):
            yield sample, (image or {}).get("bytes")
