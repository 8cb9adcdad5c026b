"""The tables of an audit of attributes (Zhang et al. 2023), rows of `analysis.tables.registry`.

Their LaTeX is named by the number of the paper's table; `analysis.methods.gep.latex` makes it.
"""

from __future__ import annotations

from analysis.methods.gep import artificial, clip, powered, predictions, tables
from analysis.tables.table import Latex, Table

_BESIDE = "The paper's scores have no floor: it is the mean score if the words of {unit} could change places."
_TAU_MCC = "Kendall's tau-b / Matthews' correlation of signs, in which a difference of 0 counts as positive."
_PAIR = "images generated from {first} and {second} prompts"

GEP = (
    Table(
        "gep_frequencies",
        "audit",
        "a setting, source, indicator and attribute: its frequency, or the mean of an estimate",
        tables.FREQUENCY_COLUMNS,
        printed=tuple(
            Latex(
                f"gep_table{number}_frequencies",
                f"gep-frequencies-{setting}",
                f"Frequency of each attribute in the {setting} setting, as read by {{labels}}.",
            )
            for number, setting in ((11, "neutral"), (12, "explicit"))
        ),
    ),
    Table(
        "gep_vector",
        "audit",
        "a setting, source, pair and attribute: the difference of frequencies, its interval and tests",
        tables.VECTOR_COLUMNS,
        printed=tuple(
            Latex(
                f"gep_table{number}_vectors",
                f"gep-vectors-{setting}",
                f"GEP vectors in the {setting} setting: difference of frequencies between {_PAIR}, by {{labels}}.",
            )
            for number, setting in ((13, "neutral"), (14, "explicit"))
        ),
    ),
    Table(
        "gep_score",
        "audit",
        "a setting, source and pair: the mean absolute difference, its floor, and its interval",
        tables.SCORE_COLUMNS,
        printed=(
            Latex(
                "gep_table03_scores",
                "gep-scores",
                f"GEP scores between {_PAIR}, by {{labels}}; CS: mean CLIPScore of these.",
                _BESIDE,
            ),
            Latex(
                "gep_table06_estimates",
                "gep-estimated-scores",
                f"GEP scores between {_PAIR} by each estimate and by {{labels}}, ranked by size, and Kendall's tau"
                " between these ranks.",
                "Every estimate has its own scale: compare ranks, not sizes.",
            ),
            Latex(
                "gep_table10_reference",
                "gep-reference",
                "GEP scores between images generated from prompts of each word and from {reference} prompts.",
            ),
        ),
    ),
    Table(
        "gep_contexts",
        "audit",
        "a setting, source, pair and context: its score",
        tables.CONTEXT_COLUMNS,
        printed=(
            Latex(
                "gep_table15_contexts",
                "gep-contexts",
                f"GEP scores of each context apart, between {_PAIR}, by {{labels}}. {{contexts}}",
                "The floor of a single context is far above that of all contexts together.",
            ),
        ),
    ),
    Table(
        "gep_agreement",
        "audit",
        "a setting, estimate, labels and measure of agreement of their vectors, with its interval",
        tables.AGREEMENT_COLUMNS,
        printed=(
            Latex(
                "gep_table04_correlation",
                "gep-correlation",
                "Correlation between the GEP vectors of each estimate and those of {labels}; in parentheses the number"
                " of attributes.",
                _TAU_MCC,
            ),
            Latex(
                "gep_table19_pearson",
                "gep-pearson",
                "Pearson correlation between the GEP vectors of each estimate and those of {labels}.",
            ),
        ),
    ),
    Table(
        "gep_auc",
        "audit",
        "an estimate, labels and attribute: the area under the ROC curve",
        tables.AUC_COLUMNS,
        printed=(
            Latex(
                "gep_table07_auc",
                "gep-auc",
                "Area under the ROC curve of each estimate against {labels}, mean over attributes.",
            ),
            Latex(
                "gep_table16_auc",
                "gep-auc-attributes",
                "Area under the ROC curve of each estimate against {labels}, by attribute.",
            ),
        ),
    ),
    Table(
        "gep_predictions",
        "audit",
        "a setting, image, attribute and source: what it says of the image",
        predictions.PREDICTION_COLUMNS,
        csv=False,
        printed=tuple(
            Latex(
                f"gep_table{number}_predictions",
                f"gep-predictions-{number}",
                f"Predicted value of CLS of {{attribute{number}}} for images of the {setting} setting generated from"
                f" {{first}} and {{second}} prompts, {{context{number}}}; underlined where found by {{labels}}.",
            )
            for number, setting in ((22, "neutral"), (23, "neutral"), (24, "explicit"))
        ),
    ),
    Table(
        "gep_ratio",
        "audit",
        "an estimate, labels, contrast and attribute (or, without one, all): by how much the estimate differs between"
        " words, over by how much between images with and without the attribute",
        predictions.RATIO_COLUMNS,
    ),
    Table(
        "gep_clip_score",
        "audit",
        "a setting and indicator: how well its images fit their prompts by CLIP; of an audit that CLIP read",
        clip.SCORE_COLUMNS,
    ),
    Table(
        "gep_powered",
        "audit",
        "a setting, pair and attribute (or, without one, the score): a few labels and an estimate together; of an audit"
        " that has labels and CLIP's reading",
        powered.COLUMNS,
    ),
    Table(
        "gep_artificial",
        "audit",
        "an estimate and an example of an artificial set: what differs by how much, and what the estimate says of it;"
        " of an audit that has labels and estimates",
        artificial.EXAMPLE_COLUMNS,
        printed=(
            Latex(
                "gep_table17_scales",
                "gep-scales",
                "Scales of differences from which the artificial sets are drawn.",
            ),
        ),
    ),
    Table(
        "gep_artificial_agreement",
        "audit",
        "an estimate and measure of agreement over these examples, with its interval",
        artificial.AGREEMENT_COLUMNS,
        printed=(
            Latex(
                "gep_table05_artificial",
                "gep-artificial",
                "Correlation between estimated and known differences of artificial sets, labels by {labels}; in"
                " parentheses the number of examples.",
                _TAU_MCC,
            ),
            Latex(
                "gep_table09_variants",
                "gep-variants",
                "Other ways to make the estimates, on the artificial sets.",
                _TAU_MCC,
            ),
            Latex(
                "gep_table18_mix",
                "gep-mix",
                "Correlation on the mix of the artificial sets of all models; in parentheses the number of examples.",
                _TAU_MCC,
            ),
            Latex(
                "gep_table21_pair_types",
                "gep-pair-types",
                "Kendall's tau on different types of pairs of examples: S same, D different, A attribute, M model.",
            ),
        ),
    ),
    Table(
        "gep_labels",
        "audit",
        "an image, attribute and annotator: yes (1), no (0)",
        ("sample_id", "attribute", "annotator", "value"),
        stage="",
    ),
)
