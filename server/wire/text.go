package wire

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. It allocates only what dst needs to grow. It escapes what JSON requires,
// DEL and the two line separators that old JavaScript takes for line ends, and replaces bytes that are not UTF-8.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			dst = append(dst, s[done:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			done = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[done:i]...), "\ufffd"...)
			done = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[done:i]...), '\\', 'u', '2', '0', '2', hexDigits[r&15])
			done = i + size
		}
		i += size
	}
	return append(append(dst, s[done:]...), '"')
}
