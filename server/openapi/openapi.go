package openapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:generate go run ./generate

// common describes the routes that belong to no format, and what several formats share. base has the rest of the
// document.
var (
	//go:embed spec/base.json
	base []byte
	//go:embed spec/common.json spec/generated.json
	common embed.FS
)

// own is the permission of operations that take a secret of the format's own instead of an API key.
const own = "own"

// raw is an object whose values are not decoded.
type raw = map[string]json.RawMessage

// part is what the files of a format say.
type part struct {
	// Errors is the name of the schema of its errors.
	Errors string `json:"errors"`
	// Tags are the tags of its operations.
	Tags []raw `json:"tags"`
	// Paths are the operations by path and method.
	Paths map[string]map[string]*operation `json:"paths"`
	// Schemas and Parameters are components. SecuritySchemes are the secrets that operations with the permission own take.
	Schemas         raw `json:"schemas"`
	Parameters      raw `json:"parameters"`
	SecuritySchemes raw `json:"securitySchemes"`
}

// operation is one operation. The first fields are what the files say in place of their OpenAPI form.
type operation struct {
	Permission string `json:"x-permission,omitempty"`
	Statuses   []int  `json:"x-errors,omitempty"`
	Error      string `json:"x-error,omitempty"`

	ID          string                `json:"operationId"`
	Tags        []string              `json:"tags"`
	Summary     string                `json:"summary"`
	Description string                `json:"description,omitempty"`
	Deprecated  bool                  `json:"deprecated,omitempty"`
	Parameters  []json.RawMessage     `json:"parameters,omitempty"`
	RequestBody json.RawMessage       `json:"requestBody,omitempty"`
	Responses   map[string]*response  `json:"responses"`
	Security    []map[string][]string `json:"security"`

	// errors are the names of the schemas of its errors, one for each format that has the operation.
	errors []string
	// secrets are the names of the secrets that it takes if its permission is own.
	secrets []string
}

// response is an answer of an operation.
type response struct {
	Ref         string             `json:"$ref,omitempty"`
	Description string             `json:"description,omitempty"`
	Headers     raw                `json:"headers,omitempty"`
	Content     map[string]content `json:"content,omitempty"`
}

// content is an answer in one media type.
type content struct {
	Schema json.RawMessage `json:"schema,omitempty"`
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

// document is the description of a server.
type document struct {
	OpenAPI    string                           `json:"openapi"`
	Info       map[string]any                   `json:"info"`
	Servers    json.RawMessage                  `json:"servers"`
	Tags       []raw                            `json:"tags"`
	Components map[string]raw                   `json:"components"`
	Paths      map[string]map[string]*operation `json:"paths"`
}

// Document returns the description of a server of the given version. formats are the files of its formats.
func Document(version string, formats ...fs.FS) ([]byte, error) {
	d := document{Paths: map[string]map[string]*operation{}}
	if err := decode(base, &d); err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	d.Info["version"] = cmp.Or(version, "unknown")
	for _, kind := range []string{"schemas", "parameters", "responses"} {
		d.Components[kind] = raw{}
	}
	for _, files := range append(slices.Clone(formats), common) {
		if err := d.add(files); err != nil {
			return nil, err
		}
	}
	for _, operations := range d.Paths {
		for _, o := range operations {
			o.complete(d.Components["responses"])
		}
	}
	return json.Marshal(d)
}

// add adds the files of a format.
func (d *document) add(files fs.FS) error {
	names, err := fs.Glob(files, "*/*.json")
	if err != nil {
		return err
	}
	var p part
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err == nil {
			err = decode(text, &p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	d.Tags = append(d.Tags, p.Tags...)
	maps.Copy(d.Components["schemas"], p.Schemas)
	maps.Copy(d.Components["parameters"], p.Parameters)
	maps.Copy(d.Components["securitySchemes"], p.SecuritySchemes)
	for path, operations := range p.Paths {
		if d.Paths[path] == nil {
			d.Paths[path] = map[string]*operation{}
		}
		for method, o := range operations {
			o.errors = []string{cmp.Or(o.Error, p.Errors)}
			o.secrets = slices.Sorted(maps.Keys(p.SecuritySchemes))
			if other := d.Paths[path][method]; other != nil {
				other.join(o)
			} else {
				d.Paths[path][method] = o
			}
		}
	}
	return nil
}

// decode decodes a file. A field that the type does not have is an error.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
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

// join adds the same operation of another format, whose answers become alternatives.
func (o *operation) join(other *operation) {
	o.Tags, o.errors = append(o.Tags, other.Tags...), append(o.errors, other.errors...)
	o.Description = strings.TrimSpace(o.Description + " " + other.Description)
	for _, s := range other.Statuses {
		if !slices.Contains(o.Statuses, s) {
			o.Statuses = append(o.Statuses, s)
		}
	}
	for _, p := range other.Parameters {
		if !slices.ContainsFunc(o.Parameters, func(own json.RawMessage) bool { return bytes.Equal(own, p) }) {
			o.Parameters = append(o.Parameters, p)
		}
	}
	for status, r := range other.Responses {
		own := o.Responses[status]
		if own.Description != r.Description {
			own.Description += " " + r.Description
		}
		for kind, c := range r.Content {
			if have, ok := own.Content[kind]; ok {
				c.Schema = alternatives(have.Schema, c.Schema)
			}
			own.Content[kind] = c
		}
	}
}

// alternatives returns the schema of what matches one of some schemas.
func alternatives(schemas ...json.RawMessage) json.RawMessage {
	if len(schemas) == 1 {
		return schemas[0]
	}
	return value(map[string]any{"oneOf": schemas})
}

// complete adds to an operation the permission that it needs and its error answers. shared collects the answers that
// operations share.
func (o *operation) complete(shared raw) {
	o.Security = []map[string][]string{}
	switch o.Permission {
	case "":
	case own:
		for _, name := range o.secrets {
			o.Security = append(o.Security, map[string][]string{name: {}})
		}
		if !slices.Contains(o.Statuses, http.StatusUnauthorized) {
			o.Security = append(o.Security, map[string][]string{}) // the secret may come later
		}
	default:
		o.Statuses = append(o.Statuses, http.StatusUnauthorized)
		for _, scheme := range []string{"Bearer", "XApiKey", "ApiKey"} {
			o.Security = append(o.Security, map[string][]string{scheme: {o.Permission}})
		}
	}
	for _, r := range o.Responses {
		if r.Headers == nil {
			r.Headers = raw{}
		}
		r.Headers["X-Request-Id"] = value(reference("headers", "RequestId"))
	}
	for _, status := range append(o.Statuses, http.StatusForbidden, http.StatusInternalServerError) {
		name := strings.Join(o.errors, "Or") + strconv.Itoa(status)
		shared[name] = failure(o.errors, status)
		o.Responses[strconv.Itoa(status)] = &response{Ref: "#/components/responses/" + name}
	}
	o.Permission, o.Statuses, o.Error = "", nil, ""
}

// failure returns the answer to a failed request with the given status. errors are the names of the errors' schemas.
func failure(errors []string, status int) json.RawMessage {
	headers := map[string]raw{"X-Request-Id": reference("headers", "RequestId")}
	if failures[status].later {
		headers["Retry-After"] = reference("headers", "RetryAfter")
	}
	if status == http.StatusServiceUnavailable {
		headers["X-Should-Retry"] = reference("headers", "ShouldRetry")
	}
	schemas := make([]json.RawMessage, len(errors))
	for i, name := range errors {
		schemas[i] = value(reference("schemas", name))
	}
	return value(map[string]any{
		"description": failures[status].text, "headers": headers,
		"content": map[string]content{"application/json": {alternatives(schemas...)}},
	})
}

// Handler serves the description of a server of the given version. formats returns the files of its formats when the
// first client asks. It panics if files are wrong, because they are part of the program.
func Handler(version string, formats func() []fs.FS) http.HandlerFunc {
	document := sync.OnceValue(func() []byte {
		text, err := Document(version, formats()...)
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
