"""The tables of an audit of professions (DALL-Eval, Cho et al. 2023), rows of `analysis.tables.registry`.

Their LaTeX is named by the number of the paper's table; `analysis.methods.dalleval.latex` makes it.
"""

from __future__ import annotations

from analysis.methods.dalleval import agreement, mad, tables, words
from analysis.tables.table import Latex, Table

_GENDER = "Average gender (read as male: -1, as female: +1) of images generated from {reference} prompts, by {gender}"
_TONE = "Average tone (Monk scale, 1 to 10; by {tone}) of images generated from {words} prompts"
_FLOOR = "With {images} images a prompt, chance alone gives a MAD of {floor}."


_WORD = (
    "Frequency of each attribute in images of {{model}} generated from {{{word}}} prompts, by {{attributes}}."
)
_BESIDE = " In parentheses the difference from {reference} prompts; last column: its mean absolute value."

DALLEVAL = (
    Table(
        "dalleval_professions",
        "professions",
        "a reader, question, profession (or all) and indicator: the average of what was read, and what became of every"
        " image",
        tables.PROFESSION_COLUMNS,
        printed=(
            Latex("dalleval_table06_gender", "dalleval-gender-examples", f"{_GENDER}: examples.", _FLOOR),
            Latex("dalleval_table07_tone", "dalleval-tone-examples", f"{_TONE}: examples."),
            Latex("dalleval_table16_gender", "dalleval-gender", f"{_GENDER}.", _FLOOR),
            Latex("dalleval_table17_gender", "dalleval-gender-continued", f"{_GENDER} (continued).", _FLOOR),
            Latex("dalleval_table20_tone", "dalleval-tone", f"{_TONE}."),
            Latex("dalleval_table21_tone", "dalleval-tone-continued", f"{_TONE} (continued)."),
            *(
                Latex(
                    f"dalleval_table{number}_attributes",
                    f"dalleval-attributes-{number}",
                    _WORD.format(word=word) + (_BESIDE if word != "reference" else ""),
                )
                for number, word in ((23, "reference"), (24, "first"), (25, "second"))
            ),
        ),
    ),
    Table(
        "dalleval_distribution",
        "professions",
        "a reader, gender or tone, profession, indicator and category: its share of the images",
        tables.DISTRIBUTION_COLUMNS,
    ),
    Table(
        "dalleval_attribute_tones",
        "professions",
        "a rule of tones, reader, attribute and tone: its share of the images in which the attribute is read",
        tables.TONE_COLUMNS,
    ),
    Table(
        "dalleval_mad",
        "professions",
        "a reader, question and indicator: the MAD over all professions beside its floor",
        mad.MAD_COLUMNS,
        printed=(
            Latex(
                "dalleval_table08_mad",
                "dalleval-mad",
                "MAD of gender (by {gender}) and of tone (by {tone}) from equally likely categories, mean over"
                " professions.",
                "The paper has no floor: it is the mean MAD that equally likely categories give at these numbers of"
                " images.",
            ),
        ),
    ),
    Table(
        "dalleval_between",
        "professions",
        "a reader, question and indicator (or all): share of the variance between professions, its floor, and tests",
        words.BETWEEN_COLUMNS,
    ),
    Table(
        "dalleval_words",
        "professions",
        "a reader, question, pair of indicators and profession (or all): the difference of what was read",
        words.WORD_COLUMNS,
        printed=(
            Latex(
                "dalleval_table09_words",
                "dalleval-words-examples",
                "Frequency of attributes in images generated from {first} and from {second} prompts, by {attributes}:"
                " examples.",
            ),
            Latex(
                "dalleval_table22_words",
                "dalleval-words",
                "Frequency of attributes by word, by {attributes}. In parentheses the difference from {reference}"
                " prompts; last column: the mean absolute difference over attributes.",
            ),
        ),
    ),
    Table(
        "dalleval_absolute",
        "professions",
        "a reader of attributes, pair of indicators and profession (or all): the mean absolute difference",
        words.ABSOLUTE_COLUMNS,
    ),
    Table(
        "dalleval_agreement",
        "professions",
        "a question and two readers: how often they say the same",
        agreement.AGREEMENT_COLUMNS,
        printed=(
            Latex(
                "dalleval_table18_skin",
                "dalleval-skin-methods",
                "Rules of tones held against people: share of images at most K tones apart in percent"
                " (precision@K), and mean difference in tones.",
                "Of images that both decided.",
            ),
        ),
    ),
)
