package cli

import (
	"runtime/debug"
	"testing"
)

func TestCommit(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, tt := range []struct {
		linked   string
		settings []debug.BuildSetting
		want     string
	}{
		{"", nil, ""},
		{"", []debug.BuildSetting{modified}, ""},
		{"", []debug.BuildSetting{revision}, "abc"},
		{"", []debug.BuildSetting{revision, modified}, "abc with changes"},
		{"def", []debug.BuildSetting{revision, modified}, "def"},
	} {
		v := newVersions(Build{Commit: tt.linked}, Engine{}, &debug.BuildInfo{Settings: tt.settings})
		if v.commit != tt.want {
			t.Errorf("%q, %v: commit %q, want %q", tt.linked, tt.settings, v.commit, tt.want)
		}
	}
}
