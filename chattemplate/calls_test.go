package chattemplate_test

import (
	"testing"

	"runner/chattemplate/readertest"
)

// TestCallStyles lists how each reference template tells its model to write calls. Templates that are not listed have
// no calls, or write them in an unknown way.
func TestCallStyles(t *testing.T) {
	want := map[string]string{
		"Apertus-8B-Instruct":                           "apertus",
		"Apriel-1.6-15b-Thinker-fixed":                  "apriel",
		"CohereForAI-c4ai-command-r7b-12-2024-tool_use": "cohere",
		"GLM-4.7-Flash":                                 "glm",
		"GigaChat3.1-10B-A1.8B":                         "gigachat",
		"Kimi-K2-Instruct":                              "kimi",
		"MiMo-VL":                                       "hermes",
		"Mistral-Small-3.2-24B-Instruct-2506":           "mistral-id",
		"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
		"NousResearch-Hermes-3-Llama-3.1-8B-tool_use":   "hermes",
		"Qwen-QwQ-32B":                                  "hermes",
		"Qwen-Qwen2.5-7B-Instruct":                      "hermes",
		"Qwen-Qwen3-0.6B":                               "hermes",
		"Reka-Edge":                                     "hermes",
		"StepFun3.5-Flash":                              "qwen-xml",
		"deepseek-ai-DeepSeek-R1-Distill-Llama-8B":      "deepseek-r1",
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B":      "deepseek-r1",
		"deepseek-ai-DeepSeek-V3.1":                     "deepseek",
		"deepseek-ai-DeepSeek-V4":                       "deepseek-dsml",
		"fireworks-ai-llama-3-firefunction-v2":          "functools",
		"ibm-granite-granite-3.3-2B-Instruct":           "granite",
		"llama-cpp-deepseek-r1":                         "deepseek-r1",
		"meetkai-functionary-medium-v3.1":               "functionary",
		"meta-llama-Llama-3.1-8B-Instruct":              "llama",
		"meta-llama-Llama-3.2-3B-Instruct":              "llama",
		"mistralai-Mistral-Nemo-Instruct-2407":          "mistral",
		"moonshotai-Kimi-K2":                            "kimi",
		"unsloth-mistral-Devstral-Small-2507":           "mistral-args",
	}
	dir, names := templateNames(t)
	for _, name := range names {
		tmpl, _ := familyTemplate(t, readTemplate(t, dir, name))
		got := ""
		if style := readertest.FormatOf(tmpl).Calls; style != nil {
			got = style.Name
			if readertest.CallStyle(got) != style {
				t.Errorf("style %q is not in the table", got)
			}
		}
		if got != want[name] {
			t.Errorf("%s: style %q, want %q", name, got, want[name])
		}
	}
}
