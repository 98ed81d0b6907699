"""The word tables of generated questions: short, distinct, one meaning each.

Level 1 uses the first part of a table only, so that harder levels bring words never seen before
(months are always the same twelve).
"""

from __future__ import annotations

from collections.abc import Iterable

NAMES = (
    *("Ana", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jon"),
    *("Kay", "Leo", "Mia", "Ned", "Oda", "Pia", "Quin", "Ray", "Sue", "Ted"),
    *("Uma", "Vic", "Wes", "Xia", "Yan", "Zoe", "Abe", "Bea", "Col", "Dot"),
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ROOMS = ("attic", "cellar", "hall", "kitchen", "porch", "study", "garage", "larder", "office")
COLOURS = (
    *("red", "blue", "green", "gold", "pink", "grey"),
    *("black", "white", "brown", "lilac", "teal", "plum"),
)
SHAPES = (
    *("star", "ring", "moon", "cross", "heart", "wave"),
    *("leaf", "arrow", "cube", "spade", "drop", "knot"),
)
STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("box", ("red", "blue", "green", "gold", "pink", "grey")),
    ("bag", ("silk", "wool", "felt", "linen", "cotton", "hemp")),
    ("crate", ("oak", "pine", "elm", "teak", "birch", "cedar")),
    ("cart", ("iron", "tin", "zinc", "brass", "steel", "copper")),
    ("van", ("north", "south", "east", "west", "upper", "lower")),
)
"""What may hold a thing, from the inside out: (what it is, how each is called)."""

Slots = tuple[tuple[tuple[str, str], ...], ...]
"""For each place in an answer, pairs of words of which one is right."""


def _slots(*rows: str) -> Slots:
    return tuple(
        tuple((pair.split("/")[0], pair.split("/")[1]) for pair in row.split()) for row in rows
    )


LOST = _slots(
    "small/large short/long thin/thick light/heavy narrow/wide high/low deep/shallow "
    "tight/loose plain/fancy simple/ornate whole/cracked folded/rolled hollow/solid "
    "single/double plump/slender even/uneven stiff/limp coarse/fine tall/squat oval/oblong "
    "broad/slim chunky/dainty shiny/matte bulky/compact",
    "red/blue green/pink black/white gold/silver grey/brown purple/yellow orange/teal "
    "crimson/navy ivory/ebony lilac/olive amber/violet coral/indigo scarlet/azure beige/maroon "
    "tan/mauve cream/charcoal ruby/emerald khaki/turquoise rust/mint copper/bronze "
    "ochre/cyan peach/plum jade/rose sepia/lime",
    "cup/hat key/ring book/lamp coat/belt bell/drum bag/box pen/brush comb/mirror fork/spoon "
    "plate/bowl shoe/glove sock/scarf watch/chain ball/kite flute/harp map/purse knife/spade "
    "rope/ladder candle/vase chair/stool",
    "old/new early/late antique/modern used/unused worn/fresh",
    "round/square flat/curved straight/bent pointed/blunt smooth/rough",
    "open/closed full/empty wet/dry clean/dirty hot/cold",
    "wooden/iron glass/clay silk/wool paper/stone leather/tin",
    "upstairs/downstairs inside/outside near/far left/right front/back",
    "loud/quiet sharp/dull fast/slow hard/soft sweet/sour",
)
GAMES = _slots(
    "Lions/Bears Tigers/Wolves Foxes/Lynxes Jaguars/Pumas Leopards/Panthers Cheetahs/Hyenas "
    "Jackals/Coyotes Zebras/Giraffes Hippos/Rhinos Gorillas/Baboons Monkeys/Lemurs "
    "Koalas/Pandas Wombats/Kangaroos Sloths/Tapirs Boars/Hogs Stags/Elks Antelopes/Gazelles "
    "Weasels/Ferrets Minks/Beavers Marmots/Squirrels Raccoons/Opossums Bisons/Yaks "
    "Sables/Martens Shrews/Hamsters",
    "Owls/Hawks Eagles/Crows Swans/Geese Falcons/Kites Ravens/Magpies Ducks/Teals Larks/Finches "
    "Swifts/Swallows Herons/Egrets Parrots/Macaws Pigeons/Doves Quails/Grouses "
    "Turkeys/Peacocks Penguins/Puffins Pelicans/Cormorants Ospreys/Condors Cuckoos/Orioles "
    "Thrushes/Starlings Sparrows/Buntings Ibises/Flamingos Plovers/Snipes "
    "Albatrosses/Petrels Woodpeckers/Jays Nightingales/Canaries",
    "Sharks/Whales Seals/Otters Crabs/Squids Dolphins/Porpoises Walruses/Manatees "
    "Lobsters/Shrimps Oysters/Mussels Clams/Scallops Snails/Whelks Turtles/Crocodiles "
    "Rays/Skates Herrings/Sardines Cods/Haddocks Soles/Flounders Perches/Breams "
    "Mackerels/Anchovies Sprats/Sturgeons Marlins/Groupers Urchins/Corals Narwhals/Orcas",
    "Bulls/Rams Goats/Mules Camels/Llamas",
    "Cobras/Vipers Geckos/Toads Newts/Frogs",
    "Bees/Wasps Ants/Moths Crickets/Beetles",
    "Rabbits/Hares Moles/Voles Badgers/Skunks",
    "Storks/Cranes Gulls/Terns Robins/Wrens",
    "Pikes/Trouts Eels/Carps Salmons/Tunas",
)
"""The first three places, which are all that level 1 with three parts asks for, have most words."""


def table(words: tuple[str, ...], level: int, first: int) -> tuple[str, ...]:
    """The words of a level: `first` of them at level 1, and as many more at each level."""
    return words[: first * level]


def listed(words: tuple[str, ...] | list[str]) -> str:
    """Words in brackets, as questions and statements show them: `[Ana][Bo]`."""
    return "".join(f"[{word}]" for word in words)


def place_of(turn: int, words: int, places: int) -> int:
    """Where the answer stands among the choices, so that words and places are both balanced.

    Answers take turns through `words` words; the places move on by one each time and by one more
    after each round of words, so every word comes to every place.
    """
    return (turn + turn // words) % places


def with_choices(text: str, choices: Iterable[object]) -> str:
    """A question followed by a line with its choices."""
    return f"{text}\nChoices: {listed([str(choice) for choice in choices])}"
