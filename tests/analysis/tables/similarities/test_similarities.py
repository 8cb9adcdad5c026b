"""Similarities from stored parts to matrices: against pandas' melt and pivot, with holes, and with damaged parts."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.tables.similarities.pictures import image_similarities
from analysis.tables.similarities.stored import StoredSimilarities
from analysis.tables.stage import measure
from probes.errors import UserError
from probes.runs.run import Run
from tests.analysis.synthetic_run import write_run

NAMES = ["neutral", "feminine", "masculine", "individual", "human"]


@pytest.fixture(scope="module")
def stored(run):
    return StoredSimilarities(run)


def captured(path, columns, number=0, **index):
    """A part of captures made elsewhere, a row a prompt of one pair."""
    rows = len(next(iter(columns.values())))
    fixed = {
        "triplet": pa.array(np.arange(rows) + 10 * number, pa.int32()),
        "seed": pa.array(np.zeros(rows), pa.int64()),
        "pair": ["neutral-feminine"] * rows,
        "first": ["neutral"] * rows,
        "second": ["feminine"] * rows,
        "timesteps": pa.array([[9.0, 5.0]] * rows, pa.list_(pa.float32())),
    }
    file = path / "captures" / f"part-{number:05d}.parquet"
    file.parent.mkdir(exist_ok=True)
    own = {name: pa.array(values, pa.list_(pa.float32())) for name, values in columns.items()}
    pq.write_table(pa.table({**fixed, **index, **own}), file)


@pytest.fixture
def empty(tmp_path):
    """A run of pictures that were compared, whose captures are still to be written."""
    path = write_run(tmp_path / "made", prompts=2, seeds=1, steps=2)
    for file in (path / "captures").iterdir():
        file.unlink()
    run = Run.open(path)
    measure(run)
    return run


def test_matrices_are_the_pivot(stored, pairs):
    families = stored.families()
    assert len(families) == pairs[["space", "metric"]].drop_duplicates().shape[0]
    for family in families:
        own = pairs[(pairs["space"] == family.space) & (pairs["metric"] == family.metric)]
        assert family.values.dtype == np.float32
        assert set(family.pairs) == set(own["pair"])
        for number, pair in enumerate(family.pairs):
            wide = own[own["pair"] == pair].pivot(
                index=["triplet", "seed"], columns=["site", "step"], values="value"
            )
            wide = wide[list(zip(family.columns["site"], family.columns["step"]))].to_numpy()
            np.testing.assert_array_equal(family.values[number].reshape(wide.shape), wide)


def test_captures_with_holes(empty):
    captured(empty.path, {"unet.mid:cosine": [[0.5, 0.25], None], "latent.final:cosine": [[0.5], []]})
    captured(empty.path, {"unet.mid:cosine": [[0.1, 0.2, 0.3]], "latent.final:cosine": [[0.75]]}, 1)
    pairs = StoredSimilarities(empty)
    assert pairs.timesteps == {0: 9.0, 1: 5.0}
    expected = np.float32([[0.5, 0.25, np.nan], [np.nan] * 3, [0.1, 0.2, 0.3]])
    family = pairs.family("denoising", "unet.mid", "cosine")
    np.testing.assert_array_equal(family.pair("neutral", "feminine", NAMES)[:, 0], expected)
    end = pairs.family("denoising", "latent.final", "cosine").pair("neutral", "feminine", NAMES)
    assert np.isnan(end[:, 0, 0]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("vae.post_quant:cosine", "expected one value per pair, got 2"),
        ("unet.mid:euclid", "metric: expected one of"),
    ],
)
def test_columns_that_are_no_site_are_named(empty, column, message):
    captured(empty.path, {column: [[0.5, 0.25], None]})
    with pytest.raises(UserError, match=f"captures: .*{message}.*: mend or delete the column"):
        StoredSimilarities(empty).families()


def test_a_row_that_stands_in_two_parts_is_refused(empty):
    captured(empty.path, {"unet.mid:cosine": [[0.5], [0.25]]})
    captured(empty.path, {"unet.mid:cosine": [[0.5]]}, 1, triplet=pa.array([1], pa.int32()))
    with pytest.raises(UserError, match="got triplet 1, seed 0, neutral-feminine twice"):
        StoredSimilarities(empty)


def test_a_part_with_other_columns_is_refused(empty):
    captured(empty.path, {"unet.mid:cosine": [[0.5]]})
    captured(empty.path, {"unet.mid:cosine": [[0.5]], "unet.up.0:cosine": [[0.5]]}, 1)
    with pytest.raises(UserError, match=r"part-00001.parquet: expected the columns of part-00000.parquet"):
        StoredSimilarities(empty)


def test_a_pair_of_unknown_indicators_is_refused(empty):
    captured(empty.path, {"unet.mid:cosine": [[0.5]]}, pair=["neutral-dog"])
    with pytest.raises(UserError, match="got 'neutral-dog'"):
        StoredSimilarities(empty)


def test_a_damaged_part_is_named(tmp_path):
    run = Run.open(write_run(tmp_path / "run", prompts=4, steps=30, part_triplets=2))
    measure(run)
    file = run.part_path("captures", 1)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(bytes(data))
    with pytest.raises(UserError, match=r"captures.part-00001.parquet: expected a whole part"):
        StoredSimilarities(run).families()


def test_a_run_that_is_not_measured_says_so(tmp_path):
    run = Run.open(write_run(tmp_path / "run", prompts=2, steps=2))
    with pytest.raises(UserError, match="run --stage measure"):
        StoredSimilarities(run)


# Pictures


def test_pictures_of_different_size_are_named(run):
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"]).head(2)

    def load(ids):
        first, second = run.images(ids)
        return [first, second.resize((32, 32))]

    with pytest.raises(
        UserError, match="t00000-s0-neutral, t00000-s0-feminine: pictures: expected two of one size"
    ):
        image_similarities(samples, load, NAMES)
