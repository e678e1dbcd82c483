package cli

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/runner"
)

// addModelFlags adds the flags for loading a model.
func addModelFlags(cmd *cobra.Command, m *backend.Config) {
	f := cmd.Flags()
	f.IntVar(&m.ContextSize, "ctx-size", 0,
		"context of `N` tokens (0: as many as the model was trained for, if memory allows)")
	f.IntVarP(&m.Threads, "threads", "t", 0, "compute with `N` threads (0: one per physical core, at most 2 for a tiny "+
		"model)")
	f.IntVar(&m.GPULayers, "gpu-layers", -1, "put `N` layers on the GPU (-1: all that fit)")
	f.BoolVar(&m.NoMemoryMap, "no-mmap", false, "read the weights into memory instead of mapping their file")
	addAnyPretokenizer(cmd, m)
	m.FlashAttention, m.CacheType, m.FullWindow = "auto", "f16", "auto"
	addNameChoice(cmd, &m.FlashAttention, "flash-attn", "flash attention", "auto", "on", "off")
	addNameChoice(cmd, &m.CacheType, "cache-type", "element type of the KV cache", "f16", "f32", "bf16", "q8_0", "q4_0")
	addNameChoice(cmd, &m.FullWindow, "full-window",
		"keep the whole context of sliding-window layers, so that earlier turns are not prefilled again", "auto", "on", "off")
}

// addAnyPretokenizer adds the flag for models whose texts the engine cannot split as in training.
func addAnyPretokenizer(cmd *cobra.Command, m *backend.Config) {
	cmd.Flags().BoolVar(&m.AnyPretokenizer, "any-pretokenizer", false, "load a model even if the engine does not know "+
		"its pre-tokenizer, with worse answers")
}

// addDrafts adds the flag for guesses of the next tokens.
func addDrafts(cmd *cobra.Command, d *runner.Drafts) {
	addChoice(cmd, d, "drafts", "guess next tokens from what the text repeats and check several in a step, which changes "+
		"no answer (auto: where it is faster)", []string{"auto", "on", "off"},
		[]runner.Drafts{runner.DraftsAuto, runner.DraftsOn, runner.DraftsOff})
}

// checkModelFlags refuses values that no model can be loaded with.
func checkModelFlags(m *backend.Config) error {
	if err := checkNumbers([]number{
		{"ctx-size", m.ContextSize, 0, backend.MaxContextSize}, {"threads", m.Threads, 0, backend.MaxThreads},
		{"gpu-layers", m.GPULayers, -1, math.MaxInt32},
	}); err != nil {
		return err
	}
	if m.FlashAttention == "off" && (m.CacheType == "q8_0" || m.CacheType == "q4_0") {
		return &usageError{what: fmt.Sprintf("--cache-type cannot be %q with --flash-attn off", m.CacheType),
			hint: "use --cache-type f16, f32 or bf16, or --flash-attn auto or on"}
	}
	return nil
}

// withoutEffect lists the flags that were given and that MLX does not have.
func withoutEffect(m *backend.Config) (flags []string) {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"threads", m.Threads != 0}, {"gpu-layers", m.GPULayers >= 0}, {"no-mmap", m.NoMemoryMap},
		{"any-pretokenizer", m.AnyPretokenizer},
		{"flash-attn", m.FlashAttention != "auto"}, {"cache-type", m.CacheType != "f16"},
		{"full-window", m.FullWindow != "auto"},
	} {
		if f.given {
			flags = append(flags, f.name)
		}
	}
	return flags
}

// warnLoaded warns where a loaded model differs from what its flags asked for.
func (a *app) warnLoaded(asked *backend.Config, info backend.Info) {
	if asked.GPULayers > 0 && info.GPULayers < asked.GPULayers {
		a.complain(fmt.Sprintf("warning: --gpu-layers asks for %d layers, but %d are on a GPU; runner doctor lists the "+
			"GPUs that this build can use", asked.GPULayers, info.GPULayers))
	}
	if isFolder(info.Path) {
		for _, flag := range withoutEffect(asked) {
			a.complain("warning: --" + flag + " has no effect on a folder with safetensors; leave it out")
		}
	}
	// MLX, which runs folders, keeps no more than windows, whatever the memory.
	if info.WindowOnly && asked.FullWindow != "off" && !isFolder(info.Path) {
		a.complain("warning: there is not enough free memory for the whole context of this model's sliding-window " +
			"layers, so earlier turns may have to be prefilled again; " +
			"free some memory, use a smaller --ctx-size, or accept this with --full-window off")
	}
	if info.TrainedContext > 0 && info.ContextSize > info.TrainedContext {
		a.complain(fmt.Sprintf("warning: the context of %d tokens is longer than the %d that the model was trained for, "+
			"and answers get worse beyond that; use --ctx-size %d or less",
			info.ContextSize, info.TrainedContext, info.TrainedContext))
	}
}

// splitWarning says what it means that texts are not split by the model's own rule. It is empty if they are.
func splitWarning(info *backend.Info) string {
	if info.DefaultSplit == "" {
		return ""
	}
	return info.DefaultSplit + ", so texts are split by a default rule and may become other tokens than in training; " +
		"use a file that names it and an engine that knows it"
}
