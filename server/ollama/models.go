package ollama

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"runner/server/wire"
)

// VersionResponse is the answer to GET /api/version.
//
//openapi:answer OllamaVersion
type VersionResponse struct {
	// The version.
	Version string `json:"version"`
}

// ListResponse is the answer to GET /api/tags.
//
//openapi:answer OllamaModelList
type ListResponse struct {
	// The models, the default first.
	Models []ListedModel `json:"models"`
}

// ListedModel is a model in a list.
//
//openapi:answer OllamaModel
type ListedModel struct {
	// The model's name in requests.
	Name string `json:"name"`
	// The same as `name`.
	Model string `json:"model"`
	// When the model's files were last changed.
	ModifiedAt time.Time `json:"modified_at"`
	// The size of the model's files in bytes.
	Size int64 `json:"size"`
	// The SHA-256 of what the model's files hold, empty while it is unknown. Of a model that was pulled and is not served
	// it is what the name of its file claims.
	Digest  string       `json:"digest"`
	Details ModelDetails `json:"details"`
}

// LoadedResponse is the answer to GET /api/ps.
//
//openapi:answer OllamaLoadedList
type LoadedResponse struct {
	// The models in memory.
	Models []LoadedModel `json:"models"`
}

// LoadedModel is a model in memory.
//
//openapi:answer OllamaLoadedModel
type LoadedModel struct {
	ListedModel
	// When the model is unloaded if it is not used until then. The end of the year 9999 means never.
	ExpiresAt time.Time `json:"expires_at"`
	// 0 if only the CPU computes, otherwise the same as `size`: how much is on the GPU is not known.
	SizeVRAM int64 `json:"size_vram"`
	// The number of tokens that the context holds.
	ContextLength int `json:"context_length"`
}

// never is when a model expires that is never unloaded.
var never = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// ModelDetails are the details of a model in lists and in the answer to POST /api/show.
//
// Details of a model. Fields that are unknown until the model is loaded are empty until then.
//
//openapi:answer OllamaModelDetails
type ModelDetails struct {
	// Always empty.
	ParentModel string `json:"parent_model"`
	// The format of the model's file.
	Format string `json:"format" api:"=gguf"`
	// The model's architecture.
	Family string `json:"family"`
	// The same as `family`, as a list.
	Families []string `json:"families"`
	// The number of weights.
	ParameterSize string `json:"parameter_size" api:"example=20.9B"`
	// The format of the weights.
	QuantizationLevel string `json:"quantization_level"`
}

// ShowRequest is the body of POST /api/show.
//
//openapi:request OllamaShowRequest
type ShowRequest struct {
	Model string `json:"model" api:"#OllamaModelName"`
	// An older name of `model`.
	Name string `json:"name" api:"deprecated"`
}

// ShowResponse is the answer to POST /api/show.
//
//openapi:answer OllamaShowResponse
type ShowResponse struct {
	// The name of the model.
	Modelfile string `json:"modelfile"`
	// The default parameters of requests, one on each line.
	Parameters string `json:"parameters"`
	// The model's Jinja template. Empty if it has none.
	Template string       `json:"template"`
	Details  ModelDetails `json:"details"`
	// `general.architecture`, `general.basename`, `general.parameter_count`, and under the architecture's name
	// `context_length` and `embedding_length`.
	ModelInfo map[string]any `json:"model_info" api:"{}"`
	// What the model can do.
	Capabilities []string `json:"capabilities" api:"[]=completion,tools,thinking,embedding"`
	// When the model's files were last changed.
	ModifiedAt time.Time `json:"modified_at"`
}

func (a *API) tags(w http.ResponseWriter, r *http.Request) error {
	list := ListResponse{Models: []ListedModel{}}
	for _, c := range a.models.List(r.Context()) {
		list.Models = append(list.Models, listed(c))
	}
	stored, err := a.stored(r.Context())
	if err != nil {
		return err
	}
	for _, c := range stored {
		list.Models = append(list.Models, listed(c))
	}
	return wire.Answer(w, list)
}

func (a *API) loaded(w http.ResponseWriter, r *http.Request) error {
	list := LoadedResponse{Models: []LoadedModel{}}
	for _, c := range a.models.List(r.Context()) {
		if c.Loaded {
			m := LoadedModel{ListedModel: listed(c), ExpiresAt: c.Expires.UTC(), ContextLength: c.Context}
			if c.Expires.IsZero() {
				m.ExpiresAt = never
			}
			if c.GPULayers > 0 {
				m.SizeVRAM = c.Size
			}
			list.Models = append(list.Models, m)
		}
	}
	return wire.Answer(w, list)
}

func listed(c wire.Card) ListedModel {
	return ListedModel{Name: c.Name, Model: c.Name, ModifiedAt: c.Modified.UTC(), Size: c.Size, Digest: c.Digest,
		Details: details(c)}
}

func details(c wire.Card) ModelDetails {
	d := ModelDetails{Format: "gguf", Family: c.Family, Families: []string{}, QuantizationLevel: c.Quantization,
		ParameterSize: human(c.Parameters)}
	if c.Family != "" {
		d.Families = append(d.Families, c.Family)
	}
	return d
}

// human formats a number of weights as Ollama does, for example 20.9B.
func human(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n >= 1e9:
		return short(float64(n)/1e9) + "B"
	case n >= 1e6:
		return short(float64(n)/1e6) + "M"
	case n >= 1e3:
		return short(float64(n)/1e3) + "K"
	}
	return fmt.Sprint(n)
}

func short(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

// show answers POST /api/show. It loads a served model, because only then its abilities are known.
func (a *API) show(w http.ResponseWriter, r *http.Request) error {
	var body ShowRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		return err
	}
	if body.Model == "" {
		body.Model = body.Name
	}
	m, err := a.use(r.Context(), body.Model)
	if c, ok := a.unserved(r.Context(), body.Model); err != nil && ok {
		return wire.Answer(w, showStored(c))
	}
	if err != nil {
		return err
	}
	defer m.Release()
	card, info, can := m.Card(), m.Info(), m.Abilities()
	answer := ShowResponse{
		Modelfile: "FROM " + card.Name + "\n", Parameters: a.parameters(), Template: info.ChatTemplate,
		Details: details(card), ModifiedAt: card.Modified.UTC(),
		Capabilities: []string{"completion"},
		ModelInfo: map[string]any{
			"general.architecture": info.Architecture, "general.basename": card.Name, "general.parameter_count": info.Parameters,
			info.Architecture + ".context_length":   info.ContextSize,
			info.Architecture + ".embedding_length": info.EmbeddingLength,
		},
	}
	if can.Tools {
		answer.Capabilities = append(answer.Capabilities, "tools")
	}
	if can.Reasoning {
		answer.Capabilities = append(answer.Capabilities, "thinking")
	}
	if can.Embeddings {
		answer.Capabilities = append(answer.Capabilities, "embedding")
	}
	return wire.Answer(w, answer)
}

// showStored describes a model that is on the disk and not served, by what its file says.
func showStored(c wire.Card) ShowResponse {
	return ShowResponse{
		Modelfile: "FROM " + c.Name + "\n", Details: details(c), ModifiedAt: c.Modified.UTC(),
		Capabilities: []string{"completion"},
		ModelInfo: map[string]any{
			"general.architecture": c.Family, "general.basename": c.Name, "general.parameter_count": c.Parameters,
		},
	}
}

// parameters lists the defaults of requests.
func (a *API) parameters() string {
	var lines []string
	add := func(name string, value float64) {
		if value != 0 {
			lines = append(lines, fmt.Sprintf("%-30s %.6g", name, value))
		}
	}
	ours := strings.NewReplacer("repetition", "repeat", "penalty_window", "repeat_last_n")
	s := a.cfg.Defaults.Sampling.Plain()
	for _, x := range s.Settings() {
		add(ours.Replace(x.Name), x.Value())
	}
	add("num_predict", float64(a.cfg.Defaults.MaxTokens))
	return strings.Join(lines, "\n")
}
