package base64url

import "testing"

func TestDecodeTakesOneSpelling(t *testing.T) {
	if raw, err := Decode("AQI"); err != nil || string(raw) != "\x01\x02" {
		t.Errorf("%x, %v", raw, err)
	}
	for _, text := range []string{"AQI=", "AQJ", "AQI\n", "A\rQI", "AQ I", "A", "+/", "AQI AQI"} {
		if raw, err := Decode(text); err == nil {
			t.Errorf("%q was read as %x", text, raw)
		}
	}
}

func TestKeysAreReadBack(t *testing.T) {
	key := [keySize]byte{1, 2, 3}
	text := KeyText("p-", "d", key)
	if got, ok := ParseKey("p-", "d", text); !ok || got != key {
		t.Errorf("%q was read as %x, %t", text, got, ok)
	}
	for _, bad := range []string{"", "p-", text[2:], text + "A", text + "\n", text[:len(text)-1], "q" + text[1:]} {
		if _, ok := ParseKey("p-", "d", bad); ok {
			t.Errorf("%q was read as a key", bad)
		}
	}
	if _, ok := ParseKey("p-", "other", text); ok {
		t.Error("a key of another domain was read")
	}
}
