package main

import (
	"fmt"
	"runtime"
	"strings"

	"runner/backend/llamacpp"
	"runner/cmd/runner/cli"
)

// facts lists what the engine finds on the machine.
func facts() []cli.Fact {
	s, err := llamacpp.SystemInfo()
	if err != nil {
		return []cli.Fact{{Name: "engine start", Problem: err.Error()}}
	}
	list := []cli.Fact{
		{Name: "processor", Value: fmt.Sprintf("%s, %d physical cores to use, %d logical", runtime.GOARCH, s.Machine.Cores,
			runtime.NumCPU())},
		{Name: "compiled for", Value: features(s.Features)},
		{Name: "kernels", Value: kernels(s.Kernels)},
		{Name: "memory", Value: memory(s.Machine)},
	}
	if len(s.Devices) == 0 {
		list = append(list, cli.Fact{Name: "GPU", Value: noGPU(s.Libraries)})
	}
	for _, d := range s.Devices {
		list = append(list, cli.Fact{Name: "GPU", Value: fmt.Sprintf("%s, %s, %s of %s free", d.Name, d.Description,
			gib(d.MemoryFree), gib(d.MemoryTotal))})
	}
	return list
}

// noGPU says why no GPU is used.
func noGPU(libraries []llamacpp.Library) string {
	why := "none that this build can use"
	for _, l := range libraries {
		if l.Err != nil {
			why += fmt.Sprintf("; %s does not load: %v", l.Path, l.Err)
		} else {
			why += fmt.Sprintf("; %s finds no GPU", l.Path)
		}
	}
	return why + "; the processor is used"
}

func features(all []llamacpp.Feature) string {
	var names []string
	for _, f := range all {
		if f.Value == "1" {
			names = append(names, f.Name)
		} else {
			names = append(names, f.Name+"="+f.Value)
		}
	}
	if len(names) == 0 {
		return "any processor of this kind; make build compiles for this one, which is faster"
	}
	return strings.Join(names, " ")
}

func kernels(instructions string) string {
	if instructions == "" {
		return "the engine's; the runner's own need AVX2 with FMA and F16C"
	}
	return "the runner's own, with " + instructions
}

func memory(m llamacpp.Machine) string {
	if m.MemoryTotal == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%s, %s available", gib(m.MemoryTotal), gib(m.MemoryAvailable))
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
