"""Short lists of English words that a caption's grammar turns on, for `probes.prompts.grammar.caption_grammar`.

Closed classes are complete for captions. The open ones hold only words that a dictionary lists under several parts of
speech and that captions use in one: with them, and the words around, a noun is distinguished from its look-alikes.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DETERMINERS = _words("""
    a an the this that these those some any no every each another either neither both all half several many few much
    more most less other such my your his her its our their whose what which 's ' zero one two three four five six seven
    eight nine ten eleven twelve dozen hundred thousand million
""")
PREPOSITIONS = _words("""
    of in on at by with without within from into onto upon for to toward towards over under underneath above below
    beneath beside besides between among amid amidst amongst around about against along alongside across through
    throughout near nearby behind before after during until till since like unlike than as via per off out up down
    inside outside atop past beyond despite except plus versus vs w
""")
CONJUNCTIONS = _words(
    "and or but nor so yet while when where whereas because although though if unless whether how why & x"
)
PRONOUNS = _words("""
    i me myself you yourself he him himself she herself it itself we us ourselves they them themselves who whom hers
    theirs mine yours ours someone somebody something anyone anybody anything everyone everybody everything nobody
    nothing none there here ones others
""")
AUXILIARIES = _words("""
    is are was were be been being am 'm 're isn aren wasn weren do does did has have had having will would can could
    should shall may might must won cannot t n't ll 've 'd
""")
# After these a form without ending is a verb ("can ride").
MODALS = _words(
    "will would can could should shall may might must cannot don doesn didn couldn wouldn shouldn ll"
)
# After these determiners a noun phrase is singular, so that a form in -s is no noun of it ("a wave breaks"), or plural.
SINGULAR_DETERMINERS = _words("a an this each every another one")
PLURAL_DETERMINERS = _words(
    "two three four five six seven eight nine ten several many few these those both various"
)
# With these a clause begins, which has a verb of its own.
CLAUSE_OPENERS = _words(
    "as while when where whereas because although though if unless that who which what whether until"
)
# After a verb, seldom after its subject's name: "streams through", "dates back".
VERB_PARTICLES = _words("""
    through into past toward towards onto away back up down off out together along around across forward ahead quickly
    slowly carefully happily low high
""")
# Places and states named without an article: "to bed", while "to tie", "to rescue" are verbs.
NOUNS_AFTER_TO = _words("""
    bed water work school church town market class camera shore land sea sky home lunch dinner breakfast ground heaven
    face shoulder shoulders side floor earth music dance day night air board stage court field
""")
ADVERBS = _words("""
    not very too also just only even still quite rather almost really together apart away ahead forward backward
    backwards upside indoors outdoors upstairs downstairs downhill uphill overhead aloud alone again soon now then often
    always never ever well next close far fast later early abroad aside back today tomorrow yesterday tonight
""")

# Adjectives that a dictionary lists as nouns as well, and that captions use as adjectives wherever they stand.
ADJECTIVES = _words("""
    red yellow green blue purple pink brown black white grey gray golden silver gold beige blonde blond tan maroon
    crimson scarlet teal turquoise navy khaki cream-colored colored coloured young old elderly teenage little small big
    large long short tall high low dark bright hot warm wet dry open empty full flat wide narrow deep thick thin heavy
    soft hard rough smooth fresh raw sweet bitter sour salty spicy new public private national international foreign
    royal civil medical legal modern traditional religious formal casual romantic cute pretty beautiful lovely happy sad
    angry calm cool quiet busy crowded rich poor sick dead living alive famous popular main inner outer upper lower
    multiple different same first third fourth good bad best better worst worse great nice fine digital electric
    electronic mechanical plastic wooden woolen metallic ceramic rural urban tropical alpine nordic arctic solar
    complete floral fancy firm lush dirty clean clear blank historical historic funny grand nude naked unknown average
    standard typical natural commercial industrial domestic ancient giant marine social annual daily weekly monthly
    local central federal ethnic ethical tribal sexual racial spiritual classical vintage sharp blunt tender stiff steep
    loose tight tense rapid quick swift slow slick steady stable static silent noisy loud sore deaf lame weak
    strong brave bold shy wise silly stupid proud keen mad crazy insane wicked evil gentle mild rude harsh cruel
    fierce savage tame hollow curved straight crooked bent broken frozen tough sturdy fragile fat slim skinny lean stout
    chubby plump petite tiny huge vast massive enormous equal odd real true false fake genuine exact perfect ideal
    mere sole single whole entire total partial due late recent current former previous prior initial
    ultimate eternal temporary permanent constant regular normal common ordinary rare unique exotic strange weird queer
    plush cosy cozy comfy snug neat tidy messy muddy dusty rusty sandy rocky snowy rainy windy cloudy sunny foggy misty
    stormy icy frosty slushy grassy leafy woody hilly bushy hairy curly wavy frizzy bald bearded furry fluffy woolly
    fuzzy shaggy silky shiny glossy matte smoggy smoky steamy creamy crispy crunchy juicy sticky slippery greasy oily
    soapy bubbly foamy stubby lanky sleepy tired awake asleep drunk sober dizzy hungry thirsty healthy ill injured
    wounded pregnant divine holy sacred wealthy worthy noble loyal elegant gourmet super sheer slight nasty moody stale
    ripe rotten fallen spare extra cunning clever smart candid polar aerial lunar rectangular circular similar familiar
    muscular spectacular nuclear upset overweight upright western eastern northern southern upbeat abstract abandoned
    rustic drab dull vivid pale dim faint opaque transparent translucent reflective visible outdoor indoor free lone
    lonely aged medieval contemporary brand-new homemade handmade coastal suburban
""")
# The same, but nouns where no noun follows that they could describe: "an adult elephant", "two adults"; "on the left".
ADJECTIVES_AND_NOUNS = _words("""
    orange adult female male human individual native military professional amateur senior junior elementary antique
    classic special general major minor front rear top bottom left right middle double various second last final light
    cold square round plain solid liquid musical pro future present portable mobile remote concrete safe wild damp
    blind original newborn novel secret opposite elder teen patient official express elite deviant chief american
    asian african indian european chinese japanese french german italian spanish british english russian mexican latino
    latina arab muslim christian jewish hindu buddhist olympic korean thai vietnamese turkish greek irish scottish dutch
    swiss swedish polish brazilian canadian australian egyptian iranian
""")
# What "light" does not describe: "a light bulb" holds two nouns.
LIGHTS = _words(
    "bulb bulbs switch switches pole poles post posts fixture fixtures show shows string strings saber rail"
)
# Endings of adjectives, where a noun follows ("a social worker"), and the nouns that end so too ("animal shelter").
ADJECTIVE_ENDINGS = (
    "al",
    "ic",
    "ar",
    "ous",
    "ive",
    "ary",
    "ish",
    "ese",
    "less",
    "ful",
    "able",
    "ible",
    "esque",
)
NOUNS_LIKE_ADJECTIVES = _words("""
    animal cereal capital coral mineral mechanic mosaic comic magic portal pedal ritual crystal garlic festival carnival
    memorial chemical criminal oral mural material journal medal metal hospital signal terminal rehearsal music traffic
    fabric picnic clinic topic attic lyric arsenal cathedral sandal cardinal recital proposal funeral disposal caesar
    car bar guitar sugar collar dollar star altar cellar caviar grammar pillar cedar calendar nectar jar scholar
    detective native archive olive executive relative captive library military canary dictionary secretary notary dairy
    diary missionary stationary glossary sanctuary fish dish radish garnish relish varnish polish finish table cable
    vegetable stable fable bible crucible handful mouthful spoonful armful bowlful professional wireless
""")

# Forms in -ing that captions use as names of things.
NAMES_IN_ING = _words("""
    building wedding painting drawing clothing ceiling railing evening morning meeting crossing landing parking opening
    lighting lightning bedding icing frosting topping stuffing dressing serving filling pudding dumpling earring ring
    string spring king wing thing swing sling awning outing gathering recording writing engraving carving stocking
    legging leggings covering lining packaging coating carpeting flooring siding roofing scaffolding housing marking
    lettering offspring inning sibling duckling sapling seedling being ping bling sting hearing feeling clearing
    training engineering marketing manufacturing accounting banking
""")

# Verbs that captions put after a noun and that are nouns as well ("the person rides a bike").
VERBS = _words("""
    hold ride stand sit walk play look watch run jump lay lie wear carry use eat drink throw catch hit swing fly ski
    surf skate skateboard snowboard pose smile talk speak read write cook bake cut make take get go come put prepare
    show work study teach help paint draw dance sing climb cross drive push pull lean rest sleep wait wave point reach
    touch kick serve laugh cry cheer hug kiss shake shop camp hike hunt fish row sail swim dive slide skid race travel
    visit perform practice practise attempt try begin start stop stay stretch bend kneel squat crouch crawl turn roll
    spin grind balance bite lick sniff feed pet groom brush wash clean dry repair fix build design inspect examine check
    test measure mix pour stir fry grill roast slice chop grate plant water harvest pick gather collect load lift move
    place hang gaze stare glance peer peek view explore browse search guard march parade protest celebrate greet address
    answer ask call chat text type film photograph record snap shoot aim fire face head approach follow chase lead guide
    direct coach train treat tend care dress model display exhibit feature offer present sell trade buy order pay return
    tackle block pass bowl pitch bat bounce dribble dunk putt score volley smash handle operate analyze conduct create
    develop manage plan monitor review report discuss share support supervise sketch sculpt sample toast sip taste blow
    puff smoke relax enjoy stroll glide trek tour dine grin rush leap hop hover land rise float drift tie untie fall
    break flow shine glow spread cover bark open close knit sew bloom burn melt arrive crash contain say list advertise
    state indicate enter
""")

# Names of things that have no singular of their own, or another meaning in it.
PLURAL_ONLY = _words("""
    jeans shorts slacks trousers pants tights leggings overalls glasses sunglasses eyeglasses spectacles goggles
    binoculars headphones scissors pliers tweezers pajamas pyjamas clothes sports graffiti
""")
# Names in -s that are no plural.
NAMES_IN_S = _words("""
    paris texas vegas las los angeles dallas kansas illinois massachusetts arkansas athens brussels naples wales
    netherlands philippines bahamas hermes james charles thomas chris jesus williams jones davis harris adams starbucks
    doritos cheerios pringles skittles twinkies reeses mcdonalds adidas asics vans lays sears levis mercedes
""")
SINGULAR = {"people": "person", "leaves": "leaf", "oxen": "ox", "fries": "fry", "dice": "die"}
# Nouns that the dictionary of lemminflect lacks, or lists as verbs, adjectives or adverbs alone.
NOUNS_NOT_LISTED = _words("""
    bar log top tin dam lounge stud ref ace remote mobile google parking dad mom mum boss pub gym lab mic ad bun rep
    selfie jet tan ski kit pit hub den gig bib bog jog bake reset upload download tattoo third bars logs tops tins dams
    lounges
""")

# Who acts, so that a form in -s after it is a verb ("the crowd watches"): animals, and people named by other words than
# the human words of the paper and names in -er, -or or -ist.
AGENTS = _words("""
    person chef cook nurse judge pilot guard guide crowd team family couple audience band class clerk coach scribe spy
    artist student attendant assistant agent president accountant consultant sergeant lieutenant merchant servant
    immigrant tenant patient client resident waitress actress hostess seamstress stewardess barista guitarist pianist
    mechanic critic cleric shepherd monk nun priest rabbi imam pope king queen prince princess knight architect athlete
    referee goalie rookie toddler infant baby kid teen thief chief detective executive astronaut cosmonaut butcher
    tailor plumber captain surgeon physician acrobat clown mime magician wizard witch model bride groom host ghost
    champion hero heroine scientist economist therapist pharmacist dentist florist machinist orchestra choir troop squad
    troupe tribe bartender entrepreneur intern gymnast diplomat librarian husband wife mother father sister brother son
    daughter aunt uncle cousin parent friend neighbor neighbour tourist citizen civilian veteran hiker dog cat bird
    horse cow sheep goat pig lamb bear elephant giraffe zebra lion tiger leopard cheetah monkey ape gorilla puppy kitten
    duck goose swan eagle hawk owl seagull gull pigeon parrot penguin chicken rooster hen fox wolf deer moose elk bull
    calf donkey mule camel llama rabbit squirrel mouse rat hamster snake lizard turtle tortoise frog fish shark whale
    dolphin seal otter bee butterfly spider ant insect crab animal creature pony foal cub kangaroo koala panda
""")
# Names in -er and -or of things and not of who acts.
THINGS_IN_ER = _words("""
    water paper flower tower corner river computer letter counter center centre poster sweater shower dinner supper
    butter folder trailer scooter layer cover number order weather winter summer leather feather ladder diaper pepper
    burger hamburger cheeseburger container roller helicopter printer controller monitor mirror door floor motor tractor
    color colour harbor armor error escalator elevator refrigerator radiator calculator projector generator sensor razor
    anchor odor vapor flavor indoor outdoor exterior interior decor meter heater cooler freezer toaster blender mixer
    locker dresser drawer hanger zipper buzzer timer speaker amplifier charger adapter router server cracker ginger
    cucumber lobster oyster powder copper silver timber lumber rubber amber fiber sticker banner marker eraser stapler
    ruler cutter slicer grinder peeler slippers slipper sneaker loafer blazer jumper pullover boxer trouser newspaper
    wrapper coaster platter pitcher saucer tumbler skewer burner boiler cooker dishwasher dryer washer vacuum sprinkler
    planter mower skyscraper shelter theater theatre border gutter shutter rafter pier fever disorder chapter quarter
    semester october september november december cider beer stroller walker carrier rover bumper fender tanker cruiser
    bomber steamer freighter chopper laser taser roster register cluster disaster clutter litter batter glitter cancer
    ulcer liver shoulder finger after over under ever never however together another other either neither rather further
    former latter proper inner outer upper lower super power hammer caterpillar sewer reader header footer altar
    tenor minor major
""")


@cache
def human_words_of_table_2() -> tuple[str, ...]:
    """Return the 105 words by which captions are sorted, in the order of Wu et al. 2025, Table 2."""
    with Path(__file__).with_name("human_words.csv").open(encoding="utf-8", newline="") as file:
        return tuple(row["word"] for row in csv.DictReader(file))
