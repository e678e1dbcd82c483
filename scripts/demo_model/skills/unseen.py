"""Vocabulary that training never draws: evaluation asks with these names, objects and tool words only."""

from . import words

NAMES = """Alistair Beatrix Benedict Bettina Blanche Brigitte Bronwyn Callum Candice Caspian Celeste Clarence Clementine Conrad Cordelia
Cyrus Dagmar Damian Delphine Desmond Dominic Edith Eleanor Ernest Esther Eugene Farouk Fatima Ferdinand Fiona Florence Frederick
Genevieve Gerald Gideon Giovanni Gretchen Gustav Harriet Hector Helga Henrietta Ignatius Imogen Ingrid Isabel Ivan Jasper Jerome
Joanna Joaquin Josephine Julian Kathleen Keiko Konrad Leonora Lorenzo Louise Magnus Malcolm Marguerite Matilda Mehmet Miranda
Mohammed Nadia Natasha Nigel Octavia Oswald Penelope Philippa Prudence Quentin Ramona Raphael Reginald Roderick Rosalind Rupert
Salvador Sebastian Sigrid Solomon Svetlana Tabitha Thaddeus Theodora Tobias Ursula Valentina Vincent Vivian Walter Wilfred Winifred
Xavier Yolanda Yvette Zachary""".split()

OBJECTS = """acorns almonds anchors antlers apricots arrows axes badges bagels baskets bats batteries beavers bells belts blankets blocks
bracelets brooms brushes buckets bulbs candles canoes carpets chestnuts cherries clocks coconuts combs compasses crabs crowns
cucumbers curtains cushions daggers desks diamonds dice dominoes doughnuts dragons drums eagles earrings envelopes fans feathers
fences figs flags flutes forks foxes frogs geese gloves goats guitars hammers harps hazelnuts hedgehogs helmets hooks jackets
jewels kettles knives ladders lanterns leaves limes lobsters locks magnets mangoes maps masks mats medals melons mirrors mittens
mugs mushrooms napkins needles nets olives owls pancakes parcels parrots pearls pebbles pickles pillows pins planks plums
pretzels pumpkins radios rafts rakes ribbons rings ropes rugs rulers saddles sardines scarves scissors shovels skateboards
skewers sofas spades sponges spoons squirrels statues stools swords tents tiles torches towels turnips turtles umbrellas vases
violins waffles walnuts wheels whistles wigs zebras""".split()

# Parts of tool names.
VERBS = """archive assemble assign audit browse calibrate cancel capture clone compress configure convert crop decode decrypt deploy
detect dispatch encode encrypt enroll estimate evaluate export extract fetch filter flag forecast format generate import inspect
issue launch locate lookup merge migrate monitor notify optimize parse patch pause predict process provision publish query
rebuild refresh register render resolve restore resume retrieve rotate scan schedule simulate submit subscribe sync tag track
transcribe trigger upload validate verify""".split()

NOUNS = """account agenda alarm album appointment archive artifact asset attachment balance batch booking branch bucket budget catalog
certificate channel checkpoint cluster commit contact container contract coupon cursor customer dashboard dataset deadline device
diagram document domain draft endpoint entry event expense feed fleet gateway headline image incident index inventory
invoice itinerary journal label ledger license log manifest matrix metric mortgage notebook order package parcel payment payroll
permit pipeline playlist podcast policy portfolio profile proposal queue receipt record refund region report repository request
reservation resource roster sample schema sensor session shipment signal snapshot subscription survey task template tenant thread
timer token transcript transfer usage vendor voucher warehouse widget workflow""".split()

# Nothing here is a word of training.
_TRAINED = {w.lower() for pool in (words.NAMES, words.OBJECTS, words.NOUNS, words.VERBS, words.ADJECTIVES, words.COMMON) for w in pool}
assert not _TRAINED & {w.lower() for w in NAMES + OBJECTS}, sorted(_TRAINED & {w.lower() for w in NAMES + OBJECTS})
assert not _TRAINED & set(VERBS + NOUNS), sorted(_TRAINED & set(VERBS + NOUNS))
