"""What CLIP says of a run's attributes: C, CC and CLS from stored embeddings of images and sentences.

The observe stage embeds the images and, once for a run, the sentences of `analysis.observe.features.attribute_audit`
(`analysis.observe.features.texts`); everything else is arithmetic, so that other references or ensembles cost no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.gep import estimates
from analysis.observe.features import attribute_audit as audit
from analysis.observe.features.attribute_audit import Sentences
from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.proportions import linearised
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.run import Run

SCORE_COLUMNS = (
    *("setting", "indicator", "clip_score", "low", "high", "n_images", "n_contexts", "level", "reason"),
)


def clip_readings(run: Run) -> dict[str, pd.DataFrame]:
    """Return what C, CC and CLS say: by source ``sample_id``, ``attribute``, ``value``; nothing without embeddings.

    A variant's readings are called by its name: ``CLS no_ensemble``; those that it leaves as they are stand there once.
    """
    table = _images(run)
    if not audit.places(run.config) or not len(table):
        return {}
    asked = [audit.sentences(run.config, variant) for variant in ("", *run.config.gep.variants)]
    said = tuple(dict.fromkeys(text for one in asked if one is not None for text in one.all))
    text, images = _texts(run, said), np.stack(table["vector"].to_list())
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


def clip_score(run: Run) -> pd.DataFrame:
    """Return how well images fit their prompts by CLIP, by setting and indicator (CLIPScore, Hessel et al. 2021).

    The mean over images of 100 times the cosine with the prompt, as Table 3 has it, with an interval over contexts;
    nothing without embeddings of the prompts.
    """
    asked, images, known = audit.prompts(run.config), _images(run), _stored_texts(run)
    if not len(images) or not set(asked.values()) <= set(known):
        return pd.DataFrame(columns=list(SCORE_COLUMNS))
    where = pd.DataFrame(audit.places(run.config)).drop(columns="named")
    table = (
        run.samples(["sample_id", "triplet", "indicator"])
        .merge(where, on="triplet")
        .merge(images, on="sample_id")
    )
    said = [known[asked[key]] for key in zip(table["triplet"], table["indicator"])]
    both = [estimates.unit(np.stack(side)) for side in (table["vector"].to_list(), said)]
    table["value"] = 100 * (both[0] * both[1]).sum(axis=1)
    measure, rows = run.config.measure, []
    for (setting, indicator), own in table.groupby(["setting", "indicator"], sort=False):
        units = own.groupby("context", sort=False)["value"].agg(["sum", "size"])
        value, contexts = linearised(*units.to_numpy().T)
        interval = bootstrap_interval(
            contexts[:, None],
            level=measure.level,
            resamples=measure.bootstrap,
            seed=measure.seed,
        )
        ends = interval.low[0], interval.high[0]
        about = (len(own), len(contexts), measure.level, interval.reason[0])
        rows.append((setting, indicator, value, *ends, *about))
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def _all_ways(config: Config, images: NDArray, text: Mapping[str, NDArray]) -> dict[str, NDArray[np.float64]]:
    """The readings of the configuration, then those of its variants that differ from them in what they are made of."""
    made: dict[str, NDArray[np.float64]] = {}
    known = set()
    for variant in ("", *config.gep.variants):
        ensemble, asked = audit.options_of(config, variant).ensemble, audit.sentences(config, variant)
        assert asked is not None
        names = np.stack([text[name] for name in asked.names])
        ways = {
            ("C",): partial(estimates.similarity, images, names),
            ("CC", asked.reference): partial(
                estimates.calibrated_similarity, images, names, text[asked.reference]
            ),
        }
        if asked.positive:
            what = "CLS", asked.positive, asked.negative, ensemble
            ways[what] = partial(_classified, images, asked, text, ensemble)
        made |= {f"{key[0]} {variant}".strip(): way() for key, way in ways.items() if key not in known}
        known |= {*ways}
    return made


def _classified(
    images: NDArray, asked: Sentences, texts: Mapping[str, NDArray], ensemble: int
) -> NDArray[np.float64]:
    """CLS of every image and attribute."""
    negative = np.stack([texts[one] for one in asked.negative])
    sides = [np.stack([texts[one] for one in positive]) for positive in asked.positive]
    return np.column_stack(
        [estimates.classified(images, positive, negative, seeds=range(ensemble)) for positive in sides]
    )


def _images(run: Run) -> pd.DataFrame:
    """Embeddings of images, ``sample_id`` and ``vector``; of none where CLIP did not look."""
    kind = f"features/{audit.clip_name(run.config)}"
    if not run.parts(kind):
        return pd.DataFrame(columns=["sample_id", "vector"])
    table = pd.concat([part.to_pandas() for part in run.part_tables(kind, ["sample_id", "vector"])])
    return table[table["vector"].notna()]


def _stored_texts(run: Run) -> dict[str, NDArray]:
    """Embeddings of the sentences that a run holds."""
    kind = f"features/{audit.clip_name(run.config)}_texts"
    tables = (
        [part.to_pandas() for part in run.part_tables(kind, ["text", "vector"])] if run.parts(kind) else []
    )
    return {row.text: np.asarray(row.vector) for table in tables for row in table.itertuples()}


def _texts(run: Run, asked: Sequence[str]) -> dict[str, NDArray]:
    """Embeddings of some sentences."""
    known = _stored_texts(run)
    missing = [text for text in asked if text not in known]
    if missing:
        raise UserError(
            f"{run.path}: expected embeddings of {len(asked)} sentences, found none of {missing[0]!r}: run"
            " --stage observe again"
        )
    return known
