// Package lineeditortest has what tests of the line editor and of the program type, and what they look for.
package lineeditortest

import (
	"regexp"
	"strings"
)

// Scripts are texts in many writing systems.
var Scripts = map[string]string{
	"Latin-1": "aéb ß ÿ ¡ñ§ \u00a0x", "all of Latin-1": latin1(), "C1 controls": "a\u0080\u0085\u009bb",
	"decomposed": "cafe\u0301 n\u0303 a\u0308\u0323", "Vietnamese": "Tiếng Việt rất đẹp",
	"decomposed Vietnamese": "Tie\u0302\u0301ng Vie\u0323\u0302t", "Polish": "Zażółć gęślą jaźń",
	"Turkish": "İstanbul ığüşöç", "Icelandic": "Þórður æðarfugl",
	"Greek": "Ξεσκεπάζω ψυχοφθόρα", "polytonic": "ἀρχὴ ᾧ ᾯ",
	"Russian": "Съешь ещё этих", "Ukrainian": "Їжак ґанок єдність",
	"Georgian": "გთხოვთ ახლავე", "Armenian": "Բարեւ ձեզ",
	"Hebrew": "שלום עולם", "Hebrew points": "שָׁלוֹם", "Arabic": "السلام عليكم",
	"Arabic marks": "مُحَمَّدٌ", "Persian": "می\u200cخواهم",
	"Urdu": "آپ کیسے ہیں", "Hindi": "नमस्ते क्षत्रिय ज्ञान",
	"Marathi": "र्\u200dया श्री", "Bengali": "আমি বাংলায়",
	"Punjabi":  "ਸਤਿ ਸ੍ਰੀ ਅਕਾਲ",
	"Gujarati": "નમસ્તે", "Tamil": "வணக்கம் ஸ்ரீ",
	"Telugu": "నమస్కారం", "Kannada": "ನಮಸ್ಕಾರ", "Malayalam": "നമസ്കാരം",
	"Sinhala": "ආයුබෝවන් ශ්\u200dරී", "Thai": "สวัสดีครับ น้ำ",
	"Lao": "ສະບາຍດີ", "Burmese": "မင်္ဂလာပါ", "Khmer": "ជំរាបសួរ",
	"Tibetan": "བཀྲ་ཤིས་བདེ་ལེགས།", "Amharic": "ሰላም ለዓለም",
	"Mongolian": "ᠮᠣᠩᠭᠣᠯ", "Chinese": "你好，世界。龍𠮷",
	"Japanese": "こんにちは カタカナ ﾊﾝｶｸ が",
	"Korean":   "안녕하세요", "jamo": "\u1112\u1161\u11ab\u1100\u1173\u11af", "fullwidth": "ＡＢＣ１２３",
	"flags":      "🇫🇷🇩🇪🇯🇵 🏴\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F 🏳️‍🌈",
	"families":   "👨‍👩‍👧‍👦 👩‍❤️‍💋‍👨",
	"skin tones": "👍🏽 👩🏿‍🚀", "keycaps": "1️⃣ #️⃣", "variation": "☺︎ ☺️ ❤",
	"mathematics": "∀x∈ℝ 𝔸⃗ ½²", "Cherokee": "ᏣᎳᎩ", "runes": "ᚠᚢᚦ",

	"lone marks": "a\u0085\u0301 \u200d \ufe0f", "bidi controls": "a\u202eb\u202c\u2066c\u2069",
}

func latin1() string {
	var b strings.Builder
	for r := rune(0xa0); r <= 0xff; r++ {
		b.WriteRune(r)
	}
	return b.String()
}

// Questions are what a program can ask a terminal: for its kind, its cursor, its colours and its state.
var Questions = regexp.MustCompile(`\x1b\[[?>=]?[0-9;]*[cnqx]|\x1b\[[?0-9;]*\$p|` +
	`\x1b\][^\x07\x1b]*\?|\x1bP[+$]q|\x1b\[\?u|\x05`)
