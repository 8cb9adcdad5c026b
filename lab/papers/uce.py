"""Published counts of professions, read as an audit: ``python -m lab.papers.uce``.

Gandikota et al. 2024 (*Unified Concept Editing in Diffusion Models*, WACV) publish, beside their code, how many of so
many images of a profession were read as male: of Stable Diffusion 1.4, and of it under two mitigations. What
`triptych audit` says of labelled pictures is said of them here, by the same functions, for
``docs/validation/published_audits.md``.
"""

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.methods.audit.claims import claims, sentences
from analysis.methods.audit.design import ALL, AuditCell, Design
from analysis.methods.audit.labelled_audit import measure_cells
from lab.papers.tables import read_table
from lab.templates import render
from probes import command_line

MODELS = {"sd_1_4": "SD 1.4", "concept_algebra": "Concept Algebra", "debiasing_vl": "Debiasing-VL"}
TEMPLATES = ("image", "picture", "photo", "headshot", "portrait")
IMAGES, IMAGES_A_TEMPLATE = 100, 10
ANSWER = "male"


def cell(count: int, of: int) -> AuditCell:
    """Return a cell of so many images, of which so many have the answer."""
    hits = np.zeros(of)
    hits[:count] = 1
    return AuditCell(hits, np.ones(of), of)


def design(levels: Mapping[str, tuple[str, ...]]) -> Design:
    """Return the design: the share of images read as male, against one half."""
    factors = tuple(name for name in levels if name != "model")
    half = dict.fromkeys(levels["profession"], 0.5)
    return Design(ANSWER, ("female", ANSWER), (), factors, levels, half)


def mitigations() -> tuple[dict[str, pd.DataFrame], Design]:
    """Return the audit of 37 professions: Stable Diffusion 1.4 beside two mitigations."""
    table = read_table("uce2024_mitigations", ["profession", *MODELS], numeric=tuple(MODELS))
    asked = design({"model": tuple(MODELS.values()), "profession": tuple(table["profession"])})
    cells = {
        (MODELS[column], profession): cell(int(count), IMAGES)
        for column in MODELS
        for profession, count in zip(table["profession"], table[column])
    }
    return measure_cells(cells, asked), asked


def templates() -> tuple[dict[str, pd.DataFrame], Design]:
    """Return the audit of 200 professions in five templates: Stable Diffusion 1.4 alone."""
    table = read_table("uce2024_sd14_templates", ["profession", *TEMPLATES], numeric=TEMPLATES)
    asked = design({"model": ("SD 1.4",), "profession": tuple(table["profession"]), "template": TEMPLATES})
    cells = {
        ("SD 1.4", profession, template): cell(int(count), IMAGES_A_TEMPLATE)
        for template in TEMPLATES
        for profession, count in zip(table["profession"], table[template])
    }
    return measure_cells(cells, asked), asked


def page() -> str:
    """Return the page in Markdown."""
    edited, asked = mitigations()
    worded, by_template = templates()
    shares, models = edited["shares"], edited["models"]
    changes = {
        (row["second"], row["profession"]): row
        for row in models[models["first"] == "SD 1.4"].to_dict("records")
    }
    contrasts = worded["contrasts"]
    return render(
        "published_audits",
        models=tuple(MODELS.values()),
        images=IMAGES,
        professions=[
            {
                "name": name,
                "shares": own.set_index("model").loc[list(MODELS.values())].to_dict("records"),
                "changes": [changes[model, name] for model in tuple(MODELS.values())[1:]],
            }
            for name, own in shares.groupby("profession", sort=False)
        ],
        everywhere=[changes[model, ALL] for model in tuple(MODELS.values())[1:]],
        ranks=edited["ranks"].to_dict("records"),
        told=claims(edited, asked),
        single=[
            int(
                (
                    models["p_page"][(models["second"] == model) & (models["first"] == "SD 1.4")]
                    <= asked.alpha
                ).sum()
            )
            - int(changes[model, ALL]["p_page"] <= asked.alpha)
            for model in tuple(MODELS.values())[1:]
        ],
        ranked=sentences(edited, asked)["ranks"],
        images_a_template=IMAGES_A_TEMPLATE,
        n_professions=len(by_template.levels["profession"]),
        templates=worded["ranks"].to_dict("records"),
        between={row["template"]: row for row in worded["between"].to_dict("records")},
        against={
            row["template"]: row for row in contrasts[contrasts["profession"] == ALL].to_dict("records")
        },
        said=sentences(worded, by_template)["contrast"],
        least=contrasts["detectable"].min(),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.papers.uce", description="Print the page on published counts of professions."
    )
    return command_line.run(lambda _: print(page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())
