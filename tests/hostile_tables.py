"""Tables and captions of others, made hostile by seeded mutations: cells, columns, types, names, metadata and bytes."""

import csv
import datetime
import io
import json
import pickle
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

DEEP = "[" * 100_000
WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
CANARY = "touched"  # a file that is there if anything of others was run


class Payload:
    """Unpickled it makes a file."""

    def __reduce__(self):
        return open, (CANARY, "w")


PICKLE = pickle.dumps(Payload())
POSTSCRIPT = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(%pipe%touch {CANARY}) (w) file\n".encode()
TEXTS = [
    *(
        "",
        " ",
        "\0",
        "\t",
        "\r\n",
        "x" * 70_000,
        DEEP,
        '{"a": ' * 50_000,
        "9" * 5000,
        "=1+1",
        "-1",
        "+1",
        "@x",
    ),
    *(
        "'=1",
        "\u202e",
        "\ud800",
        "é漢👩",
        "nan",
        "inf",
        "1e999",
        "NULL",
        "{person}",
        "{}",
        "%s",
        "a woman",
        "person",
    ),
    *("\x1b[31m", "[]", '["a person"]', '[["a person"]]', "null", "true", f"=cmd|'/C touch {CANARY}'!A0"),
]
PATHS = [
    *(
        "/dev/zero",
        "/dev/stdin",
        "/dev/null",
        "pipe.png",
        "to_pipe.png",
        "loop.png",
        ".",
        "..",
        "/",
        "~nosuch/a",
    ),
    *(
        "~",
        "a/" * 3000,
        "x" * 300,
        "a.png\0",
        "a.png/b",
        "no.png",
        "a.png",
        "cut.png",
        "odd.png",
        "s3://b/x.png",
    ),
    *(
        "http://localhost:1/a.png",
        "file:///dev/zero",
        "../pictures/a.png",
        "metadata.csv",
        "evil.py",
        "A.PNG",
    ),
]
VALUES = [
    *(None, True, 0, -1, 3, 2**63, -(2**63), 2**70, 1.0, 2.5, float("nan"), float("inf"), -1e308),
    *([], ["a"], [["a"]], [1, None], {}, {"a": 1}, {"bytes": 1}, {"path": 5}, {"bytes": "x", "path": None}),
    *(
        b"",
        b"\xff\xfe",
        PICKLE,
        POSTSCRIPT,
        datetime.date(9999, 12, 31),
        Decimal("1.5"),
        datetime.timedelta(1),
    ),
    *(datetime.datetime(1, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.time(1, 2)),
]


def rows_of_images(count=2):
    """A good table of so many triplets and two seeds, whose images are two files."""
    return {
        "file": ["a.png", "b.png", "a.png"] * 2 * count,
        "prompt": [
            f"a {w} in a {t}" for t in ("hat", "car", "bus")[:count] for _ in (0, 1) for w in WORDS.values()
        ],
        "indicator": [*WORDS] * 2 * count,
        "seed": [seed for _ in range(count) for seed in (0, 7) for _ in WORDS],
        "triplet": [f"t{number}" for number in range(count) for _ in range(6)],
    }


FORMS = {"neutral": ["person", "people"], "feminine": ["woman", "women"], "masculine": ["man", "men"]}
CAPTIONS = [
    "A person in a hat",
    "Two people on a bus",
    "A person's dog, at night",
    "A dog",
    "a person and a café",
]


def mutated(draw, table):
    """Columns after a few mutations of cells, rows and names; returns names and columns, of which two may be alike."""
    names, columns = [*table], [list(values) for values in table.values()]
    for _ in range(draw.choice([0, 0, 1, 1, 1, 2])):
        if not names or not columns[0]:
            break
        at, row = draw.randrange(len(names)), draw.randrange(len(columns[0]))
        kind = draw.choice(["cell"] * 6 + ["column", "drop", "twice", "rename", "row", "lost", "none"])
        if kind == "cell":
            columns[at][row] = draw.choice(draw.choice([TEXTS, PATHS, VALUES]))
        elif kind == "column":
            columns[at] = [draw.choice(draw.choice([TEXTS, PATHS, VALUES]))] * len(columns[at])
        elif kind == "drop":
            del names[at], columns[at]
        elif kind == "twice":
            names.append(names[at]), columns.append(list(columns[draw.randrange(len(names) - 1)]))
        elif kind == "rename":
            names[at] = draw.choice([*TEXTS, "image", "path", "caption", "a.b", "prompt_id", names[-1]])
        elif kind == "row":
            for values in columns:
                values.append(values[row])
        elif kind == "lost":
            for values in columns:
                del values[row]
        else:
            columns = [[] for _ in columns]
    return names, columns


def as_text(value):
    """A cell of CSV."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return "" if value is None else json.dumps(value) if isinstance(value, (list, dict)) else str(value)


def as_csv(names, columns, delimiter=","):
    """A CSV table in UTF-8; halves of surrogate pairs as three bytes, which no UTF-8 has."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(names)
    writer.writerows([as_text(value) for value in row] for row in zip(*columns))
    return text.getvalue().encode("utf-8", "surrogatepass")


def as_jsonl(names, columns):
    """An object a line; one value in a hundred is nested without end."""
    lines = []
    for row in zip(*columns):
        fields = [f"{json.dumps(name)}: {_json(value)}" for name, value in zip(names, row)]
        lines.append("{" + ", ".join(fields) + "}")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _json(value):
    if isinstance(value, str) and value in (DEEP, "9" * 5000):
        return value
    return json.dumps(as_text(value) if isinstance(value, bytes) else value, default=str)


TYPES = [
    *(
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary(4),
        pa.null(),
    ),
    *(
        pa.int8(),
        pa.int64(),
        pa.uint64(),
        pa.float16(),
        pa.float64(),
        pa.bool_(),
        pa.decimal128(30, 4),
        pa.date32(),
    ),
    *(pa.date64(), pa.timestamp("ns"), pa.timestamp("us", "Mars/Phobos"), pa.time64("ns"), pa.duration("ns")),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64()), pa.list_(pa.string())),
    *(pa.list_(pa.list_(pa.string())), pa.map_(pa.string(), pa.string()), pa.struct([("bytes", pa.int64())])),
    *(pa.struct([("bytes", pa.binary()), ("path", pa.string())]), pa.struct([("path", pa.int64())])),
    *(
        pa.struct([("bytes", pa.string()), ("path", pa.binary())]),
        pa.struct([]),
        pa.month_day_nano_interval(),
    ),
    pa.struct([pa.field("bytes", pa.binary()), pa.field("bytes", pa.binary())]),
]


def as_parquet(draw, names, columns, metadata=None):
    """A Parquet file: columns of the types of their values or of others, footer and pages as they come."""
    arrays = []
    for values in columns:
        kind = draw.choice(TYPES) if draw.random() < 0.06 else None
        arrays.append(_array(draw, values, kind))
    table = pa.Table.from_arrays(arrays, [name.replace("\ud800", "?") for name in names])
    extra = draw.choice([None, None, {b"ARROW:schema": b"AAAA"}, {b"pandas": DEEP.encode()}, {b"x": PICKLE}])
    if metadata or extra:
        table = table.replace_schema_metadata({**(metadata or {}), **(extra or {})})
    data = io.BytesIO()
    try:
        pq.write_table(
            table,
            data,
            compression=draw.choice(["none", "snappy", "zstd"]),
            row_group_size=draw.choice([2, 100]),
        )
    except (pa.ArrowException, ValueError):  # what Parquet has no words for
        pq.write_table(pa.table({}), data)
    return data.getvalue()


def _array(draw, values, kind):
    for wanted in (kind, None):
        try:
            if wanted is None:
                return pa.array([_storable(value) for value in values])
            return pa.array(values, wanted)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
    if kind is not None and draw.random() < 0.7:  # of the type, without values
        return pa.nulls(len(values), kind)
    return pa.array([as_text(value).encode("utf-8", "replace").decode() for value in values])


def _storable(value):
    return value.replace("\ud800", "?") if isinstance(value, str) else value


def spoiled(draw, data):
    """Bytes, of which one in three has some flipped, cut, put in or taken off the end."""
    data = bytearray(data)
    for _ in range(draw.choice([0, 0, 0, 0, 0, 1, 3])):
        at = draw.randrange(len(data) + 1)
        act = draw.choice(["flip", "flip", "cut", "put", "end", "nul", "tail"])
        if act == "flip" and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif act == "cut":
            del data[at : at + draw.randint(1, 30)]
        elif act == "put":
            data[at:at] = draw.choice(
                [b'"', b"\n", b"\0", b"\xff", b",", b"\t", b"[", b"{", b"\r", draw.randbytes(4)]
            )
        elif act == "end":
            del data[at:]
        elif act == "nul":
            data[at : at + 4] = bytes(4)
        elif len(data) > 40:  # the footer of a Parquet file says where everything is
            data[-draw.randint(5, 40)] ^= 1 << draw.randrange(8)
    return bytes(data)


def hostile_table(number):
    """Name, bytes and options (`images` of a configuration) of a foreign table by its number."""
    draw = random.Random(f"table {number}")
    table = rows_of_images(draw.choice([1, 2]))
    for name in ("seed", "triplet"):
        if draw.random() < 0.3:
            del table[name]
    names, columns = mutated(draw, table)
    ending = draw.choice(["csv", "tsv", "jsonl", "parquet", "parquet", "parquet"])
    if ending == "parquet" and "file" in names and draw.random() < 0.4:
        at = names.index("file")
        names[at] = "image"
        columns[at] = [draw.choice([{"bytes": PNG, "path": None}, {"bytes": None, "path": "a.png"}])] * len(
            columns[at]
        )
    write = {"csv": as_csv, "tsv": lambda *both: as_csv(*both, "\t"), "jsonl": as_jsonl}
    data = as_parquet(draw, names, columns) if ending == "parquet" else write[ending](names, columns)
    options = draw.choice(
        [{}, {}, {}, {"seed": None}, {"any_words": True}, {"triplet": None}, {"image": "image"}]
    )
    return f"table.{ending}", spoiled(draw, data), options


PNG = bytes.fromhex(  # 16 x 16 pixels of two colours
    "89504e470d0a1a0a0000000d4948445200000010000000100103000000253d6d2200000006504c5445000000ffffffa5d99fdd"
    "0000000e49444154789c6360200d307c00000082000115f2a5290000000049454e44ae426082"
)


def layouts(captions):
    """Captions as each published layout has them: a file's name and its text."""
    said = [as_text(one) for one in captions]
    quoted = [json.dumps(one) for one in said]
    entries = ", ".join(f'{{"image_id": 1, "caption": {one}}}' for one in quoted)
    return {
        "coco.json": f'{{"info": {{}}, "images": [], "annotations": [{entries}]}}',
        "textcaps.json": '{"data": [' + ", ".join(f'{{"caption_str": {one}}}' for one in quoted) + "]}",
        "karpathy.json": '{"images": [{"sentences": ['
        + ", ".join(f'{{"raw": {one}}}' for one in quoted)
        + "]}]}",
        "list.json": f"[{', '.join(quoted)}]",
        "results.token": "".join(f"1.jpg#{i}\t{one}\n" for i, one in enumerate(said)),
        "results.csv": "image_name| n| comment\n"
        + "".join(f"1.jpg| {i}| {one}\n" for i, one in enumerate(said)),
        "gcc.tsv": "".join(f"{one}\thttp://x.example/a.jpg\n" for one in said),
        "captions.txt": "\n".join(said),
    }


def hostile_captions(number):
    """Name, bytes and options (`prompts` of a configuration) of a file of captions by its number."""
    draw = random.Random(f"captions {number}")
    table = {"caption": CAPTIONS * draw.choice([1, 3]), "id": list(range(5))}
    table["id"] = [*range(len(table["caption"]))]
    kind = draw.choice(
        ["csv", "tsv", "jsonl", "parquet", "parquet", "stored", "stored", "layout", "layout", "raw"]
    )
    options = draw.choice(
        [{}, {}, {}, {}, {"column": "caption"}, {"column": "id"}, {"format": draw.choice(FORMATS)}]
    )
    if kind == "stored":
        table = {
            "id": [f"c{i}" for i in range(3)],
            **{n: [f"a {w} in a hat, {i}" for i in range(3)] for n, w in WORDS.items()},
        }
    names, columns = mutated(draw, table)
    if kind in ("csv", "tsv"):
        data = as_csv(names, columns, "\t" if kind == "tsv" else ",")
        if draw.random() < 0.2:
            data = b'raw,n\n"' + draw.choice([DEEP, '[""a person""]', '["', "[1]"]).encode() + b'",1\n'
    elif kind == "jsonl":
        data = as_jsonl(names, columns)
    elif kind in ("parquet", "stored"):
        made = {name: [word, f"{word}s"] for name, word in (("neutral", "person"), ("feminine", "woman"))}
        whole = {"neutral": ["person", "people"], "feminine": ["woman", "women"], "masculine": ["man", "men"]}
        said = draw.choice(
            [json.dumps(whole)] * 4
            + [DEEP, '{"neutral": 5}', json.dumps(made), "[]", "\xff", "{", "9" * 5000]
        )
        metadata = {b"triptych.prompts": said.encode("latin-1")} if kind == "stored" else None
        data = as_parquet(draw, names, columns, metadata)
    elif kind == "layout":
        at = names.index("caption") if "caption" in names else None
        name, text = draw.choice([*layouts(columns[at] if at is not None else []).items()])
        return name, spoiled(draw, text.encode("utf-8", "surrogatepass")), options
    else:
        data = b""
        for _ in range(draw.randint(1, 9)):
            part = draw.choice(PIECES)
            data += part.encode() * (draw.choice([1, 1, 1, 50_000]) if len(part) < 99 else 1)
        return f"raw.{draw.choice(['json', 'jsonl', 'txt'])}", spoiled(draw, data), options
    ending = {"stored": "parquet"}.get(kind, kind)
    return f"captions.{ending}", spoiled(draw, data), options


PIECES = [
    *("[", "{", "]", "}", ",", ":", '"caption": ', '"annotations": [', '"a person in a hat"', "NaN"),
    "9" * 5000,
]
FORMATS = [
    "triplets",
    "coco",
    "textcaps",
    "karpathy",
    "flickr30k",
    "gcc",
    "text",
    "csv",
    "json",
    "jsonl",
    "parquet",
]
