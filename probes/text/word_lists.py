"""Short lists of English words that a caption's grammar turns on, for `probes.text.caption_grammar`.

Closed classes are complete for captions. The open ones hold only words that a dictionary lists under several parts of
speech and that captions use in one: with them, and the words around, a noun is told from its look-alikes.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DETERMINERS = _words("""
    a an the this that these those some any no every each another either neither both all half several many few much
    more most less other others such my your his her its our their whose what which 's ' zero one two three four five
    six seven eight nine ten eleven twelve dozen hundred thousand million
""")
PREPOSITIONS = _words("""
    of in on at by with without within from into onto upon for to toward towards over under underneath above below
    beneath beside besides between among amid amidst amongst around about against along alongside across through
    throughout near nearby behind before after during until till since like unlike than as via per off out up down
    inside outside atop past beyond despite except plus versus vs near
""")
CONJUNCTIONS = _words(
    "and or but nor so yet while when where whereas because although though if unless whether & x"
)
PRONOUNS = _words("""
    i me myself you yourself he him himself she herself it itself we us ourselves they them themselves who whom hers
    theirs mine yours ours someone somebody something anyone anybody anything everyone everybody everything nobody
    nothing none there here ones
""")
AUXILIARIES = _words("""
    is are was were be been being am 'm 're isn aren wasn weren do does did has have had having will would can could
    should shall may might must won cannot t n't ll 've 'd
""")
ADVERBS = _words("""
    not very too also just only even still quite rather almost really together apart away ahead forward backward
    backwards upside indoors outdoors upstairs downstairs downhill uphill overhead aloud alone again soon now then
    often always never ever well next close far fast later early abroad aside back today tomorrow yesterday tonight
""")

# Adjectives that are also listed as nouns: a noun only where nothing follows that they could describe.
ADJECTIVES = _words("""
    red orange yellow green blue purple pink brown black white grey gray golden silver gold beige blonde blond tan
    young old elderly adult teenage little small big large long short tall high low dark light bright hot cold warm wet
    dry open empty full round square flat wide narrow deep thick thin heavy soft hard rough smooth fresh raw sweet
    female male human individual native local public private national international foreign royal civil military
    professional amateur senior junior elementary medical legal classic antique modern traditional vintage religious
    formal casual romantic cute pretty beautiful happy sad angry calm cool quiet busy crowded rich poor sick dead
    living alive famous popular special general main major minor front rear top bottom left right inner outer upper
    lower middle double single multiple various different same first second third last final initial good bad best
    american asian african indian european chinese japanese french german italian spanish british english russian
    mexican latino latina arab muslim christian jewish hindu buddhist olympic digital electric electronic mechanical
    plastic wooden metallic ceramic concrete rural urban tropical alpine nordic solar future past present complete
    plain floral fancy firm lush dirty clean clear blank solid liquid musical historical funny grand fine pro nude
    unknown average standard typical natural wild mobile portable remote commercial industrial domestic
    ancient giant marine
""")

# Forms in -ing that captions use as names of things.
NAMES_IN_ING = _words("""
    building wedding painting drawing clothing ceiling railing evening morning meeting crossing landing parking
    opening lighting lightning bedding icing frosting topping stuffing dressing serving filling pudding dumpling
    earring ring string spring king wing thing swing sling awning outing gathering recording writing engraving carving
    stocking legging leggings covering lining packaging coating carpeting flooring siding roofing scaffolding
    housing marking lettering offspring inning sibling duckling sapling seedling being ping bling sting
    hearing feeling exhibiting training engineering marketing manufacturing accounting banking
""")

# Verbs that captions put after a noun and that are nouns as well ("the person rides a bike").
VERBS = _words("""
    hold ride stand sit walk play look watch run jump lay lie wear carry use eat drink throw catch hit swing fly ski
    surf skate skateboard snowboard pose smile talk speak read write cook bake cut make take get go come put prepare
    show work study teach help paint draw dance sing climb cross drive push pull lean rest sleep wait wave point reach
    touch kick serve laugh cry cheer hug kiss shake shop camp hike hunt fish row sail swim dive slide skid race travel
    visit perform practice practise attempt try begin start stop stay stretch bend kneel squat crouch crawl turn roll
    spin grind balance bite lick sniff feed pet groom brush wash clean dry repair fix build design inspect examine
    check test measure mix pour stir fry grill roast slice chop grate plant water harvest pick gather collect load
    lift move place hang gaze stare glance peer peek view explore browse search guard march parade protest celebrate
    greet address answer ask call chat text type film photograph record snap shoot aim fire face head approach follow
    chase lead guide direct coach train treat tend care dress model display exhibit feature offer present sell trade
    buy order pay return tackle block pass bowl pitch bat bounce dribble dunk putt score volley smash handle operate
    analyze conduct create develop manage plan monitor review report discuss share support supervise sketch sculpt
    sample toast sip taste blow puff smoke relax enjoy stroll stop stare glide trek tour dine grin rush leap hop hover
    land rise float drift tie untie
""")

# Names of things that have no singular of their own, or another meaning in it.
PLURAL_ONLY = _words("""
    jeans shorts slacks trousers pants tights leggings overalls glasses sunglasses eyeglasses spectacles goggles
    binoculars headphones scissors pliers tweezers pajamas pyjamas clothes sports
""")
SINGULAR = {"people": "person", "leaves": "leaf"}


@cache
def human_words_of_table_2() -> tuple[str, ...]:
    """Return the words by which captions are sorted, in the order of the paper.

    Source
    ------
    Wu et al. 2025, Table 2.

    Examples
    --------
    >>> len(human_words_of_table_2()), human_words_of_table_2()[:3]
    (105, ('woman', 'female', 'lady'))
    """
    with Path(__file__).with_name("human_words.csv").open(encoding="utf-8", newline="") as file:
        return tuple(row["word"] for row in csv.DictReader(file))
