"""Kinds of parts: the stages that store them, their folders and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

GENERATED_KINDS = ("samples", "captures", "words", "kept", "pooled")
UNMEASURED = ("kept", "pooled")  # no table is made of them
NESTED = ("features", "attributes")  # with a folder for each model
OBSERVED_KINDS = ("observed", "objects", *NESTED)
FOLDERS = (*GENERATED_KINDS, *OBSERVED_KINDS, "traced", "tables", "figures", "gallery")
TEXTS = ("_texts", "_prompts")  # end a kind of which a run has one part, whatever its images
_STAGES = {**dict.fromkeys(GENERATED_KINDS, "generate"), "traced": "trace", "tables": "measure"}

_LISTS = pa.list_(pa.list_(pa.int32()))
SIMILARITIES = pa.list_(pa.float32())  # of a site, in a column of captures
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
# by which a row says of which image it is
_OF_IMAGE = (
    ("sample_id", pa.string()),
    ("triplet", pa.int32()),
    ("seed", pa.int64()),
    ("indicator", pa.string()),
)
SAMPLES = pa.schema(
    [
        ("sample_id", pa.string()),
        ("triplet", pa.int32()),
        ("prompt_id", pa.string()),
        ("template", pa.string()),
        ("indicator", pa.string()),
        ("word", pa.string()),
        ("prompt", pa.string()),
        ("negative_prompt", pa.string()),
        ("seed", pa.int64()),
        ("noise_seed", pa.int64()),
        ("tokens", pa.list_(pa.string())),
        ("words", pa.list_(pa.string())),
        ("word_spans", _LISTS),  # first character of each word and the one after its last
        ("word_positions", _LISTS),
        # in the tokens of the second text encoder; null where the model has one
        ("word_positions_2", _LISTS),
        ("indicator_positions", pa.list_(pa.int32())),
        # why it is left out of every mean (`probes.runs.images.FAULTS`); null where it is not
        ("fault", pa.string()),
        ("image", IMAGE),
    ]
)
CAPTURES = pa.schema(
    [
        ("triplet", pa.int32()),
        ("seed", pa.int64()),
        ("pair", pa.string()),
        ("first", pa.string()),
        ("second", pa.string()),
        ("timesteps", pa.list_(pa.float32())),
    ]
)
WORDS = pa.schema(
    [
        *_OF_IMAGE,
        ("word", pa.string()),
        ("word_index", pa.int32()),
        ("heat", pa.list_(pa.float32())),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("peak", pa.float32()),
        ("definition", pa.string()),
        ("version", pa.string()),
    ]
)
KEPT = pa.schema(
    [
        *_OF_IMAGE,
        ("site", pa.string()),
        ("shape", pa.list_(pa.int32())),
        ("call", pa.list_(pa.int32())),
        ("timesteps", pa.list_(pa.float32())),
        ("values", pa.list_(pa.float32())),
    ]
)
# `group` names the token positions that a mean is over (`hooks.prompt.spans`); null where it is over space;
# `values` are the channels, call after call
POOLED = pa.schema(
    [
        *_OF_IMAGE,
        ("site", pa.string()),
        ("group", pa.string()),
        ("call", pa.list_(pa.int32())),
        ("timesteps", pa.list_(pa.float32())),
        ("values", pa.list_(pa.float32())),
    ]
)
# x0, y0, x1, y1 in pixels, x to the right, y down, clipped to the image; `area` in pixels of the mask; `mask` the
# counts of COCO's compressed run lengths of a (height, width) mask
OBJECTS = pa.schema(
    [
        *_OF_IMAGE,
        ("object", pa.int32()),
        ("label", pa.string()),
        ("source", pa.string()),
        ("score", pa.float32()),
        *((side, pa.float32()) for side in ("x0", "y0", "x1", "y1")),
        ("area", pa.int32()),
        ("mask", pa.string()),
        ("height", pa.int32()),
        ("width", pa.int32()),
    ]
)
OBSERVED = pa.schema(
    [
        *_OF_IMAGE,
        ("status", pa.string()),  # ok or unreadable
        ("reason", pa.string()),  # why nothing was or could be looked for; else empty
        *((count, pa.int32()) for count in ("detected", "kept")),
        *((f"dropped_{why}", pa.int32()) for why in ("empty", "merged", "unknown", "overlap")),
        ("tags", pa.list_(pa.string())),
    ]
)
# an image with activations of a donor patched in somewhere, see `probes.stages.trace.variants.Variant`
TRACED = pa.schema(
    [
        ("triplet", pa.int32()),
        ("seed", pa.int64()),
        ("variant", pa.string()),  # unique in the trace of a run
        ("kind", pa.string()),
        ("recipient", pa.string()),  # indicator whose prompt it is drawn from
        ("donor", pa.string()),  # indicator; null where nothing is patched
        ("floor", pa.bool_()),  # the donor is a control of the recipient
        ("sites", pa.list_(pa.string())),
        ("part", pa.string()),
        ("source", pa.string()),
        ("positions", pa.string()),
        ("heads", pa.list_(pa.int32())),
        ("first_step", pa.int32()),
        ("stop_step", pa.int32()),
        ("writes", pa.int32()),
        ("largest_change", pa.float32()),
        ("fault", pa.string()),
        ("image", IMAGE),
    ]
)

# of `features/<name>`: a vector of each image, null with a reason where it cannot be read
FEATURES = pa.schema(
    [
        *_OF_IMAGE,
        ("vector", pa.list_(pa.float32())),
        ("reason", pa.string()),
    ]
)
# the same, of a feature that is no vector but a number for two images
FEATURE_PAIRS = pa.schema(
    [("triplet", pa.int32()), ("seed", pa.int64()), ("pair", pa.string()), ("value", pa.float32())]
)

# of `attributes/captions`: a sentence about each image, null with a reason where it cannot be read
CAPTIONS = pa.schema(
    [
        *_OF_IMAGE,
        ("caption", pa.string()),  # verbatim but for outer spaces
        ("reason", pa.string()),
    ]
)

# of `attributes/<reader>`: what a reader answered to each question about each image (`analysis.observe.questions`)
ANSWERS = pa.schema(
    [
        *_OF_IMAGE,
        ("question", pa.string()),  # its key: `gender`, or the name of an attribute
        ("asked", pa.string()),  # the sentence or sentences, verbatim
        ("answer", pa.string()),  # verbatim; null where there is none
        ("reading", pa.string()),  # what the answer says; null where it is undecided or was not given
        ("score", pa.float64()),  # probability of the reading, where the reader has one
        ("reason", pa.string()),  # why it was not asked; else empty
    ]
)

# of `attributes/skin_tone`: the mean colour of an image's skin and the Monk tones nearest to it, see
# `analysis.metrics.skin_tone.MeasuredTone`; null where it is undefined
TONES = pa.schema(
    [
        *_OF_IMAGE,
        ("status", pa.string()),  # ok, no face, no skin, grey or unreadable
        ("reason", pa.string()),  # why there is no tone, or which of several faces is read; else empty
        ("pixels", pa.int32()),
        *((name, pa.float64()) for name in ("L", "a", "b", "ita")),
        *((name, pa.int8()) for name in ("tone", "tone_ciede2000", "tone_dalleval2023")),
        ("illumination", pa.string()),  # name of what set the light right; else empty
    ]
)

# the columns that a part of each kind has at least
FIXED = {
    "samples": SAMPLES,
    "captures": CAPTURES,
    "words": WORDS,
    "kept": KEPT,
    "pooled": POOLED,
    "observed": OBSERVED,
    "objects": OBJECTS,
    "traced": TRACED,
}


def captures_schema(sites: Sequence[str]) -> pa.Schema:
    """The columns of ``captures/``: the fixed ones and one list of floats per site and metric."""
    return pa.schema([*CAPTURES, *(pa.field(site, SIMILARITIES) for site in sites)])


def kept_schema(capture: Any) -> pa.Schema:
    """The columns of ``kept/``: of tensors that are stored whole, or of some of their places."""
    fields = [*KEPT]
    if capture.keep_dtype == "float16":
        fields[-1] = pa.field("values", pa.list_(pa.float16()))
    if capture.keep_places != "all":
        fields.append(pa.field("places", pa.list_(pa.int32())))
    return pa.schema(fields)


def kinds_of_capture(capture: Any) -> list[str]:
    """The kinds of parts of generated images, by section ``capture`` of the configuration."""
    requested = {"words": capture.words, "kept": capture.keep, "pooled": capture.pool}
    return [*(kind for kind, wanted in requested.items() if wanted), "captures", "samples"]


def stage_of(kind: str) -> str:
    """The stage that stores a kind of parts."""
    return _STAGES.get(kind, "observe")
