"""Kinds of parts: the stages that store them, their folders and their columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from probes.config.generation import Capture

GENERATED_KINDS = ("samples", "captures", "words", "kept", "pooled")
UNMEASURED = ("kept", "pooled")  # no table is made of them
OBSERVED_KINDS = ("observed", "objects", "features", "attributes")  # the last two with a folder per model
FOLDERS = (*GENERATED_KINDS, *OBSERVED_KINDS, "traced", "tables", "figures", "gallery")
_STAGES = {**dict.fromkeys(GENERATED_KINDS, "generate"), "traced": "trace", "tables": "measure"}

TEXT, INT, LONG, FLOAT, DOUBLE = pa.string(), pa.int32(), pa.int64(), pa.float32(), pa.float64()
TEXT_LIST, INTS, FLOATS = pa.list_(TEXT), pa.list_(INT), pa.list_(FLOAT)
SIMILARITIES = FLOATS  # of a site, in a column of captures
IMAGE = pa.struct({"bytes": pa.binary(), "path": TEXT})


def _image_schema(**columns: pa.DataType) -> pa.Schema:
    """Return the schema of a table on images: the columns that identify an image, then `columns`."""
    return pa.schema({"sample_id": TEXT, "triplet": INT, "seed": LONG, "indicator": TEXT, **columns})


SAMPLES = pa.schema(
    {
        "sample_id": TEXT,
        "triplet": INT,
        "prompt_id": TEXT,
        "template": TEXT,
        "indicator": TEXT,
        "word": TEXT,
        "prompt": TEXT,
        "negative_prompt": TEXT,
        "seed": LONG,
        "noise_seed": LONG,
        "tokens": TEXT_LIST,
        "words": TEXT_LIST,
        "word_spans": pa.list_(INTS),  # first character of each word and the one after its last
        "word_positions": pa.list_(INTS),
        "word_positions_2": pa.list_(INTS),  # of the second text encoder; null where the model has one
        "indicator_positions": INTS,
        "fault": TEXT,  # why it is left out of every mean (`probes.runs.images.WHY`); null where it is not
        "image": IMAGE,
    }
)
CAPTURES = pa.schema(
    {"triplet": INT, "seed": LONG, "pair": TEXT, "first": TEXT, "second": TEXT, "timesteps": FLOATS}
)
WORDS = _image_schema(
    word=TEXT, word_index=INT, heat=FLOATS, height=INT, width=INT, peak=FLOAT, definition=TEXT, version=TEXT
)
KEPT = _image_schema(site=TEXT, shape=INTS, call=INTS, timesteps=FLOATS, values=FLOATS)
# `group` names the token positions that a mean is over (`hooks.prompt.spans`); null where it is over space;
# `values` are the channels, call after call
POOLED = _image_schema(site=TEXT, group=TEXT, call=INTS, timesteps=FLOATS, values=FLOATS)
# x0, y0, x1, y1 in pixels, x to the right, y down, clipped to the image; `area` in pixels of the mask; `mask` the
# counts of COCO's compressed run lengths of a (height, width) mask
OBJECTS = _image_schema(
    **{"object": INT, "label": TEXT, "source": TEXT, "score": FLOAT},
    **dict.fromkeys(("x0", "y0", "x1", "y1"), FLOAT),
    **{"area": INT, "mask": TEXT, "height": INT, "width": INT},
)
OBSERVED = _image_schema(
    status=TEXT,  # ok or unreadable
    reason=TEXT,  # why nothing was or could be looked for; else empty
    **dict.fromkeys(("detected", "kept"), INT),
    **{f"dropped_{why}": INT for why in ("empty", "merged", "unknown", "overlap")},
    tags=TEXT_LIST,
)
# an image with activations of a donor patched in somewhere, see `probes.stages.trace.variants.Variant`
TRACED = pa.schema(
    {
        "triplet": INT,
        "seed": LONG,
        "variant": TEXT,  # unique in the trace of a run
        "kind": TEXT,
        "recipient": TEXT,  # indicator whose prompt it is generated from
        "donor": TEXT,  # indicator; null where nothing is patched
        "floor": pa.bool_(),  # the donor is a control of the recipient
        "sites": TEXT_LIST,
        "part": TEXT,
        "source": TEXT,
        "positions": TEXT,
        "heads": INTS,
        "first_step": INT,
        "stop_step": INT,
        "writes": INT,
        "largest_change": FLOAT,
        "fault": TEXT,
        "image": IMAGE,
    }
)
# of `features/<name>`: a vector of each image, null with a reason where it cannot be read
FEATURES = _image_schema(vector=FLOATS, reason=TEXT)
# the same, of a feature that is no vector but a number for two images
FEATURE_PAIRS = pa.schema({"triplet": INT, "seed": LONG, "pair": TEXT, "value": FLOAT})
# of `attributes/captions`: a sentence about each image, verbatim but for outer spaces, null with a reason where it
# cannot be read
CAPTIONS = _image_schema(caption=TEXT, reason=TEXT)
# of `attributes/<reader>`: what a reader answered to each question about each image (`analysis.observe.questions`)
ANSWERS = _image_schema(
    question=TEXT,  # its key: `gender`, or the name of an attribute
    asked=TEXT,  # the sentence or sentences, verbatim
    answer=TEXT,  # verbatim; null where there is none
    reading=TEXT,  # what the answer says; null where it is undecided or was not given
    score=DOUBLE,  # probability of the reading, where the reader has one
    reason=TEXT,  # why it was not asked; else empty
)
# of `attributes/skin_tone`: the mean colour of an image's skin and the Monk tones nearest to it, see
# `analysis.metrics.skin_tone.MeasuredTone`; null where it is undefined
TONES = _image_schema(
    status=TEXT,  # ok, no face, no skin, grey or unreadable
    reason=TEXT,  # why there is no tone, or which of several faces is read; else empty
    pixels=INT,
    **dict.fromkeys(("L", "a", "b", "ita"), DOUBLE),
    **dict.fromkeys(("tone", "tone_ciede2000", "tone_dalleval2023"), pa.int8()),
    illumination=TEXT,  # name of what set the light right; else empty
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
    """Return the schema of the table ``captures``: the fixed columns, and a list of similarities for each site."""
    return pa.schema([*CAPTURES, *(pa.field(site, SIMILARITIES) for site in sites)])


def kept_schema(capture: Capture) -> pa.Schema:
    """Return the schema of the table ``kept``, whose dtype and column ``places`` depend on section `capture`."""
    fields = [*KEPT]
    if capture.keep_dtype == "float16":
        fields[-1] = pa.field("values", pa.list_(pa.float16()))
    if capture.keep_places != "all":
        fields.append(pa.field("places", pa.list_(pa.int32())))
    return pa.schema(fields)


def kinds_of_capture(capture: Capture) -> list[str]:
    """Return the kinds of parts that the generate stage writes with a configuration's section `capture`."""
    requested = {"words": capture.words, "kept": capture.keep, "pooled": capture.pool}
    return [*(kind for kind, wanted in requested.items() if wanted), "captures", "samples"]


def stage_of(kind: str) -> str:
    """Return the stage that writes a kind of file, such as "samples" or "tables"; "observe" if it is not listed."""
    return _STAGES.get(kind, "observe")
