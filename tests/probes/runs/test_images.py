"""Images of a run are found by their ids, and what cannot be decoded is named."""

import numpy as np
import pytest

from probes.errors import UserError
from probes.runs import parts, schemas
from probes.runs.rows import png_bytes
from probes.runs.run import Run


def _write(run, part, encoded):
    empty = dict.fromkeys(schemas.SAMPLES.names)
    rows = [
        {**empty, "sample_id": name, "image": {"bytes": data, "path": name}} for name, data in encoded.items()
    ]
    parts.write_part(run.part_path("samples", part), rows, schemas.SAMPLES, parts.identity(part, {}))


def test_images_in_any_order(tmp_path):
    run = Run(tmp_path, {"format": 4, "status": "generated"})
    pixels = {f"s{i}": np.full((4, 4, 3), 40 * i / 255) for i in range(5)}
    for part, names in enumerate((["s0", "s1"], ["s2", "s3", "s4"])):
        _write(run, part, {name: png_bytes(pixels[name]) for name in names})
    order = ["s4", "s0", "s3", "s0"]
    assert [image.getpixel((0, 0))[0] for image in run.images(order)] == [160, 0, 120, 0]
    assert "image" not in run.samples()
    assert list(run.samples(["sample_id", "image"])) == ["sample_id", "image"]
    with pytest.raises(UserError, match="got 'nobody'"):
        run.image("nobody")
