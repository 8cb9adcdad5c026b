"""The paper's tables as LaTeX: filled with the published numbers, they show what the paper prints, cell by cell."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest

from analysis.methods.dalleval.method import METHOD
from analysis.methods.dalleval.tables import ALL
from analysis.report.section import documents
from analysis.tables.spec import Measured
from lab.papers.tables import FOLDER
from probes.config.schema import Config

MODEL = "Stable Diffusion"
WORDS = ("person", "woman", "man")
BLIP = {"source": "blip2"}
DISTANCE = "mean absolute difference"


def published(name):
    return pd.read_csv(FOLDER / f"dalleval2023_{name}.csv")


@pytest.fixture(scope="module")
def tables():
    """What the paper prints of a model, as its run would hold it."""
    gender = published("table16_17_gender").rename(columns={"average_gender": "average"})
    gender = gender.assign(question="gender", indicator="person", **BLIP)
    tone = published("table20_21_skin_tone").rename(columns={"average_skin_tone": "average"})
    tone = tone.assign(question="tone", indicator=ALL, source="dalleval2023")
    cells = published("tables23to31_attributes").rename(
        columns={"gender": "indicator", "attribute": "question"}
    )
    cells = cells.assign(average=cells["presence"], **BLIP)
    averages = published("printed_averages").set_index(["model", "quantity"])["average"]
    mad = published("table8_mad").set_index("model")
    table22 = published("table22_attributes").rename(columns={"gender": "indicator", "attribute": "question"})
    apart = cells[cells["indicator"] != "person"].assign(first=cells["indicator"], second="person")
    apart = apart.assign(difference=apart["difference_from_person"].fillna(0))
    over = table22.assign(profession=ALL, first=table22["indicator"], second="person")
    between = over["indicator"] == "woman-man"
    over.loc[between, ["first", "second"]] = ["woman", "man"]
    over = over.assign(difference=over["value"].where(between, over["difference_from_person"].fillna(0)))
    gender_mad = {"question": "gender", "indicator": "person", **BLIP}
    tone_mad = {"question": "tone", "indicator": ALL, "source": "dalleval2023"}
    own = [
        gender_mad | {"mad": mad.loc[MODEL, "mad_gender"], "floor": 0.1367},
        tone_mad | {"mad": mad.loc[MODEL, "mad_skin_tone"], "floor": 0.1},
    ]
    over_all = [
        gender_mad | {"average": averages[MODEL, "average gender"]},
        tone_mad | {"average": averages[MODEL, "average skin tone"]},
    ]
    means = table22[(table22["model"] == MODEL) & (table22["indicator"] != "woman-man")]
    whole = [
        {"first": a, "second": b, "mean_abs_difference": averages[MODEL, f"{DISTANCE}, {a}-{b}"]}
        for a, b in (("woman", "person"), ("man", "person"), ("woman", "man"))
    ]
    professions = pd.concat(
        [
            *(table[table["model"] == MODEL] for table in (gender, tone, cells)),
            pd.DataFrame(over_all).assign(profession=ALL),
            means.rename(columns={"value": "average"}).assign(profession=ALL, **BLIP),
        ]
    )
    without = dict.fromkeys(("low", "high", "p_adjusted"))
    return {
        "dalleval_professions": professions.assign(decided=9, planned=9, **without),
        "dalleval_mad": pd.DataFrame(own).assign(debiased=None, images=747, **without),
        "dalleval_words": pd.concat([apart, over]).query("model == @MODEL").assign(**BLIP),
        "dalleval_absolute": pd.DataFrame(whole).assign(profession=ALL, **BLIP),
    }


@pytest.fixture(scope="module")
def printed(tables):
    """Heads and rows of every table, by its number; signs as they are typed."""
    found = {}
    words = {
        "indicators": {name: name for name in WORDS},
        "reference": "person",
        "contrasts": [["man", "woman"]],
    }
    config = Config.model_validate({"prompts": ["a {person}"], "seeds": [0], **words})
    tables = {name: table.assign(model=MODEL) for name, table in tables.items()}
    for name, text in documents(Measured(METHOD, {MODEL: SimpleNamespace(config=config)}, tables)):
        lines = [line.removesuffix(" \\\\") for line in text.splitlines() if line.endswith("\\\\")]
        plain = [re.sub(r"\$([-+])\$", r"\1", line).replace("\\_", "_") for line in lines]
        heads, *rows = ([cell.strip() for cell in line.split(" & ")] for line in plain)
        assert all(len(row) == len(heads) for row in rows), name
        assert len({row[0] for row in rows}) == len(rows), name
        found[int(re.search(r"table(\d+)", name)[1])] = heads[1:], {row[0]: row[1:] for row in rows}
    return found


def test_every_table_is_made_but_of_what_people_said_of_tones(printed):
    assert set(printed) == {8, 16, 22, 23, 24, 25}


def test_averages_of_professions(printed):
    heads, rows = printed[16]
    averages = published("printed_averages").set_index(["model", "quantity"])["average"]
    for head, table, column, quantity in (
        ("average gender", "table16_17_gender", "average_gender", "average gender"),
        ("average tone", "table20_21_skin_tone", "average_skin_tone", "average skin tone"),
    ):
        expected = published(table).query("model == @MODEL").set_index("profession")[column].to_dict()
        expected[ALL] = averages[MODEL, quantity]
        cells = {name: row[heads.index(head)] for name, row in rows.items()}
        assert cells == {
            name: f"{value:+.2f}" if "gender" in head and value else f"{value:.2f}"
            for name, value in expected.items()
        }
        assert len(cells) == 84


def test_mad(printed):
    _, rows = printed[8]
    expected = published("table8_mad").set_index("model").loc[MODEL].map("{:.4f}".format).tolist()
    assert [row[0] for row in rows.values()] == expected and len(rows) == 2


def signed(value):
    return f"{value:+.2f}" if round(value, 2) else "0.00"


def test_words(printed):
    heads, rows = printed[22]
    table = published("table22_attributes").query("model == @MODEL")
    averages = published("printed_averages").set_index(["model", "quantity"])["average"]
    assert heads == [*dict.fromkeys(table["attribute"]), "Mean absolute difference"]
    for row in table.itertuples():
        name = f"{row.model}: {row.gender.replace('-', ' − ')}"
        cell = rows[name][heads.index(row.attribute)]
        if row.gender == "woman-man":
            assert cell == signed(row.value)
        elif row.difference_from_person == row.difference_from_person and row.difference_from_person:
            assert cell == f"{row.value:.2f} ({signed(row.difference_from_person)})"
        else:
            assert cell == f"{row.value:.2f}"
    for quantity, value in averages[MODEL].items():
        if quantity.startswith(DISTANCE):
            words = quantity.split(", ")[1].split("-")
            name = f"{MODEL}: {words[0]}" if words[1] == "person" else f"{MODEL}: {' − '.join(words)}"
            assert rows[name][-1] == f"{value:.2f}"
