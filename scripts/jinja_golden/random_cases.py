#!/usr/bin/env python3
"""Writes random templates and jinja2's results for them, in the format of golden.json.

Usage: python3 random_cases.py SEED COUNT > FILE, then JINJA_GOLDEN=FILE go test -run Golden ./chattemplate/jinja
"""

import json
import random
import signal
import sys

import generate

ATOMS = """1 2 0 -1 3.5 -0.5 1e3 10 'a' 'abc' '' 'é😀x' 'A-b_C' '12' '3.7' 'a,b,c' '\\n_x\\n' none true false n s u l d users
messages nope [1,2,3] [3,1,2] ['b','A','c'] (1,2) () [] {} {'a':1,'b':2} {'b':[1],'A':none} d.a d.b d['list'] users[0]
messages[1].content range(4) 1.0 2**20 'x'*3 [[1,2],[3]] d.items() '<b>&' ['x','y'] ('x'|safe)
users[0].name 'HELLO' 'ß' (l|map('upper'))""".split()
METHODS = """upper() lower() strip() lstrip('a') rstrip() title() capitalize() split() split(',') split('b',1) rsplit('a',1)
replace('a','ZZ') replace('b','',1) startswith('a') endswith(('c','x')) find('b') count('a') isdigit() isalpha() isupper()
splitlines() partition('b') rpartition(',') join(['q','r']) join(l) removeprefix('a')
index('a') isspace() items() keys() values() get('a') get('q',5)
copy() index(1) count(1) append(1) nope a x.y b pop()""".split()
FILTERS = """upper lower trim title capitalize length list first last join join(',') join('-',attribute='name') sort
sort(reverse=true) reverse reverse|list unique|list abs int float string tojson tojson(indent=1)
default('D') default('D',true) replace('a','-') indent(2) indent(2,true) map('string')|list map('upper')|list
map(attribute='name')|list map(attribute='zz')|list select|list reject|list select('odd')|list select('string')|list
selectattr('age')|list|length rejectattr('admin')|list dictsort items|list e safe count d(1) int(5) float(2.5)
sort(attribute='name')|map(attribute='name')|list""".split()
TESTS = """defined undefined none string number integer float boolean mapping sequence iterable odd even divisibleby(2)
in([1,'a']) sameas(none) true false lower upper callable eq(1) gt(0) lt('b') ne(none)""".split()
OPERATORS = "+ - * / // ~ == != < > <= >= in and or".split() + ["not in"]
SUBSCRIPTS = "[0] [-1] ['a'] [5] .a .name [n] ['items'] .0".split()
SLICED = "s l u users messages".split()
SLICES = "[1:] [:-1] [::-1] [::2] [1:2] [-2:]".split()
SPACE = ["", "\n", " ", "\n  ", "  \n", "\t", "a", "b \n c", "\n\n"]
LOOP = "index last first length revindex previtem nextitem cycle(1,2)".split()


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.pick = self.r.choice

    def expr(self, depth):
        pick, k, sub = self.pick, self.r.random(), lambda: self.expr(depth - 1)
        if depth <= 0 or k < 0.12:
            return pick(ATOMS)
        if k < 0.30:
            return f"({sub()})|{pick(FILTERS)}"
        if k < 0.42:
            return f"({sub()}).{pick(METHODS)}"
        if k < 0.48:
            return f"({sub()}){pick(SUBSCRIPTS)}"
        if k < 0.51:
            return pick(SLICED) + pick(SLICES)
        if k < 0.57:
            return f"({sub()}) is {pick(['', 'not '])}{pick(TESTS)}"
        if k < 0.60:
            return f"{sub()} if {sub()} else {sub()}"
        if k < 0.64:
            return f"[{sub()}, {sub()}]"
        if k < 0.67:
            return f"{{'k': {sub()}, 'j': {sub()}}}"
        if k < 0.70:
            return f"{pick(['not ', '-', '+'])}({sub()})"
        return f"({sub()}) {pick(OPERATORS)} ({sub()})"

    def tag(self, text):
        sign = ["", "", "-", "+"]
        return "{%" + self.pick(sign) + f" {text} " + self.pick(sign) + "%}"

    def body(self, depth):
        parts = (self.pick(SPACE) + self.statement(depth - 1) for _ in range(self.r.randint(1, 2)))
        return "".join(parts) + self.pick(SPACE)

    def statement(self, depth):
        pick, tag, k, body = self.pick, self.tag, self.r.random(), lambda: self.body(depth)
        if depth <= 0 or k < 0.3:
            return "{{" + pick(["", "", "-"]) + f" {self.expr(2)} " + pick(["", "", "-"]) + "}}"
        if k < 0.4:
            other = tag("else") + body() if self.r.random() < 0.5 else ""
            return tag("if " + self.expr(2)) + body() + other + tag("endif")
        if k < 0.6:
            return self.loop(pick(["x", "y", "n"]), depth)
        if k < 0.72:
            v = pick(["x", "y", "n", "s"])
            return tag(f"set {v} = {self.expr(2)}") + "{{ " + v + " }}"
        if k < 0.77:
            v = pick(["x", "y"])
            return tag(f"set {v}{pick(['', ' | upper', ' | trim'])}") + body() + tag("endset") + "[{{ " + v + " }}]"
        if k < 0.85:
            m, params = pick(["f", "g"]), pick(["", ", y=2", ", y=x"])
            call = "{{ " + m + "(" + pick(["", "1", "n", "x=3", "1,2", "l"]) + ") }}"
            return tag(f"macro {m}(x{params})") + body() + "{{ x }}{{ n }}" + tag("endmacro") + call
        if k < 0.88:
            return tag(f"with x = {self.expr(1)}") + body() + "{{ x }}" + tag("endwith")
        if k < 0.91:
            return tag("filter " + pick(["upper", "trim", "replace('a','b')"])) + body() + tag("endfilter")
        if k < 0.94:
            return "{#" + pick(["", "-", "+"]) + " c " + pick(["", "-", "+"]) + "#}"
        if k < 0.97:
            return tag("macro w()") + "<{{ caller() }}>" + tag("endmacro") + tag("call w()") + body() + tag("endcall")
        return tag("generation") + body() + tag("endgeneration")

    def loop(self, v, depth):
        pick, tag = self.pick, self.tag
        over = pick(["l", "[1,2]", "users", "range(3)", "d", "'ab'", "messages", "nope", "[]", self.expr(1)])
        cond = pick([""] * 4 + [f" if {self.expr(1)}", f" if {v} is odd"])
        body = self.body(depth)
        if self.r.random() < 0.5:
            body += "{{ loop." + pick(LOOP) + " }}"
        if self.r.random() < 0.2:
            body += tag(pick(["break", "continue"]))
        shown = "{{ " + v + " }}"
        other = tag("else") + self.body(depth) if self.r.random() < 0.3 else ""
        return tag(f"for {v} in {over}{cond}") + body + shown + other + tag("endfor") + shown

    def template(self):
        if self.r.random() < 0.6:
            return "{{ " + self.expr(3) + " }}"
        parts = (self.pick(SPACE) + self.statement(3) for _ in range(self.r.randint(1, 3)))
        return "".join(parts) + self.pick(SPACE)


class Slow(BaseException):
    pass


def stop(*_):
    raise Slow


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGALRM, stop)
    maker, cases = Maker(seed), []
    # What shows how Python is made: names of types and addresses.
    hidden = ["built-in", "<function", "generator", "Macro", "iterator", "reversed", "<LoopContext", "0x"]
    for _ in range(count):
        source = maker.template()
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            case = generate.run(source)
        except Slow:
            continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if len(case.get("output", "")) < 20000 and not any(h in case.get("output", "") for h in hidden):
            cases.append(case)
    json.dump({"now": generate.NOW.isoformat(), "vars": generate.VARIABLES, "cases": cases}, sys.stdout)


if __name__ == "__main__":
    main()
