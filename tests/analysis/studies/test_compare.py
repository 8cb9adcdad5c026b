"""Runs compared with each other: by plain pandas and SciPy, with planted answers, and the lines that refuse."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.metrics.registry import headline_metrics
from analysis.studies.compare.differences import KEYS, TOO_FEW, compare, prompt_values
from analysis.studies.compare.summary import compared, summary, verdict
from analysis.tables.stage import measure
from probes.errors import UserError
from probes.runs.run import Run
from tests.analysis.access import faults
from tests.analysis.melted import melted
from tests.analysis.synthetic_run import write_run
from triptych.cli.main import command as command_of

main = command_of("compare")

SMALL = {"resamples": 200, "permutations": 500}


def measured(path, **options):
    run = Run.open(write_run(path, **{"prompts": 9, "steps": 2, **options}))
    measure(run)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [
        measured(folder / name, lean=lean, seed=seed)
        for name, lean, seed in (("one", 0.25, 1), ("other", -0.25, 2), ("like", 0.25, 3))
    ]


def made(values):
    keys = [("gap", "m-f", "image", "image", -1, f"q{i}") for i in range(values.shape[1])]
    columns = pd.MultiIndex.from_tuples(keys, names=KEYS)
    return pd.DataFrame(np.asarray(values, float), [f'{{"f": "{i}"}}' for i in range(len(values))], columns)


def by_name(runs):
    return {run.path.name: prompt_values(run) for run in runs}


def test_differences_by_plain_pandas_and_scipy(runs):
    values, differences = compare(by_name(runs[:2]), resamples=200, permutations=2**9)
    wide = []
    for run in runs[:2]:
        pairs = melted(run)
        rows = pairs[(pairs["site"] == "image") & (pairs["metric"] == "ssim")].astype(
            {"pair": str, "value": float}
        )
        wide.append(rows.pivot_table("value", "triplet", "pair"))
    gaps = [table["neutral-masculine"] - table["neutral-feminine"] for table in wide]
    row = differences[(differences["metric"] == "ssim") & (differences["kind"] == "gap")].iloc[0]
    assert (row["first"], row["second"], row["what"]) == ("one", "other", "masculine-feminine")
    assert row["difference"] == pytest.approx((gaps[1] - gaps[0]).mean())
    assert (row["value_first"], row["value_second"]) == pytest.approx((gaps[0].mean(), gaps[1].mean()))
    scipy = stats.permutation_test(
        ((gaps[1] - gaps[0]).to_numpy(),),
        np.mean,
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert row["p_value"] == pytest.approx(scipy.pvalue, abs=1e-12)
    assert row["ci_high"] < 0 and row["p_adjusted"] >= row["p_value"]
    own = values[(values["run"] == "one") & (values["metric"] == "ssim") & (values["kind"] == "gap")].iloc[0]
    table = runs[0].table("gap").query("metric == 'ssim'").iloc[0]
    assert own["value"] == pytest.approx(table["gap"])


def test_a_planted_difference_is_found_and_none_where_none_is(runs):
    _, differences = compare(by_name(runs), **SMALL)
    gaps = differences[differences["kind"] == "gap"].set_index(["first", "second"])
    assert (gaps.loc[("one", "other"), "p_adjusted"] < 0.05).all()
    assert (gaps.loc[("one", "like"), "p_adjusted"] > 0.05).all()
    assert len(gaps) == 3 * 4


@pytest.mark.parametrize("n", [5, 6])
def test_fewer_than_six_prompts_have_no_interval_and_too_few_is_said(n):
    values = np.random.default_rng(0).normal(size=(n, 1)) + 0.3
    tables = compare({"a": made(values), "b": made(values + np.arange(n)[:, None] + 1.0)}, **SMALL)
    for table in tables:
        ends = table[[name for name in table if name.endswith(("_low", "_high"))]]
        assert ends.isna().to_numpy().all() == (n < 6) == (table["reason"] == TOO_FEW).all()
    row = tables[1].to_dict("records")[0]
    text = verdict(row, headline_metrics()[0], ("m", "f"), 0.95)
    assert ("too few prompts to say (5 prompts, 6 are needed)" in text) == (n == 5)
    assert ("[" in text) == (n == 6)


ROW = {"first": "A", "second": "B", "what": "m-f", "n_prompts": 9, "reason": "", "p_adjusted": 0.01}


@pytest.mark.parametrize(
    ("values", "ends", "text"),
    [
        ((0.1, 0.3), (0.1, 0.4), "the gap of B is larger than that of A by 0.200 [0.100, 0.400]"),
        ((-0.3, -0.1), (0.1, 0.4), "the gap of B is smaller than that of A by 0.200 [0.100, 0.400]"),
        ((0.1, -0.1), (-0.4, -0.1), "lies farther towards f than that of A by 0.200 [0.100, 0.400]"),
        (
            (0.1, 0.3),
            (-0.1, 0.4),
            "cannot be told apart over all gaps compared; B less A is +0.200 [−0.100, 0.400]",
        ),
        ((0.2, 0.2), (np.nan, np.nan), "the gap is the same in A and B in every prompt (9 prompts)."),
    ],
)
def test_the_verdict_says_which_gap_is_larger(values, ends, text):
    one, other = values
    row = {**ROW, "value_first": one, "value_second": other, "difference": other - one}
    row |= {"ci_low": ends[0], "ci_high": ends[1], "reason": "" if one != other else "the same value"}
    (ssim,) = (metric for metric in headline_metrics() if metric.symbol == "SSIM")
    said = verdict(row, ssim, ("m", "f"), 0.95)
    assert said.startswith("m-f, SSIM: ") and text in said
    assert "\n" not in said and ("[" in said) == (not np.isnan(ends[0]))


def test_of_objects_those_that_differ_are_named(runs):
    rows = pd.DataFrame([{**ROW, "kind": "presence", "what": "masculine-feminine", "step": -1}] * 3).assign(
        metric=["ball", "kite", "tie"],
        difference=[0.1, -0.4, 0.2],
        ci_low=[-0.1, -0.6, 0.1],
        ci_high=[0.3, -0.2, 0.3],
    )
    text = "2 of 3 objects differ between A and B: kite −0.40 [−0.60, −0.20] and tie +0.20 [0.10, 0.30]."
    assert summary(rows, runs[0].config) == [f"masculine-feminine, presence of objects: {text}"]
    assert TOO_FEW in summary(rows.assign(n_prompts=5), runs[0].config)[0]


def test_quantities_that_one_run_lacks_are_left_out_and_missing_prompts_too():
    values = np.random.default_rng(0).normal(size=(8, 3))
    holed = values[:, :2] + np.arange(8)[:, None]
    holed[2, 1] = np.nan
    found, differences = compare({"a": made(values), "b": made(holed)}, **SMALL)
    assert len(differences) == 2 and len(found) == 4 and differences["n_prompts"].tolist() == [8, 7]
    assert differences["value_first"][1] == pytest.approx(np.delete(values[:, 1], 2).mean())
    with pytest.raises(UserError, match="a quantity that all of them have"):
        compare({"a": made(values), "b": made(values).iloc[:, :0]})


def test_the_command_line_writes_tables_and_forest(runs, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--resamples", "100", "--permutations", "100"]
    assert main([*(str(run.path) for run in runs[:2]), "--out", str(out), *options]) == 0
    text = capsys.readouterr().out
    assert "masculine-feminine, SSIM: the gap of other " in text and str(out) in text
    names = {
        "differences.csv",
        "values.csv",
        "comparison.html",
        "forest-masculine-feminine.pdf",
        "forest-masculine-feminine.png",
    }
    assert {file.name for file in out.iterdir()} == names
    page = (out / "comparison.html").read_text(encoding="utf-8")
    assert "masculine-feminine, SSIM: the gap of other " in page and "<svg" in page and faults(page) == []
    before = {name: (out / name).read_bytes() for name in names}
    main([*(str(run.path) for run in runs[:2]), "--out", str(out), *options])
    assert all((out / name).read_bytes() == data for name, data in before.items())


def test_a_contrast_that_the_runs_lack_is_named(runs):
    comparison = compared(runs[:2], **SMALL)
    assert comparison.plot("masculine-feminine").name == comparison.plot().name
    with pytest.raises(UserError, match="did you mean masculine-feminine"):
        comparison.plot("masculine-femine")


def test_other_prompts_and_indicators_and_the_same_run_are_one_line(runs, tmp_path, capsys):
    fewer = measured(tmp_path / "fewer", prompts=7)
    words = {
        "neutral": {"word": "person", "control": False},
        "feminine": {"word": "woman", "control": False},
        "masculine": {"word": "man", "control": False},
    }
    without = measured(tmp_path / "without", indicators=words)
    first = str(runs[0].path)
    for other, text in (
        (str(fewer.path), "fewer: expected the prompts of one, 2 stand in one of the two only"),
        (str(without.path), "without: expected the indicators of one"),
        (first, "expected different runs, got it twice"),
    ):
        assert main([first, other, "--out", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err
        assert text in error and error.count("\n") == 1
