package jsontext

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"runner/grammar/expr"
)

// TestFormatsAgainstValidator checks that a validator accepts every text that a format admits.
func TestFormatsAgainstValidator(t *testing.T) {
	n := uint64(300)
	if testing.Short() {
		n = 40
	}
	for name := range formats {
		valid := jsonschema.Formats[name]
		if valid == nil {
			t.Errorf("the validator does not know %s", name)
			continue
		}
		form, err := String(t.Context(), StringConstraint{MaxLength: -1, Formats: []string{name}})
		if err != nil {
			t.Fatal(err)
		}
		w := newSampler(t, 1)
		id := form(w.s)
		for i := range n {
			spelled := w.draw(id, w.rng.IntN(10+int(i%50)))
			var text string
			if err := json.Unmarshal([]byte(spelled), &text); err != nil || !valid(text) {
				t.Errorf("%s admits %s", name, spelled)
				break
			}
		}
	}
	for name := range jsonschema.Formats {
		if !SupportedFormat(name) {
			t.Errorf("%s is enforced by the validator only", name)
		}
	}
	if SupportedFormat("color") {
		t.Error("an unknown format is enforced")
	}
}

func TestFormats(t *testing.T) {
	label := strings.Repeat("a", 63)
	long := strings.Repeat(label+".", 3)
	tests := []struct {
		format   string
		yes, not []string
	}{
		{"date", []string{"2024-02-29", "1963-06-19", "2000-02-29", "0000-02-29", "2023-12-31"},
			[]string{"2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-00-10", "23-01-01", "2023-1-1",
				"06/19/1963", ""}},
		{"time", []string{"08:30:06Z", "08:30:06.283185z", "08:30:06+00:20", "23:59:60Z", "23:59:60.25+00:00",
			"01:29:60+01:30", "23:29:60+23:30", "15:59:60-08:00", "00:29:60-23:30"},
			[]string{"24:00:00Z", "08:60:00Z", "22:59:60Z", "23:59:61Z", "23:59:60+01:00", "08:30:06", "8:30:06Z",
				"08:30:06 PST", "08:30:06.Z", "01:02:03+24:00"}},
		{"date-time", []string{"1963-06-19T08:30:06.283185Z", "1990-12-31t15:59:50.123-08:00", "1998-12-31T23:59:60Z",
			"2024-02-29T00:00:00+05:30"}, []string{"1963-06-19", "1990-02-31T15:59:59Z", "2023-02-29T00:00:00Z",
			"1998-12-31T22:59:60Z", "1963-06-19 08:30:06Z"}},
		{"duration", []string{"P4DT12H30M5S", "PT36H", "P1DT12H", "P4W", "P1Y2M3D", "PT0S", "P1M", "PT1M"},
			[]string{"PT1D", "P", "P1YT", "PT", "P2D1Y", "P1Y2W", "P1Y2D", "PT1H2S", "4DT", "P1"}},
		{"period", []string{"2024-01-01T00:00:00Z/P1D", "P1D/2024-01-01T00:00:00Z",
			"2024-01-01T00:00:00Z/2024-01-02T00:00:00Z"}, []string{"P1D/P1D", "2024-01-01T00:00:00Z"}},
		{"uuid", []string{"2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2EB8AA08-AA98-11EA-B4AA-73B441D16380",
			"00000000-0000-0000-0000-000000000000"}, []string{"2eb8aa08-aa98-11ea-b4aa-73b441d1638",
			"2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4ga-73b441d16380"}},
		{"email", []string{"joe.bloggs@example.com", "te~st@example.com", "~test~@example.com", `"joe bloggs"@example.com`,
			`"joe..bloggs"@example.com`, `"joe@bloggs"@example.com`, `"a\"b"@example.com`, "joe@[127.0.0.1]", "joe@[IPv6:::1]",
			"te.s.t@a-b.c", strings.Repeat("a", 64) + "@b"},
			[]string{"2962", ".test@example.com", "test.@example.com", "te..st@example.com", "joe@inva=lid.com",
				"joe@[127.0.0.300]", "Joe <joe@example.com>", "a b@c", "@b", strings.Repeat("a", 65) + "@b",
				strings.Repeat("a", 64) + "@" + long}},
		{"hostname", []string{"www.example.com", "xn--4gbwdl.xn--wgbh1c", "a", "1host", "h0stn4me", label,
			long + strings.Repeat("a", 61)}, []string{"-a", "a-", "a..b", "", "a_b", label + "a", "not_a_valid_host_name",
			long + strings.Repeat("a", 62), "é.com"}},
		{"ipv4", []string{"192.168.0.1", "0.0.0.0", "255.255.255.255"}, []string{"256.1.1.1", "1.2.3", "1.2.3.4.5",
			"087.10.0.1", "0x7f000001", "1.2.3.4/24"}},
		{"ipv6", []string{"::1", "::", "::abef", "1::", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", "d6::",
			"1::d6:192.168.0.1", "::ffff:192.168.0.1", "1:2:3:4:5:6:1.2.3.4", "::42:ff:1"},
			[]string{"12345::", "1:1:1:1:1:1:1:1:1", "::laptop", "2001:db8:::1", "1:2::3::4", ":2:3:4:5:6:7:8", "1:2:3:4:5:6:7:",
				"fe80::a%eth1", "1.2.3.4", "::1/64", "1:2:3:4:5:6:7::8:9"}},
		{"uri", []string{"http://foo.bar/?baz=qux#quux", "http://foo.com/blah_(wikipedia)_blah#cite-1",
			"http://foo.bar/?q=Test%20URL-encoded%20stuff", "http://xn--nw2a.xn--j6w193g/",
			"http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com",
			"http://223.255.255.254", "ftp://ftp.is.co.za/rfc/rfc1808.txt", "ldap://[2001:db8::7]/c=GB?objectClass?one",
			"mailto:John.Doe@example.com", "news:comp.infosystems.www.servers.unix", "tel:+1-816-555-1212",
			"urn:oasis:names:specification:docbook:dtd:xml:4.1.2", "http://localhost:8080/a/b"},
			[]string{"//foo.bar/?baz=qux#quux", "/abc", `\\WINDOWS\fileshare`, "abc", "http:// shouldfail.com",
				":// should fail", "bar,baz:foo", "https://[@example.org/test.txt", `https://example.org/foobar\.txt`,
				"https://example.org/foobar<>.txt", "https://example.org/foobar{}.txt", "https://example.org/foobar^.txt",
				"https://example.org/foo bar.txt", "http://foo.bar/%zz", ""}},
		{"uri-reference", []string{"/abc", "#fragment", "abc", "//foo.bar/?baz=qux#quux", "", "../a", "?a=b", "http://a/b"},
			[]string{`\\WINDOWS\fileshare`, `#frag\ment`, "a b", "1:b"}},
		{"iri", []string{"http://ƒøø.ßår/?∂éœ=πîx#πîüx", "http://ƒøø.com/blah_(wîkïpédiå)_blah#ßité-1",
			"http://[2001:0db8:85a3::1]"}, []string{"http://2001:0db8:85a3:0000:0000:8a2e:0370:7334", "/abc", "âππ",
			`\\WINDOWS`}},
		{"iri-reference", []string{"âππ", "#ƒrägmênt", "/âππ", "http://ƒøø.ßår/"}, []string{`#ƒräg\mênt`}},
		{"uri-template", []string{"http://example.com/dictionary/{term:1}/{term}", "http://example.com/dictionary",
			"dictionary/{term:1}/{term}", "/users/{id}", "/{a,b*}/x"}, []string{"http://example.com/dictionary/{term:1}/{term",
			"{", "a{b c}"}},
		{"json-pointer", []string{"", "/foo/bar~0/baz~1/%a", "/foo//bar", "/", "/~01", "/ ", "/\"", "/é"},
			[]string{"a", "/foo/bar~", "/~2", "#/a"}},
		{"relative-json-pointer", []string{"1", "0/foo/bar", "2/0/baz/1/zip", "0#", "120/a"},
			[]string{"", "/foo", "-1/a", "+1/a", "01/a", "0##", "01#"}},
		{"regex", []string{`([abc])+\s+$`, `^[a-z]{2,5}$`, `^\d+(\.\d+)*$`, `a|b`, ``, `[\w.-]+@[\w.-]+`,
			`a{1,10}b{12,40}?c{3}(d(e(f)*)?)+`}, []string{`^(abc]`, `a**`, `(`, `[z-a]`, `\`, `a{5,2}`, `a{12,11}`,
			`a{1}{2}`, `[d-c]`}},
	}
	covered := map[string]bool{"ip-address": true, "uriref": true}
	for _, tt := range tests {
		covered[tt.format] = true
		form, err := String(t.Context(), StringConstraint{MaxLength: -1, Formats: []string{tt.format}})
		if err != nil {
			t.Errorf("%s: %v", tt.format, err)
			continue
		}
		s := expr.NewSet()
		id := form(s)
		for _, text := range tt.yes {
			if !s.Match(id, quote(text)) {
				t.Errorf("%s refuses %q", tt.format, text)
			}
		}
		for _, text := range tt.not {
			if s.Match(id, quote(text)) {
				t.Errorf("%s admits %q", tt.format, text)
			}
		}
	}
	for name := range formats {
		if !covered[name] {
			t.Errorf("no example of %s", name)
		}
	}
}
