"""The word tables of generated questions: short, distinct, one meaning each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Table(NamedTuple):
    """Words of which level 1 has the first ones, and each level as many more.

    So harder levels bring words never seen before. (Months are always the same twelve.)
    """

    words: tuple[str, ...]
    first: int

    def at(self, level: int) -> tuple[str, ...]:
        """The words of a level."""
        return self.words[: self.first * level]


def _table(first: int, words: str) -> Table:
    return Table(tuple(words.split()), first)


NAMES = _table(
    10,
    "Ana Bo Cy Di Ed Flo Gus Hal Ida Jon Kay Leo Mia Ned Oda Pia Quin Ray Sue Ted Uma Vic Wes Xia "
    "Yan Zoe Abe Bea Col Dot",
)
MONTHS = _table(12, "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")
COLOURS = _table(4, "red blue green gold pink grey black white brown lilac teal plum")
SHAPES = _table(4, "star ring moon cross heart wave leaf arrow cube spade drop knot")
ROOMS = ("attic", "cellar", "hall", "kitchen", "porch", "study", "garage", "larder", "office")
Stages = tuple[tuple[str, tuple[str, ...]], ...]
"""What may hold a thing, from the inside out: (what it is, how each is called)."""
Slots = tuple[tuple[tuple[str, str], ...], ...]
"""For each place in an answer, pairs of words of which one is right."""

STAGES: Stages = (
    ("box", ("red", "blue", "green", "gold", "pink", "grey")),
    ("bag", ("silk", "wool", "felt", "linen", "cotton", "hemp")),
    ("crate", ("oak", "pine", "elm", "teak", "birch", "cedar")),
    ("cart", ("iron", "tin", "zinc", "brass", "steel", "copper")),
    ("van", ("north", "south", "east", "west", "upper", "lower")),
)


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


def listed(words: Iterable[str]) -> str:
    """Words in brackets, as questions and statements show them: `[Ana][Bo]`."""
    return "".join(f"[{word}]" for word in words)


def choices_line(choices: Iterable[str]) -> str:
    """The line below a question that shows its choices."""
    return f"Choices: {listed(choices)}"
