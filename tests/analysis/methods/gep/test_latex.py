"""The paper's tables as LaTeX: filled with the published numbers, they show what the paper prints, cell by cell."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest

from analysis.methods.gep.method import GEP, METHOD
from analysis.report.section import documents
from analysis.tables.spec import Measured
from lab.papers.tables import FOLDER
from probes.config.schema import Config

MODELS = ("CogView2", "DALLE-2", "Stable Diffusion")
ENDS = {"low": -1.0, "high": 1.0}
WORDS = {"first": "woman", "second": "man", "kind": "contrast"}
SOURCE = {"GEP_human": "human", "GEP_C": "C", "GEP_CC": "CC", "GEP_CLS": "CLS"}


def published(name):
    return pd.read_csv(FOLDER / f"gep2023_{name}.csv")


def agreement(table):
    """Rows of ``gep_agreement`` or of that of artificial sets, of columns of a published table."""
    table = table.rename(columns={"kendall_tau": "tau"})
    keys = [name for name in ("model", "setting", "n_examples", "estimator") if name in table]
    long = table.melt(keys, ["tau", "mcc"], var_name="measure")
    return long.assign(
        source=long["estimator"].map(SOURCE), labels="human", n=15, ceiling=1.0, **ENDS, **WORDS
    )


@pytest.fixture(scope="module")
def tables():
    """What the paper prints, as a run of each model would hold it."""
    frequencies = published("table11_12_frequencies").rename(columns={"gender": "indicator"})
    vectors = published("table13_14_gep_vectors").assign(source="human", **WORDS)
    scores = published("table6_scores").assign(unit="contexts", **WORDS)
    scores[["floor", "p_value", "p_adjusted", "debiased", "low", "high"]] = 0.01
    contexts = published("table15_by_context").assign(source="human", **WORDS)
    contexts = contexts.rename(columns={"gep_human": "score", "context_number": "context"})
    auc = published("table16_auc_by_attribute")
    fit = published("table3").assign(indicator="woman", low=20.0, high=40.0)
    made = {}
    for model in MODELS:
        own = {
            "gep_frequencies": frequencies.assign(source="human"),
            "gep_vector": vectors,
            "gep_score": scores.assign(source=scores["estimator"].map(SOURCE)),
            "gep_contexts": contexts,
            "gep_auc": auc.assign(source=auc["estimator"].str.removesuffix("-f_a"), labels="human"),
            "gep_agreement": agreement(published("table4_correlations")),
            "gep_artificial_agreement": agreement(published("table5_artificial")),
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
        found[name.removeprefix("gep_table")] = heads[1:], {row[0]: row[1:] for row in rows}
    return found


def test_every_table_of_such_columns_is_made(printed):
    latex = [pivot.latex for spec in GEP for pivot in spec.pivots if pivot.latex]
    assert len(latex) == 9 and len(printed) == len(latex) + 2  # frequencies and vectors by setting


def wide(table, index, columns, values, digits=2):
    return table.pivot(index=index, columns=columns, values=values).map(lambda value: f"{value:.{digits}f}")


@pytest.mark.parametrize(("number", "setting"), [(11, "neutral"), (12, "explicit")])
def test_frequencies(printed, number, setting):
    heads, rows = printed[f"{number}_frequencies"]
    table = published("table11_12_frequencies").query("setting == @setting")
    expected = wide(table, ["model", "gender"], "attribute", "frequency")[heads[:-1]]
    assert {name: row[:-1] for name, row in rows.items()} == {
        f"{setting}, {model}: {word}": list(row)
        for (model, word), row in zip(expected.index, expected.to_numpy())
    }
    averages = published("printed_averages").set_index(["model", "quantity"])["average"]
    for name, row in rows.items():  # of frequencies of two decimals, which are rounded
        model, word = name.removeprefix(f"{setting}, ").split(": ")
        assert float(row[-1]) == pytest.approx(averages[model, f"frequency, {setting}, {word}"], abs=0.0101)


@pytest.mark.parametrize(("number", "setting"), [(13, "neutral"), (14, "explicit")])
def test_vectors(printed, number, setting):
    heads, rows = printed[f"{number}_vectors"]
    table = published("table13_14_gep_vectors").query("setting == @setting")
    expected = wide(table, "model", "attribute", "difference").replace("-0.00", "0.00")
    assert heads == list(dict.fromkeys(table["attribute"])) and len(heads) == 15
    assert rows == dict(zip(expected.index, expected[heads].to_numpy().tolist()))


def test_scores_and_their_ranks(printed):
    heads, rows = printed["03_scores"]
    fits = printed["03_clip_scores"]
    for row in published("table3").itertuples():
        score = rows[f"{row.model}, {row.setting}, woman − man, by human"][heads.index("score")]
        assert float(score) == row.gep_human
        cell = fits[1][f"{row.model}: woman"][fits[0].index(row.setting)]
        assert cell == f"{row.clip_score:.1f} [20.0, 40.0]"
    heads, rows = printed["06_estimates"]
    scores = published("table6_scores").set_index(["setting", "model"])
    for estimator, own in scores.groupby("estimator"):
        name = next(name for name in rows if name.split()[0] == SOURCE[estimator])
        own = own.loc[[tuple(head.split(", ")) for head in heads]]
        assert [int(re.search(r"#(\d)", cell)[1]) for cell in rows[name]] == own["rank"].tolist()
        assert [float(cell.split()[0]) for cell in rows[name]] == own["score"].tolist()
        if estimator != "GEP_human":  # the paper cuts 0.4667
            tau = float(name.split()[-1].removesuffix(")"))
            assert tau == pytest.approx(own["estimator_kendall_tau"].iloc[0], abs=0.0011)


def test_correlations_and_contexts(printed):
    heads, rows = printed["04_correlation"]
    for own in published("table4_correlations").itertuples():
        cells = rows[f"{own.setting}, {own.model}: {SOURCE[own.estimator]} by human"]
        assert cells[heads.index("tau")] == f"{own.kendall_tau:.3f} [-1.00, 1.00] (at most 1.00)"
        assert cells[heads.index("mcc")].startswith(f"{own.mcc:.3f} [")
        assert cells[heads.index("attributes")] == "15"
    heads, rows = printed["05_artificial"]
    for own in published("table5_artificial").itertuples():
        cells = rows[f"{own.model}: {SOURCE[own.estimator]} by human"]
        assert cells == [
            f"{own.kendall_tau:.3f} [-1.00, 1.00]",
            str(own.n_examples),
            f"{own.mcc:.3f} [-1.00, 1.00]",
        ]
    heads, rows = printed["15_contexts"]
    for (setting, model), own in published("table15_by_context").groupby(["setting", "model"]):
        place = heads.index(f"{setting}, {model}")
        assert [row[place] for row in rows.values()] == [f"{value:.2f}" for value in own["gep_human"]]
