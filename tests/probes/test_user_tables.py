"""One sheet in every spelling that spreadsheets give it is read as one; what could be read in two ways is refused."""

import codecs
from unicodedata import normalize

import pandas as pd
import pytest

from analysis.methods.audit.design import numbers
from analysis.studies.labels.form import open_labels, read_columns, spelled_alike
from probes.errors import UserError
from probes.user_tables import find_file, open_table

KNOWN = ("file", "profession", "file_name", "share", "annotator")
HEAD = ["file", "profession", "share", "note"]
ROWS = [["a.png", "infirmière", "0.5", ""], ["b.png", "CEO; boss, chief", "12", "NA"]]
CELLS = pd.DataFrame(ROWS, columns=HEAD)


def lines(delimiter=",", end="\n", head=HEAD, decimal="."):
    def quoted(cell):
        return f'"{cell}"' if set(cell) & set(",;\t") else cell

    rows = [[cell.replace("0.5", f"0{decimal}5") for cell in row] for row in ROWS]
    return "".join(delimiter.join(map(quoted, row)) + end for row in [head, *rows])


def stored(path):
    """A number is a number there, and what is empty is missing."""
    table = CELLS.assign(share=[0.5, 12.0], note=[None, "NA"])
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_excel(path, index=False)


SPELLINGS = {
    "comma": ("t.csv", lines()),
    "semicolons": ("t.csv", lines(";")),
    "sep=;": ("t.csv", "sep=;\r\n" + lines(";", "\r\n")),
    "tabs": ("t.tsv", lines("\t")),
    "byte-order mark": ("t.csv", codecs.BOM_UTF8.decode() + lines()),
    "NFD": ("t.csv", normalize("NFD", lines())),
    "header": ("t.csv", lines(head=["File", " profession ", "SHARE", "note"])),
    "empty lines and columns": ("t.csv", lines(end=",,\n\n,,,,,\n")),
    "JSONL": ("t.jsonl", CELLS.to_json(orient="records", lines=True, force_ascii=False)),
    "Parquet": ("t.parquet", stored),
    "XLSX": ("t.xlsx", stored),
    "DataFrame": ("", CELLS.assign(share=[0.5, 12], note=[None, "NA"])),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_sheet_in_all_its_spellings(spelling, tmp_path):
    name, content = SPELLINGS[spelling]
    if callable(content):
        pytest.importorskip("openpyxl")
        content(tmp_path / name)
    elif isinstance(content, str):
        (tmp_path / name).write_bytes(content.encode())
    table = open_table(tmp_path / name if name else content, KNOWN)
    found = table.text_cells(HEAD)
    assert found.assign(share="").to_numpy().tolist() == CELLS.assign(share="").to_numpy().tolist()
    assert numbers(found["share"], table.path, "a number", 0, 99) == [0.5, 12]
    assert table.notes(HEAD[:3]) == [
        *(
            ["t.csv: columns taken: 'File' as file, ' profession ' as profession, 'SHARE' as share"]
            * (spelling == "header")
        ),
        f"{table.path.name}: columns not used: note",
    ]


def test_names_of_ours_are_taken_and_no_two_for_one(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("File-Name,setting ,Setting,,rating\na,b,c,d,e\n")
    table = open_table(path, ("file_name",))
    assert list(table.columns) == ["file_name", "setting", "Setting", "rating"]
    assert table.notes(["file_name"]) == [
        "t.csv: columns taken: 'File-Name' as file_name",
        "t.csv: columns not used: setting , Setting, one without a name, rating",
    ]
    with pytest.raises(UserError, match="every column once, got 'setting ' and 'Setting' twice: rename one"):
        open_table(path, ("setting",))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["0,5", "1,234"], [0.5, 1.234]),
        (["12,50"], [12.5]),
        (["1,234"], None),
        (["0,5", "0.5"], None),
    ],
)
def test_a_comma_is_a_point_where_it_cannot_part_thousands(cells, expected, tmp_path):
    column = pd.Series(
        cells, [f"line {number}" for number in range(2, 2 + len(cells))], name="share", dtype=object
    )
    if expected is not None:
        assert numbers(column, tmp_path, "a number", -9e9, 9e9) == expected
        return
    with pytest.raises(
        UserError, match=r"line 2: expected numbers as 0\.5 or 1500 in `share`, got .*write it without"
    ):
        numbers(column, tmp_path, "a number", -9e9, 9e9)


def test_a_file_is_found_by_the_paths_of_windows_and_of_a_mac(tmp_path):
    path = tmp_path / "flux" / normalize("NFD", "infirmière.png")
    path.parent.mkdir()
    path.touch()
    assert find_file("flux\\infirmière.png", "line 2", tmp_path / "none", tmp_path) == path
    assert (
        find_file("flux\\nurse.png", "line 2", tmp_path) is None and find_file("", "line 2", tmp_path) is None
    )
    odd = tmp_path / "a\\b.png"
    odd.touch()
    assert find_file("a\\b.png", "line 2", tmp_path) == odd


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,label\n1\n", "line 2: expected 2 fields, got 1"),
        ("a,a\n1,2\n", "expected every column once, got 'a' twice"),
        ('a,label\n"1,2\n', "line 2: expected a CSV file, got a damaged one"),
        ("a\n\xff\n", "line 2: expected UTF-8 text"),
        ("a,label,annotator\n1,yes,r\n1,no,\n", "line 3: expected the name of the annotator, found none"),
    ],
)
def test_a_sheet_that_is_none_is_refused_in_a_line(text, said, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=said) as caught:
        labels(path)
    assert str(caught.value).startswith(str(path)) and len(str(caught.value)) <= 400


def labels(path):
    """What the file holds, and a line on its columns."""
    table = open_labels(path, ["a"])
    columns = {name: name if name in table.columns else "" for name in ("a", "label", "annotator")}
    table.print_notes(filter(None, columns.values()))
    return read_columns(table, columns)


def test_the_index_of_a_sheet_are_its_lines_and_other_columns_are_said(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfA,label,image,hue\r\n"two\r\nlines",yes,x,1\r\n\r\n\'=1,,y,2\r\n')
    sheet = labels(path)
    assert sheet["a"].tolist() == ["two\r\nlines", "=1"]
    assert list(sheet.index) == [f"{path}: line 3", f"{path}: line 5"]
    assert sheet["annotator"].tolist() == ["", ""]
    assert capsys.readouterr().err == "a.csv: columns taken: 'A' as a\na.csv: columns not used: image, hue\n"


def test_names_are_alike_but_for_case_spaces_and_unicode_form():
    others = [normalize("NFD", "zoë k"), "Zoë  K ", "ＺＯË K"]
    assert spelled_alike(["Zoë K", "Zoë K", *others, "Ann", " "]) == dict.fromkeys(others, "Zoë K")
