package ggufwriter

// Alphabet returns s as the vocabulary files of GPT-2 write it, with one printable character for each byte.
func Alphabet(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = printable(s[i])
	}
	return string(r)
}

// printable maps a byte to the character that represents it in the vocabulary files of GPT-2.
func printable(b byte) rune {
	if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
		return rune(b)
	}
	n := rune(0)
	for c := byte(0); c < b; c++ {
		if !(c >= '!' && c <= '~' || c >= 0xa1 && c <= 0xac || c >= 0xae) {
			n++
		}
	}
	return 256 + n
}
