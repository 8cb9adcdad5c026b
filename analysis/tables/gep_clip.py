"""What CLIP says of a run's attributes: C, CC and CLS from stored embeddings of images and sentences.

The observe stage embeds the images and, once for a run, the sentences of `probes.prompts.audit`
(`analysis.observe.features.texts`); everything else is arithmetic, so that other references or ensembles cost no model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics import gep_estimates as estimates
from probes.config import Config
from probes.errors import UserError
from probes.prompts import audit
from probes.prompts.audit import Sentences
from probes.store import Run


def clip_readings(run: Run) -> dict[str, pd.DataFrame]:
    """Return what C, CC and CLS say: by source ``sample_id``, ``attribute``, ``value``; nothing without embeddings.

    A variant's readings are called by its name: ``CLS no_ensemble``; those that it leaves as they are stand there once.

    Raises
    ------
    UserError
        Images were embedded, and the sentences that the configuration asks for were not.
    """
    kind, asked = f"features/{run.config.gep.clip}", audit.texts(run.config)
    if not asked or not run.parts(kind):
        return {}
    table = pd.concat([part.to_pandas() for part in run.part_tables(kind, ["sample_id", "vector"])])
    table = table[table["vector"].notna()]
    if not len(table):
        return {}
    text, images = _texts(run, f"{kind}_texts", asked), np.stack(table["vector"].to_list())
    names = list(audit.attributes(run.config))
    return {
        source: pd.DataFrame(
            {
                "sample_id": np.repeat(table["sample_id"].to_numpy(object), len(names)),
                "attribute": np.tile(np.array(names, object), len(table)),
                "value": value.ravel(),
            }
        )
        for source, value in _all_ways(run.config, images, text).items()
    }


def _all_ways(config: Config, images: NDArray, text: Mapping[str, NDArray]) -> dict[str, NDArray[np.float64]]:
    """The readings of the configuration, then those of its variants that differ from them in what they are made of."""
    made: dict[str, NDArray[np.float64]] = {}
    known = set()
    for variant in ("", *config.gep.variants):
        options, asked = audit.options_of(config, variant), audit.sentences(config, variant)
        assert asked is not None
        of = {"C": (), "CC": asked.reference, "CLS": (asked.positive, asked.negative, options.ensemble)}
        fresh = [name for name, what in of.items() if (name, what) not in known]
        known |= set(of.items())
        values = estimated(images, asked, text, seeds=range(options.ensemble), which=fresh)
        made |= {f"{name} {variant}".strip(): value for name, value in values.items()}
    return made


def estimated(
    images: NDArray,
    asked: Sentences,
    texts: Mapping[str, NDArray],
    *,
    seeds: Sequence[int] = estimates.SEEDS,
    which: Collection[str] = ("C", "CC", "CLS"),
) -> dict[str, NDArray[np.float64]]:
    """Return C, CC and CLS of every image and attribute, shape (n_images, n_attributes) each.

    Parameters
    ----------
    images : ndarray, shape (n_images, n_dimensions)
    asked : Sentences
    texts : mapping of str to ndarray, shape (n_dimensions,)
        Embedding of each sentence.
    seeds : sequence of int
        Of the classifiers of each attribute.
    which : collection of str
        Of the three, those that are made.
    """
    names = np.stack([texts[name] for name in asked.names])
    made = {}
    if "C" in which:
        made["C"] = estimates.similarity(images, names)
    if "CC" in which:
        made["CC"] = estimates.calibrated_similarity(images, names, texts[asked.reference])
    if "CLS" in which:
        negative = np.stack([texts[one] for one in asked.negative])
        trained = [
            estimates.train(np.stack([texts[one] for one in positive]), negative, seeds=seeds)
            for positive in asked.positive
        ]
        made["CLS"] = np.column_stack([one.probabilities(images) for one in trained])
    return made


def _texts(run: Run, kind: str, asked: Sequence[str]) -> dict[str, NDArray]:
    """Embeddings of the sentences that a run holds."""
    tables = (
        [part.to_pandas() for part in run.part_tables(kind, ["text", "vector"])] if run.parts(kind) else []
    )
    known = {row.text: np.asarray(row.vector) for table in tables for row in table.itertuples()}
    missing = [text for text in asked if text not in known]
    if missing:
        raise UserError(
            f"{run.path / kind}: expected embeddings of {len(asked)} sentences, found none of {missing[0]!r}: run"
            " --stage observe again"
        )
    return known
