package tokenizer

import "unicode/utf8"

// GPT-2's vocabulary files write every byte as a printable character. Printable bytes stand for themselves; the
// others are the characters from U+0100 on, in order.

var byteOf [0x144]int16 // by character; -1 for those that stand for no byte

func init() {
	for i := range byteOf {
		byteOf[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		byteOf[r] = int16(b)
	}
}

// fromAlphabet returns the bytes that s stands for. Characters outside the alphabet are kept as they are.
func fromAlphabet(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if int(r) < len(byteOf) && byteOf[r] >= 0 {
			b = append(b, byte(byteOf[r]))
		} else {
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return string(b)
}
