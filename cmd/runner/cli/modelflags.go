package cli

import (
	"fmt"
	"math"

	"runner/backend"
	"runner/cmd/runner/flags"
	"runner/models"
	"runner/runner"
)

// modelFlags are the flags for loading a model.
func modelFlags(m *backend.Config) flags.Table {
	return flags.List(
		flags.Int("ctx-size", &m.ContextSize, 0, 0, backend.MaxContextSize,
			"context of `N` tokens (0: as many as the model was trained for, if memory allows)", flags.Common),
		flags.Int("threads", &m.Threads, 0, 0, backend.MaxThreads,
			"compute with `N` threads (0: one per physical core, at most 2 for a tiny model)", flags.Short("t")),
		flags.Switch("no-mmap", &m.NoMemoryMap, "read the weights into memory instead of mapping their file"),
		ComputeFlags(m),
		flags.Name("full-window", &m.FullWindow, onOff,
			"keep the whole context of sliding-window layers, so that earlier turns are not prefilled again"))
}

// onOff are the values of a switch that the program can set itself.
var onOff = []string{"auto", "on", "off"}

// ComputeFlags are the flags that also bench has.
func ComputeFlags(m *backend.Config) flags.Table {
	return flags.List(
		flags.Int("gpu-layers", &m.GPULayers, -1, -1, math.MaxInt32, "put `N` layers on the GPU (-1: all that fit)"),
		flags.Switch("any-pretokenizer", &m.AnyPretokenizer,
			"load a model even if the engine does not know its pre-tokenizer, with worse answers"),
		flags.Name("flash-attn", &m.FlashAttention, onOff, "flash attention"),
		flags.Name("cache-type", &m.CacheType, []string{"f16", "f32", "bf16", "q8_0", "q4_0"},
			"element type of the KV cache"))
}

// draftsFlag is the flag for guesses of the next tokens.
func draftsFlag(d *runner.Drafts) flags.Table {
	return flags.Choice("drafts", d, runner.DraftsAuto, onOff,
		[]runner.Drafts{runner.DraftsAuto, runner.DraftsOn, runner.DraftsOff},
		"guess next tokens from what the text repeats and check several in a step, which changes no answer (auto: where it "+
			"is faster)")
}

// checkModelFlags refuses flags that do not go together.
func checkModelFlags(m *backend.Config) error {
	if m.FlashAttention == "off" && (m.CacheType == "q8_0" || m.CacheType == "q4_0") {
		return Usage("--cache-type cannot be %q with --flash-attn off", m.CacheType).
			Hint("use --cache-type f16, f32 or bf16, or --flash-attn auto or on")
	}
	return nil
}

// withoutEffect lists the flags that were given and that only the engines for files on this machine have.
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
func (a *App) warnLoaded(asked *backend.Config, m models.Model, info backend.Info) {
	if asked.GPULayers > 0 && info.GPULayers < asked.GPULayers {
		a.Complain(fmt.Sprintf("warning: --gpu-layers asks for %d layers, but %d are on a GPU; runner doctor lists the "+
			"GPUs that this build can use", asked.GPULayers, info.GPULayers))
	}
	if m.Source == models.Folder {
		for _, flag := range withoutEffect(asked) {
			a.Complain("warning: --" + flag + " has no effect on a folder with safetensors; leave it out")
		}
	}
	// An engine for folders keeps no more than windows, whatever the memory.
	if info.WindowOnly && asked.FullWindow != "off" && m.Source != models.Folder {
		a.Complain("warning: there is not enough free memory for the whole context of this model's sliding-window " +
			"layers, so earlier turns may have to be prefilled again; " +
			"free some memory, use a smaller --ctx-size, or accept this with --full-window off")
	}
	if info.TrainedContext > 0 && info.ContextSize > info.TrainedContext {
		a.Complain(fmt.Sprintf("warning: the context of %d tokens is longer than the %d that the model was trained for, "+
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
