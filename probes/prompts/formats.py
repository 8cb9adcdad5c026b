"""Format of a file of captions, by its content; and its decoded lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from probes.errors import UserError
from probes.json_text import parse_json
from probes.paths import require_regular
from probes.prompts.user_tables import plain_name

FORMATS = {
    "coco": "COCO's captions_*.json",
    "textcaps": "TextCaps_*.json",
    "karpathy": "dataset_coco.json, dataset_flickr30k.json",
    "flickr30k": "Flickr30k's token file",
    "flickr30k-csv": "Flickr30k's results.csv, with bars",
    "gcc": "Conceptual Captions: caption, tab, address",
    "text": "a caption a line",
    "csv": "a header, then rows",
    "tsv": "a header, then rows, with tabs",
    "json": "a list of captions, or of objects",
    "jsonl": "an object a line",
    "xlsx": "a header, then rows, in a spreadsheet",
    "parquet": "a column of captions",
}
# Looked for in this order where no column is named.
CAPTION_COLUMNS = (
    *("caption", "captions", "sentence", "sentences", "text", "raw", "caption_str", "comment", "prompt"),
)
_HEAD = 1 << 16  # bytes by which a format is recognised
_TOKEN = re.compile(r"\S+#\d+\t")
_ADDRESS = re.compile(r"[^\t]+\thttps?://\S+\s*$")


def recognise(path: Path, column: str | None = None) -> str:
    """Return the format of a file of captions, one of `FORMATS`; that a column was named speaks for a table."""
    head = _head(path)
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:4] == b"PK\3\4" and path.suffix.lower() == ".xlsx":
        return "xlsx"
    if b"\0" in head or head[:2] == b"\x1f\x8b":
        raise UserError(
            f"{path}: expected captions as text or Parquet, got binary data: unpack it, or name another file"
        )
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        raise UserError(f"{path}: expected captions, got an empty file: name another")
    if start[:1] in b"{[":
        return _kind_of_json(path, start)
    lines = start.decode("utf-8", "replace").splitlines()
    return _kind_of_text(path, lines if len(head) < _HEAD else lines[:-1] or lines, column)


def _head(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise UserError(f"{path}: expected a file of captions, got a folder: name the file")
        require_regular(path)
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except FileNotFoundError:
        raise UserError(f"{path}: expected a file of captions, found none: check the path") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): check its permissions") from None


def _kind_of_json(path: Path, start: bytes) -> str:
    first, _, rest = start.partition(b"\n")
    if path.suffix in (".jsonl", ".ndjson") or (rest.lstrip()[:1] == b"{" and _is_object(first)):
        return "jsonl"
    if start[:1] == b"[":
        return "json"
    names = [
        (match.start(), kind)
        for key, kind in (("annotations", "coco"), ("data", "textcaps"), ("sentences", "karpathy"))
        if (match := re.search(rf'"{key}"\s*:\s*\['.encode(), start))
    ]
    if names:
        return min(names)[1]
    # COCO's `images` stand before its `annotations`, farther down than the head
    return "coco" if re.search(rb'"(?:info|images|licenses)"\s*:', start) else _one_object(path, first, rest)


def _one_object(path: Path, first: bytes, rest: bytes) -> str:
    if not rest.strip() and _is_object(first):
        return "jsonl"
    raise UserError(
        f"{path}: expected captions, got JSON that is none of coco, textcaps, karpathy: name its `format`"
    )


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except ValueError:
        return False


def _kind_of_text(path: Path, lines: list[str], column: str | None) -> str:
    few = [line for line in islice(lines, 20) if line.strip()]
    if all(_TOKEN.match(line) for line in few):
        return "flickr30k"
    if all(_ADDRESS.match(line) for line in few):
        return "gcc"
    header = few[1] if few[0].casefold().startswith("sep=") and len(few) > 1 else few[0]
    if "|" in header and "comment" in header:
        return "flickr30k-csv"
    for form, delimiter in (("tsv", "\t"), ("csv", ","), ("csv", ";")):
        names = {plain_name(name.strip().strip('"')) for name in header.split(delimiter)}
        known = not {*map(plain_name, [column] if column else CAPTION_COLUMNS)}.isdisjoint(names)
        if (known and (len(names) > 1 or path.suffix == f".{form}")) or path.suffix == f".{form}":
            return form
    return "csv" if column else "text"


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file with their numbers from 1, without their ends."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{path}: line {number}: expected UTF-8 text, got byte {error.start + 1} of the line"
                        " undecodable: save as UTF-8"
                    ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): check its permissions") from None
