"""Images of a run, decoded: by the id of their sample, one part file in memory at a time. Needs no torch."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from probes.errors import UserError
from probes.paths import require_regular
from probes.runs.image_faults import PIXELS
from probes.runs.parts import read_part

# the formats of pictures; Pillow knows more, and has Ghostscript run what an EPS says
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM")
Stamp = tuple[str, int, int]  # of a file: its name, when it was written (ns), its bytes
KINDS = ("PNG", "JPEG", "WebP", "GIF", "BMP", "TIFF", "AVIF")  # the usual ones, as messages name them
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)  # of EXIF: which way up a camera was held


def read_image(data: bytes | None) -> Image.Image:
    """Decode a stored image, RGB, as a viewer shows it: the right way up, of several frames the first, without alpha.

    16 bits of grey are taken as the 8 upper ones.
    """
    with _opened(data) as image:
        image.load()
        if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
            grey = (np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8)
            return Image.fromarray(grey).convert("RGB")
        if image.mode in ("I", "F"):
            raise ValueError(f"expected 8 or 16 bits a channel, got 32 (mode {image.mode})")
        # what a camera says of itself may be damaged where its picture is not
        with contextlib.suppress(Exception):
            image = ImageOps.exif_transpose(image)
        return image.convert("RGB")


def find_images(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files below a folder that are images by their content, whatever their endings, and the others.

    Both are sorted; hidden files are in neither.
    """
    files = sorted(
        file
        for file in folder.rglob("[!.]*")
        if not require_regular(file).is_dir()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    images = {file for file in files if read_header(file)[0]}
    return [file for file in files if file in images], [file for file in files if file not in images]


def unread_note(folder: Path, files: Sequence[Path]) -> str:
    """Return the line on files of a folder that are no images; empty where there are none."""
    shown = ", ".join(file.relative_to(folder).as_posix() for file in files[:5])
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""
    what = f"no {', '.join(KINDS[:-1])} or {KINDS[-1]} image by content"
    return f"{folder}: {len(files)} not read, {what}: {shown}{more}" if files else ""


def read_header(data: bytes | Path) -> tuple[str, tuple[int, int] | None]:
    """Return format and size, width and height as `read_image` gives them, of an image by its first bytes.

    Nothing of what is no image.
    """
    try:
        with _opened(data, most=None) as image:
            width, height = image.size
            kind = (image.format or "").lower()
            with contextlib.suppress(Exception):  # as above
                if kind != "tiff" and image.getexif().get(_ORIENTATION) in _SIDEWAYS:
                    width, height = height, width
            return kind, (width, height)
    except ValueError:
        return "", None


@contextlib.contextmanager
def _opened(data: bytes | Path | None, most: int | None = PIXELS) -> Iterator[Image.Image]:
    """An image of one of `FORMATS`; whatever Pillow says of it is one kind of error, and no warning."""
    if not data:
        raise ValueError("no bytes are stored")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            file = io.BytesIO(data) if isinstance(data, bytes) else data
            with Image.open(file, formats=_formats()) as image:
                if most and image.width * image.height > most:
                    raise ValueError(f"expected at most {most:,} pixels, got {image.width} x {image.height}")
                yield image
    except Exception as error:  # of damaged and of hostile images Pillow raises errors of every kind
        # the address of the stream that Pillow names differs from run to run
        text = re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
        raise ValueError(text.splitlines()[0][:120] if text else type(error).__name__) from error


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)  # not every Pillow is built with each


def stamp(file: Path) -> Stamp | None:
    """Return path, modification time (ns) and size of a file, by which changes show; None if missing."""
    try:
        state = file.stat()
    except OSError:
        return None
    return str(file), state.st_mtime_ns, state.st_size


def _unreadable(data: bytes | None) -> bool:
    try:
        read_image(data)
    except ValueError:
        return True
    return False


class StoredImages:
    """Images in the part files ``samples/`` of a run; the encoded images of the file read last are kept."""

    def __init__(self, path: Path, samples: Callable[[], Iterable[tuple[Path, Sequence[str]]]]):
        self.path, self._samples = path, samples
        self._file_of: dict[str, Path] = {}  # of each sample, its part file
        # the file read last, and what it holds
        self._last: tuple[Path | None, dict[str, bytes | None]] = (None, {})
        self._unreadable: dict[Stamp, set[str]] = {}  # of each file that was looked through, as it was

    def images(self, sample_ids: Iterable[str]) -> list[Image.Image]:
        """Images in the order asked for; :meth:`probes.runs.store.Run.images` says what it raises."""
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
        """The samples in some part files whose image cannot be decoded, by trying each.

        A file is looked through once, and again where its size or time has changed.
        """
        found: set[str] = set()
        for file in files:
            key = stamp(file)  # before it is read: what is written meanwhile is read again
            own = None if key is None else self._unreadable.get(key)
            if own is None:
                own = {sample for sample, data in self._encoded(file) if _unreadable(data)}
            if key is not None:
                self._unreadable[key] = own
            found |= own
        return found

    def _look_up(self, wanted: Sequence[str]) -> None:
        """Know the part file of each sample asked for, or say which is not there."""
        if any(sample not in self._file_of for sample in wanted):
            self._file_of = {sample: file for file, samples in self._samples() for sample in samples}
        for sample in wanted:
            if sample not in self._file_of:
                raise UserError(
                    f"{self.path}: expected a sample of this run, got {sample!r}: see run.samples()"
                )

    def _encoded(self, file: Path) -> Iterator[tuple[str, bytes | None]]:
        """Yield id and encoded image of each sample of a part file."""
        table = read_part(file, ["sample_id", "image"])
        for sample, image in zip(table["sample_id"].to_pylist(), table["image"].to_pylist()):
            yield sample, (image or {}).get("bytes")
