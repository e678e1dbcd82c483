package models

import (
	"fmt"
	"regexp"
	"strconv"
)

// The files of a split model end in "-00001-of-00003.gguf", as llama.cpp's gguf-split writes them.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// splitPart returns the number of the part and the number of parts. It reports false if the file is not a part.
func splitPart(path string) (part, count int, ok bool) {
	m := splitName.FindStringSubmatch(path)
	if m == nil {
		return 0, 0, false
	}
	part, _ = strconv.Atoi(m[2])
	count, _ = strconv.Atoi(m[3])
	return part, count, part >= 1 && part <= count
}

// partNames returns the names of all parts of the split model that path belongs to.
func partNames(path string, count int) []string {
	prefix := splitName.FindStringSubmatch(path)[1]
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, count)
	}
	return names
}
