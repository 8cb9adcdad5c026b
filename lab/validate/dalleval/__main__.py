"""Compare an audit by professions with known answers: ``python -m lab.validate.dalleval toyworld-work``.

Generates *a person who works as a ...* with `toyworld-work`, where leans and skins are planted, with
`toyworld-work-null`, which reads the same words and means nothing by them, and with `toyworld-null`, which never read
them. The checker and the observer of skin tone read the images, and toyworld's answering network is asked about them.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import pandas as pd
from scipy import stats

from lab.measured import MeasuredPage, Numbers
from lab.train.base.truth import component_groups
from lab.validate.dalleval.answers import LEVEL, READERS, answers, covered, deviations
from lab.validate.dalleval.network_readings import GenderQuestion, answer_rates, read_skins
from probes.toyworld import SHARED, WORK, WORKING
from probes.toyworld.world import load_world

IMAGES, AUDITS, STEPS = 48, 5, 20  # a profession and model; of toyworld-work, each with noises of its own
SEED, NULL_SEED = 700_000, 600_000  # of the first image of toyworld-work, not calibrated on; of the other two
NAMED = 24  # images a profession, of a woman and of a man
AIM = 0.93  # of the professions, at least, have the planted value inside the interval


def measure(model: str) -> dict[str, Any]:
    """Return the numbers of the page; `model` is audited several times, with other noises."""
    from lab.train.work.measure import profession_rows, read_models, verdict_rates

    world, drawn = load_world(model), {"steps": STEPS, "threads": 1}
    readers = {"answer": GenderQuestion(), "observed": read_skins}
    an_audit = (len(world.professions) + 1) * IMAGES  # noises
    of_work = [
        read_models(
            (model,),
            images={"neutral": IMAGES},
            first_seed=SEED + number * an_audit,
            readers=readers,
            **drawn,
        )[model]
        for number in range(AUDITS)
    ]
    others = [name for name in (*WORKING, SHARED) if name != model]
    readings = {model: of_work[0]} | read_models(
        others, images={"neutral": IMAGES}, first_seed=NULL_SEED, readers=readers, **drawn
    )
    # noises that no image of *person* has
    named = read_models(
        (model,),
        images=dict.fromkeys(component_groups(world).values(), NAMED),
        first_seed=SEED + AUDITS * an_audit,
        readers={"answer": readers["answer"]},
        **drawn,
    )[model]
    of_verdicts = verdict_rates(world)
    rates = answer_rates(named, component_groups(world), of_verdicts)

    def found(of_audit: pd.DataFrame) -> dict[str, Any]:
        return answers(profession_rows(of_audit, world), of_audit, of_verdicts, rates)

    return {
        "images": IMAGES,
        "steps": STEPS,
        "first_seed": SEED,
        "null_seed": NULL_SEED,
        "audits": [covered(found(one)) for one in of_work],
        "rates": rates,
        **found(pd.concat(of_work)),
        "deviations": {
            name: deviations(some.assign(skin=some["observed"])) for name, some in readings.items()
        },
    }


def values(numbers: Numbers) -> dict[str, Any]:
    """What the page shows of `measure`."""
    total = len(numbers["professions"])
    least = math.ceil(AIM * total)
    return {
        **numbers,
        "readers": READERS,
        "whole": covered(numbers),
        "least": least,
        "aim": AIM,
        "often": stats.binom.sf(least - 1, total, LEVEL),
    }


PAGE = MeasuredPage(
    "dalleval_answers",
    "lab.validate.dalleval",
    "Compare an audit by professions with what was planted.",
    values,
    measure,
    (WORK,),
)

if __name__ == "__main__":
    sys.exit(PAGE.main())
