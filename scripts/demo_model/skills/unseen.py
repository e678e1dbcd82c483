"""Vocabulary that training never draws. Evaluation uses only these names, objects and function words."""

from . import words
from .tales import CONTAINERS, PLACES

NAMES = """Alistair Beatrix Benedict Bettina Blanche Brigitte Bronwyn Callum Candice Caspian Celeste Clarence Clementine Conrad Cordelia
Cyrus Dagmar Damian Delphine Desmond Dominic Edith Eleanor Ernest Esther Eugene Farouk Fatima Ferdinand Fiona Florence Frederick
Genevieve Gerald Gideon Giovanni Gretchen Gustav Harriet Hector Helga Henrietta Ignatius Imogen Ingrid Isabel Ivan Jasper Jerome
Joanna Joaquin Josephine Julian Kathleen Keiko Konrad Leonora Lorenzo Louise Magnus Malcolm Marguerite Matilda Mehmet Miranda
Mohammed Nadia Natasha Nigel Octavia Oswald Penelope Philippa Prudence Quentin Ramona Raphael Reginald Roderick Rosalind Rupert
Salvador Sebastian Sigrid Solomon Svetlana Tabitha Thaddeus Theodora Tobias Ursula Valentina Vincent Vivian Walter Wilfred Winifred
Xavier Yolanda Yvette Zachary""".split()

OBJECTS = """acorns almonds anchors antlers apricots arrows axes badges bagels bats batteries beavers bells belts blankets blocks
bracelets brooms brushes bulbs candles canoes carpets chestnuts cherries clocks coconuts combs compasses crabs crowns
cucumbers curtains cushions daggers desks diamonds dice dominoes doughnuts dragons drums eagles earrings envelopes fans feathers
fences figs flags flutes forks foxes frogs geese gloves goats guitars hammers harps hazelnuts hedgehogs helmets hooks jackets
jewels kettles knives ladders lanterns limes lobsters locks magnets mangoes maps masks mats medals melons mirrors mittens
mugs mushrooms napkins needles nets olives owls pancakes parcels parrots pearls pebbles pickles pillows pins planks plums
pretzels pumpkins radios rafts rakes ribbons rings ropes rugs rulers saddles sardines scarves scissors shovels skateboards
skewers sofas spades sponges spoons squirrels statues stools swords tents tiles torches towels turnips turtles umbrellas vases
violins waffles walnuts wheels whistles wigs zebras""".split()

# Parts of tool names.
VERBS = """archive assemble assign audit browse calibrate cancel capture clone compress configure crop decode decrypt deploy
detect dispatch encode encrypt enroll estimate export extract filter flag forecast generate inspect
issue launch locate migrate monitor notify optimize parse patch pause predict process provision publish
rebuild refresh register render resolve restore resume retrieve rotate scan schedule simulate submit subscribe sync tag track
transcribe trigger upload validate verify""".split()

NOUNS = """account agenda alarm appointment archive artifact asset attachment balance batch booking branch budget catalog
certificate channel checkpoint cluster contact contract cursor customer dashboard dataset deadline device
diagram document domain draft endpoint event expense feed fleet gateway headline image incident inventory
invoice itinerary journal label ledger license manifest matrix metric mortgage notebook package parcel payment payroll
permit pipeline playlist podcast policy portfolio profile proposal queue receipt record refund region repository request
reservation resource roster sensor session shipment signal snapshot subscription survey tenant thread
timer token transcript transfer usage vendor voucher widget workflow""".split()

# No word here is in a vocabulary that training draws from. A few words of function names occur in its wordings: "a
# customer pays".
_POOLS = (words.NAMES, words.OBJECTS, words.NOUNS, words.VERBS, words.ADJECTIVES, words.COMMON, PLACES,
    " ".join(CONTAINERS).split())
_TRAINED = {w.lower() for pool in _POOLS for w in pool}
assert not _TRAINED & {w.lower() for w in NAMES + OBJECTS}, sorted(_TRAINED & {w.lower() for w in NAMES + OBJECTS})
assert not _TRAINED & set(VERBS + NOUNS), sorted(_TRAINED & set(VERBS + NOUNS))
