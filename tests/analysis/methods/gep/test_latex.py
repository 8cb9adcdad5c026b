"""The paper's tables as LaTeX: filled with the published numbers, they show what the paper prints, cell by cell."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest

from analysis.methods.gep.method import EXAMPLES, GEP, METHOD
from analysis.report.section import documents
from analysis.tables.spec import Measured
from lab.papers.tables import FOLDER
from probes.config.schema import Config

MODELS = ("CogView2", "DALLE-2", "Stable Diffusion")
WORDS = {"first": "woman", "second": "man", "kind": "contrast"}
SOURCE = {"GEP_human": "human", "GEP_C": "C", "GEP_CC": "CC", "GEP_CLS": "CLS"}


def published(name):
    return pd.read_csv(FOLDER / f"gep2023_{name}.csv")


def agreement(table, size, measures):
    """Rows of ``gep_agreement`` or of its artificial sister, of columns of a published table."""
    long = table.melt(
        [name for name in ("model", "setting", "estimator") if name in table],
        list(measures),
        var_name="column",
    )
    long = long.assign(measure=long["column"].map(measures), source=long["estimator"].map(SOURCE))
    return long.assign(labels="human", **WORDS, **size)


@pytest.fixture(scope="module")
def tables():
    """What the paper prints, as a run of each model would hold it."""
    frequencies = published("table11_12_frequencies").rename(columns={"gender": "indicator"})
    vectors = published("table13_14_gep_vectors").assign(source="human", **WORDS)
    scores = published("table6_scores").assign(floor=0.01, unit="contexts", **WORDS)
    contexts = published("table15_by_context").assign(source="human", **WORDS)
    contexts = contexts.rename(columns={"gep_human": "score", "context_number": "context"})
    auc = published("table16_auc_by_attribute")
    fit = published("table3").assign(indicator="woman", n_images=80)
    real = published("table4_correlations")
    made = {}
    for model in MODELS:
        own = {
            "gep_frequencies": frequencies.assign(source="human"),
            "gep_vector": vectors,
            "gep_score": scores.assign(source=scores["estimator"].map(SOURCE)),
            "gep_contexts": contexts,
            "gep_auc": auc.assign(source=auc["estimator"].str.removesuffix("-f_a"), labels="human"),
            "gep_agreement": agreement(real, {"n": 15}, {"kendall_tau": "tau", "mcc": "mcc"}),
            "gep_clip_score": fit,
        }
        made[model] = {name: table[table["model"] == model] for name, table in own.items()}
    return made


def audits(tables):
    """Several models' tables as those of runs side by side."""
    run = SimpleNamespace(config=Config.model_validate({"prompts": ["a {person}"], "seeds": [0]}))
    joined = {
        name: pd.concat([own[name].assign(model=model) for model, own in tables.items()], ignore_index=True)
        for name in next(iter(tables.values()))
    }
    return Measured(METHOD, dict.fromkeys(tables, run), joined)


@pytest.fixture(scope="module")
def printed(tables):
    """Heads and rows of every table, by its number."""
    found = {}
    for name, text in documents(audits(tables)):
        lines = [line.removesuffix(" \\\\") for line in text.splitlines() if line.endswith("\\\\")]
        heads, *rows = ([cell.strip().replace("$-$", "-") for cell in line.split(" & ")] for line in lines)
        assert all(len(row) == len(heads) for row in rows), name
        found[int(re.search(r"table(\d+)", name)[1])] = heads[1:], {row[0]: row[1:] for row in rows}
    return found


def test_every_table_of_such_columns_is_made(printed):
    names = [pivot.latex for spec in GEP for pivot in spec.pivots if pivot.latex]
    described = {int(number) for name in names for number in re.findall(r"\d+", name)} | set(EXAMPLES)
    # artificial sets, a reference and values of single images are not there
    assert described - set(printed) == {5, 9, 10, 17, 18, 19, 21, 22, 23, 24}


def wide(table, index, columns, values, digits=2):
    return table.pivot(index=index, columns=columns, values=values).map(lambda value: f"{value:.{digits}f}")


@pytest.mark.parametrize(("number", "setting"), [(11, "neutral"), (12, "explicit")])
def test_frequencies(printed, number, setting):
    heads, rows = printed[number]
    table = published("table11_12_frequencies").query("setting == @setting")
    expected = wide(table, ["model", "gender"], "attribute", "frequency")[heads[:-1]]
    assert {name: row[:-1] for name, row in rows.items()} == {
        f"{model}: {word}": list(row) for (model, word), row in zip(expected.index, expected.to_numpy())
    }
    averages = published("printed_averages").set_index(["model", "quantity"])["average"]
    for name, row in rows.items():  # of frequencies of two decimals, which are rounded
        model, word = name.split(": ")
        assert float(row[-1]) == pytest.approx(averages[model, f"frequency, {setting}, {word}"], abs=0.0101)


@pytest.mark.parametrize(("number", "setting"), [(13, "neutral"), (14, "explicit")])
def test_vectors(printed, number, setting):
    heads, rows = printed[number]
    table = published("table13_14_gep_vectors").query("setting == @setting")
    expected = wide(table, "model", "attribute", "difference").replace("-0.00", "0.00")
    assert heads == list(dict.fromkeys(table["attribute"])) and len(heads) == 15
    assert rows == dict(zip(expected.index, expected[heads].to_numpy().tolist()))


def test_scores_and_their_ranks(printed):
    heads, rows = printed[3]
    assert heads == [f"{name} {what}" for name in ("Neutral", "Explicit") for what in ("GEP", "floor", "CS")]
    table = published("table3").set_index(["model", "setting"])
    for model, row in rows.items():
        for place, setting in ((0, "neutral"), (3, "explicit")):
            own = table.loc[(model, setting)]
            assert [row[place], row[place + 2]] == [f"{own['gep_human']:.2f}", f"{own['clip_score']:.1f}"]
    heads, rows = printed[6]
    scores = published("table6_scores")
    assert len(heads) == 7 and heads[-1] == "Tau"
    for estimator, own in scores.groupby("estimator"):
        row = rows[SOURCE[estimator]]
        assert [int(re.search(r"#(\d)", cell)[1]) for cell in row[:6]] == own["rank"].tolist()
        assert [float(cell.split()[0]) for cell in row[:6]] == own["score"].tolist()
        if estimator != "GEP_human":  # the paper cuts 0.4667
            assert float(row[6]) == pytest.approx(own["estimator_kendall_tau"].iloc[0], abs=0.0011)


def test_correlations_and_contexts(printed):
    table = published("table4_correlations").set_index(["estimator", "setting", "model"]).sort_index()
    heads, rows = printed[4]
    assert len(heads) == 6 and all(head.endswith("(15)") for head in heads)
    for source, row in rows.items():
        for head, cell in zip(heads, row):
            setting, model = head.removesuffix(" (15)").lower().split(", ")
            own = table.xs((f"GEP_{source}", setting)).rename(str.lower).loc[model]
            assert cell == f"{own['kendall_tau']:.3f}/{own['mcc']:.3f}"
    heads, rows = printed[15]
    assert heads == [str(number) for number in range(1, 17)]
    for (setting, model), own in published("table15_by_context").groupby(["setting", "model"]):
        assert rows[f"{setting.capitalize()}, {model}"] == [f"{value:.2f}" for value in own["gep_human"]]


def test_one_model_has_no_ranks_and_no_mix(tables):
    model, own = next(iter(tables.items()))
    texts = dict(documents(audits({model: own})))
    assert "gep_table18_mix" not in texts and "gep_table13_vectors" in texts
    assert "\\#" in texts["gep_table06_estimates"]  # of its two settings
