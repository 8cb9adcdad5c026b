"""What a question may ask of single images: how probable an attribute of an audit by contexts (GEP) is in them.

The probability is that of the audit's classifiers, CLS of Zhang et al. 2023: they are trained on sentences alone, so
the value of an image is a function of that image and of nothing else that was drawn.
"""

from __future__ import annotations

import difflib

import pandas as pd

from analysis.methods.gep.clip import classifiers
from analysis.observe.early import required
from analysis.observe.features.registry import FEATURES
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.audit import attributes, clip_name, places, sentences
from probes.runs.store import Run

_COLUMNS = ["triplet", "seed", "indicator", "value"]


def attribute_asked(config: Config, name: str) -> str:
    """Return the feature that observes images for an audit's attribute, once it is known to be told of every image.

    Raises
    ------
    UserError
        There is no such audit or attribute, its classifiers cannot be trained, prompts name others, or nobody embeds
        the images.
    """
    there, observer = places(config), clip_name(config)
    if not there:
        raise UserError(
            "stop.of.attribute: expected prompts with contexts, of which an audit is made, got none: take such as"
            " {from: gep, setting: neutral}, or ask about an object"
        )
    known = attributes(config)
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        remedy = f"did you mean {close[0]}?" if close else "name one of these, or add it to gep.attributes"
        raise UserError(f"stop.of.attribute: expected one of {', '.join(known)}, got {name!r:.60}: {remedy}")
    named = {place.named for place in there}
    if named not in ({""}, {name}):
        raise UserError(
            f"stop.of.attribute: expected prompts that name no attribute, or all of them {name!r}, got some that name"
            f" {sorted(named - {''})[0]!r}: take {{from: gep, setting: neutral}}, or prompts of one attribute"
        )
    asked = sentences(config)
    if asked is None or not asked.positive:
        raise UserError(
            "stop.of.attribute: expected contexts enough to train classifiers by, got too few: name more prompts, or"
            " gep.contexts"
        )
    if observer not in FEATURES or FEATURES[observer].library != "open_clip":
        raise UserError(f"gep.clip: expected a CLIP, got {observer!r}, which reads no text: name clip")
    required(config, observer)
    return observer


def attribute_values(run: Run, name: str, observer: str) -> pd.DataFrame:
    """Return the probability of an attribute, from 0 to 1, in each image that was embedded.

    Each part is read by itself, so that its values are the same however many there are.

    Returns
    -------
    DataFrame
        ``triplet``, ``seed``, ``indicator`` and ``value``.
    """
    trained, faulty, found = classifiers(run, name), list(run.faults()), []
    for part in run.part_tables(f"features/{observer}", ["sample_id", *_COLUMNS[:-1], "vector"]):
        table = part.to_pandas()
        table = table[table["vector"].notna() & ~table["sample_id"].isin(faulty)]
        if len(table):
            values = trained.probabilities(table["vector"].to_list())
            found.append(table[["triplet", "seed", "indicator"]].assign(value=values))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=_COLUMNS)
