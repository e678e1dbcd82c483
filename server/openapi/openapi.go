package openapi

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

//go:generate go run ./generate

//go:embed spec/*.json
var spec embed.FS

// formats are the files with routes and schemas.
var formats = []string{"generated", "common", "openai", "responses", "anthropic", "traces", "ollama", "agui", "mew",
	"web"}

// own is the permission of operations that take the token of a participant instead of an API key.
const own = "own"

// raw is an object whose values are not decoded.
type raw = map[string]json.RawMessage

// format is a file with routes and schemas.
type format struct {
	// Errors is the name of the schema of its errors.
	Errors string `json:"errors"`
	// Paths are the operations by path and method.
	Paths map[string]map[string]raw `json:"paths"`
	// Schemas and Parameters are components.
	Schemas    raw `json:"schemas"`
	Parameters raw `json:"parameters"`
}

// failures has the meaning of each error status. later says that the answer may have the header Retry-After.
var failures = map[int]struct {
	text  string
	later bool
}{
	http.StatusBadRequest: {"The request is wrong, or the server cannot do what it asks for. The error " +
		"names the field.", false},
	http.StatusUnauthorized: {"No API key or token, or an unknown one.", false},
	http.StatusForbidden: {"The API key or token may not do this, or the request comes from a web page, " +
		"or is for a host name, that is not allowed, or the hub does not give the model.", false},
	http.StatusNotFound:              {"Not found, or the API key or token may not use it.", false},
	http.StatusConflict:              {"Its state does not allow this.", false},
	http.StatusGone:                  {"It was erased.", false},
	http.StatusRequestEntityTooLarge: {"The body is longer than the server allows.", false},
	http.StatusUnsupportedMediaType:  {"The body is compressed.", false},
	http.StatusTooManyRequests: {"Too many requests are waiting, or the API key or participant has reached a limit.",
		true},
	http.StatusInternalServerError: {"The server failed. Its log says more.", false},
	http.StatusNotImplemented:      {"This server does not support that.", false},
	http.StatusServiceUnavailable: {"The server is stopping, the model cannot be loaded or downloaded, its engine " +
		"fails, the running requests are too long together, or the run took too long.", true},
}

// Document returns the description of a server of the given version.
func Document(version string) ([]byte, error) {
	var doc raw
	if err := read("base", &doc); err != nil {
		return nil, err
	}
	var info raw
	var components map[string]raw
	if err := json.Unmarshal(doc["info"], &info); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(doc["components"], &components); err != nil {
		return nil, err
	}
	if version == "" {
		version = "unknown"
	}
	info["version"] = value(version)
	paths := map[string]map[string]raw{}
	responses := raw{}
	components["schemas"], components["parameters"], components["responses"] = raw{}, raw{}, responses
	for _, name := range formats {
		var f format
		if err := read(name, &f); err != nil {
			return nil, err
		}
		maps.Copy(components["schemas"], f.Schemas)
		maps.Copy(components["parameters"], f.Parameters)
		maps.Copy(paths, f.Paths)
		for path, operations := range f.Paths {
			for method, o := range operations {
				if err := f.complete(o, responses); err != nil {
					return nil, fmt.Errorf("%s: %s %s: %w", name, method, path, err)
				}
			}
		}
	}
	doc["info"], doc["components"], doc["paths"] = value(info), value(components), value(paths)
	return json.Marshal(doc)
}

// read reads a file.
func read(name string, v any) error {
	text, err := spec.ReadFile("spec/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// value returns the JSON of a value. It is only for values that can always be encoded.
func value(v any) json.RawMessage {
	text, _ := json.Marshal(v)
	return text
}

// reference returns a reference to a component.
func reference(kind, name string) raw {
	return raw{"$ref": value("#/components/" + kind + "/" + name)}
}

// complete adds to an operation the permission that it needs and its error answers. shared collects the answers that
// operations share.
func (f *format) complete(o, shared raw) error {
	var permission string
	var statuses []int
	var responses map[string]raw
	schema := f.Errors
	for name, to := range map[string]any{"x-permission": &permission, "x-errors": &statuses, "x-error": &schema,
		"responses": &responses} {
		if o[name] == nil {
			continue
		}
		if err := json.Unmarshal(o[name], to); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		delete(o, name)
	}
	security := []map[string][]string{}
	switch permission {
	case "":
	case own:
		security = append(security, map[string][]string{"Participant": {}})
		if !slices.Contains(statuses, http.StatusUnauthorized) {
			security = append(security, map[string][]string{}) // the token may come later
		}
	default:
		statuses = append(statuses, http.StatusUnauthorized)
		for _, scheme := range []string{"Bearer", "XApiKey", "ApiKey"} {
			security = append(security, map[string][]string{scheme: {permission}})
		}
	}
	for status, response := range responses {
		headers := raw{}
		if given := response["headers"]; given != nil {
			if err := json.Unmarshal(given, &headers); err != nil {
				return fmt.Errorf("%s: %w", status, err)
			}
		}
		headers["X-Request-Id"] = value(reference("headers", "RequestId"))
		response["headers"] = value(headers)
	}
	for _, status := range append(statuses, http.StatusForbidden, http.StatusInternalServerError) {
		name := schema + strconv.Itoa(status)
		shared[name] = failure(schema, status)
		responses[strconv.Itoa(status)] = reference("responses", name)
	}
	o["security"], o["responses"] = value(security), value(responses)
	return nil
}

// failure returns the answer to a failed request with the given status. schema is the name of the error's schema.
func failure(schema string, status int) json.RawMessage {
	headers := map[string]raw{"X-Request-Id": reference("headers", "RequestId")}
	if failures[status].later {
		headers["Retry-After"] = reference("headers", "RetryAfter")
	}
	if status == http.StatusServiceUnavailable {
		headers["X-Should-Retry"] = reference("headers", "ShouldRetry")
	}
	return value(map[string]any{
		"description": failures[status].text, "headers": headers,
		"content": map[string]any{"application/json": map[string]any{"schema": reference("schemas", schema)}},
	})
}

// Handler serves the description of a server of the given version. It panics if the spec files are wrong, because they
// are part of the program.
func Handler(version string) http.HandlerFunc {
	document := sync.OnceValue(func() []byte {
		text, err := Document(version)
		if err != nil {
			panic("openapi: " + err.Error())
		}
		return text
	})
	return func(w http.ResponseWriter, r *http.Request) {
		text := document()
		sum := sha256.Sum256(text)
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
		h.Set("Cache-Control", "no-cache") // clients must ask each time whether it has changed
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	}
}
