#!/usr/bin/env python3
"""Prints chattemplate/jinja/casing_table.go: characters whose upper or title case has more than one character."""

import sys


def entries(table):
    for c, s in table.items():
        print('\t0x%04x: "%s",' % (c, "".join("\\u%04x" % ord(x) for x in s)))


chars = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
upper = {c: chr(c).upper() for c in chars if len(chr(c).upper()) > 1}
title = {c: chr(c).title() for c in chars if len(chr(c).title()) > 1 and chr(c).title() != upper.get(c)}
print("package jinja\n")
print("// Characters whose upper case or title case has more than one character, from Unicode's SpecialCasing.txt")
print("// (scripts/jinja_golden/casing.py prints this file).\n")
print("var upperSpecial = map[rune]string{")
entries(upper)
print("}\n\n// titleSpecial holds those whose title case differs from their upper case.\nvar titleSpecial = map[rune]string{")
entries(title)
print("}")
