"""What CLIP says of a run's attributes: C, CC and CLS from stored embeddings of images and sentences.

The observe stage embeds the images and, once for a run, the sentences of `probes.prompts.audit`
(`analysis.observe.features.texts`); everything else is arithmetic, so that other references or ensembles cost no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics import gep_estimates as estimates
from probes.errors import UserError
from probes.prompts.audit import Sentences, attributes, sentences
from probes.store import Run


def clip_readings(run: Run) -> dict[str, pd.DataFrame]:
    """Return what C, CC and CLS say: by source ``sample_id``, ``attribute``, ``value``; nothing without embeddings.

    Raises
    ------
    UserError
        Images were embedded, and the sentences that the configuration asks for were not.
    """
    kind, asked = f"features/{run.config.gep.clip}", sentences(run.config)
    if asked is None or not run.parts(kind):
        return {}
    table = pd.concat([part.to_pandas() for part in run.part_tables(kind, ["sample_id", "vector"])])
    table = table[table["vector"].notna()]
    text = _texts(run, f"{kind}_texts", asked.all)
    values = estimated(np.stack(table["vector"].to_list()), asked, text, seeds=range(run.config.gep.ensemble))
    names = list(attributes(run.config))
    return {
        source: pd.DataFrame(
            {
                "sample_id": np.repeat(table["sample_id"].to_numpy(object), len(names)),
                "attribute": np.tile(np.array(names, object), len(table)),
                "value": value.ravel(),
            }
        )
        for source, value in values.items()
    }


def estimated(
    images: NDArray, asked: Sentences, texts: Mapping[str, NDArray], *, seeds: Sequence[int] = estimates.SEEDS
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
    """
    names = np.stack([texts[name] for name in asked.names])
    negative = np.stack([texts[one] for one in asked.negative])
    probabilities = [
        estimates.train(np.stack([texts[one] for one in positive]), negative, seeds=seeds).probabilities(
            images
        )
        for positive in asked.positive
    ]
    return {
        "C": estimates.similarity(images, names),
        "CC": estimates.calibrated_similarity(images, names, texts[asked.reference]),
        "CLS": np.column_stack(probabilities),
    }


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
