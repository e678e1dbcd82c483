package wire

import (
	"net/url"
	"strconv"
)

// defaultPage is the length of a page if the request does not say.
const defaultPage = 20

// ReadLimit reads the parameter limit of a list: 1 to most, and 20 if it is left out.
func ReadLimit(query url.Values, most int) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, Invalid("limit", "it takes a whole number from 1 to %d", most)
	}
	return n, nil
}

// Page is the part of a list that a request asks for, as in OpenAI's API.
type Page struct {
	Limit       int
	OldestFirst bool
	// After is the id of the element that the page comes after; empty for the first page.
	After string
}

// ReadPage reads the parameters limit (from 1 to most), order (asc or desc) and after.
func ReadPage(query url.Values, most int) (p Page, err error) {
	if p.Limit, err = ReadLimit(query, most); err != nil {
		return p, err
	}
	switch query.Get("order") {
	case "", "desc":
	case "asc":
		p.OldestFirst = true
	default:
		return p, Invalid("order", "it takes asc or desc")
	}
	p.After = query.Get("after")
	return p, nil
}
