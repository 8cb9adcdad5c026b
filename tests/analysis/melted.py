"""Every similarity that a measured run holds as one tidy table, by pandas alone: tests hold the matrices against it."""

import pandas as pd
import pyarrow.parquet as pq

from analysis.metrics.registry import computed_from
from hooks.architectures.addresses import has_steps, space
from probes.runs.run import Run

INDEX = ["triplet", "seed", "pair"]


def melted(run: Run) -> pd.DataFrame:
    """A row a number: space, site, step (-1 where there is none), metric, triplet, seed, pair, value in float32."""
    files = sorted((run.path / "captures").glob("part-*.parquet"))
    parts = [pq.read_table(file).to_pandas() for file in files]
    tables = []
    if parts:
        captures = pd.concat(parts, ignore_index=True).drop(columns=["first", "second", "timesteps"])
        for column in captures.columns.difference(INDEX, sort=False):
            site, _, metric = column.rpartition(":")
            own = captures[[*INDEX, column]].explode(column).rename(columns={column: "value"})
            step = own.groupby(level=0).cumcount() if has_steps(site) else -1
            tables.append(own.assign(space=space(site), site=site, metric=metric, step=step))
    images = pd.read_parquet(run.path / "tables" / "image_similarities.parquet")
    images = images.melt(INDEX, list(computed_from("pictures")), "metric")
    tables.append(images.assign(space="image", site="image", step=-1))
    table = pd.concat(tables, ignore_index=True)
    return table.astype({"value": "float32", "triplet": "int64", "step": "int64"})
