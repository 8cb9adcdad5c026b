"""Another observer than that of objects enters the stage without a line of it being changed."""

from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pytest

from analysis.observe import stage
from analysis.observe.observer import KEY, Observer
from probes.runs.parts import read_part
from probes.runs.run import Run
from tests.analysis.observe.stored_images import image_run

COLUMNS = [
    ("sample_id", pa.string()),
    ("triplet", pa.int32()),
    ("seed", pa.int64()),
    ("indicator", pa.string()),
]


class Brightness(Observer):
    """The mean of each image, as a feature; see `analysis.observe.observer.Observer`."""

    name = "brightness"
    schemas = MappingProxyType(
        {"features": pa.schema([*COLUMNS, ("mean", pa.float32()), ("fault", pa.string())])}
    )
    batch, device_type = 2, "cpu"
    resolved = MappingProxyType({"objects": False})

    def __init__(self, scale=1.0):
        self.scale, self.loaded, self.batches = scale, False, []

    def fields(self):
        return {"observe.scale": self.scale}

    def load(self):
        self.loaded = True

    def observe(self, images):
        assert self.loaded
        self.batches.append(len(images))
        means = [None if image.pixels is None else self.scale * image.pixels.mean() for image in images]
        return {
            "features": [
                {**image.key, "mean": mean, "fault": image.fault} for image, mean in zip(images, means)
            ]
        }

    def record(self, run):
        return {"brightness": {"images": len(run.samples())}}


@pytest.fixture
def run(tmp_path):
    images = [np.full((8, 8, 3), 10 * index, np.uint8) for index in range(7)]
    images[4] = b"no image"
    return image_run(tmp_path / "run", images, ["a person"], part=3)


def test_another_observer(run, monkeypatch):
    observer = Brightness()
    monkeypatch.setattr(stage, "observers", lambda config: ([observer], {}))
    assert stage.observe(run, progress=False) == ""
    assert observer.batches == [2, 1, 2, 1, 1]  # a batch never reaches over parts
    rows = [row for part in run.parts("features") for row in read_part(part).to_pylist()]
    assert [row["mean"] for row in rows] == [0, 10, 20, 30, None, 50, 60]
    assert [bool(row["fault"]) for row in rows] == [False] * 4 + [True] + [False] * 2
    assert [[row[name] for name in KEY] for row in rows] == run.samples()[list(KEY)].values.tolist()
    meta = Run.open(run.path).meta
    assert meta["brightness"] == {"images": 7, "threads": 1, "workers": 1}
    assert meta["config"]["resolved"]["observe"] == {**run.resolved["observe"], "objects": False}
