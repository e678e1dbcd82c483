package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// children returns the numbers of a process's children.
func children(t *testing.T, parent int) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("this system does not list its processes in /proc")
	}
	var list []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, ...
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(parent) && fields[0] != "Z" {
			list = append(list, pid)
		}
	}
	return list
}

// gone reports whether a process has ended.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(text, []byte(") Z "))
}

// descriptors returns what a process has open, and whether the system lists that.
func descriptors(pid int) (open []string, listed bool) {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, false // the pattern is wrong
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil { // else it was closed in the meantime
			open = append(open, to)
		}
	}
	return open, len(links) > 0
}
