package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"runner/backend/llamacpp"
	"runner/backend/llamacpp/machine"
	"runner/cmd/runner/cli"
	"runner/cmd/runner/render"
	"runner/hint"
)

// facts lists what the engine in a folder, or for "" the one in this program, finds on the machine.
func facts(ctx context.Context, folder string) []cli.Fact {
	if folder != "" {
		return folderFacts(ctx, folder)
	}
	e, err := llamacpp.BuiltIn()
	if err != nil {
		return []cli.Fact{{Name: "engine start", Problem: err.Error()}}
	}
	s := e.System()
	list := []cli.Fact{
		processor(s.Machine),
		{Name: "compiled for", Value: features(s.Features)},
		{Name: "kernels", Value: e.Kernels()},
		{Name: "memory", Value: memory(s.Machine)},
	}
	if len(s.Devices) == 0 {
		list = append(list, cli.Fact{Name: "GPU", Value: noGPU(s.Libraries)})
	}
	for _, d := range s.Devices {
		list = append(list, cli.Fact{Name: "GPU", Value: fmt.Sprintf("%s, %s, %s of %s free", d.Name, d.Description,
			render.Size(d.MemoryFree), render.Size(d.MemoryTotal))})
	}
	return list
}

func processor(m machine.Resources) cli.Fact {
	return cli.Fact{Name: "processor", Value: fmt.Sprintf("%s, %d physical cores to use, %d logical", runtime.GOARCH,
		m.Cores, runtime.NumCPU())}
}

// machineFacts lists the processor and the memory of this machine.
func machineFacts() []cli.Fact {
	m := machine.Now()
	return []cli.Fact{processor(m), {Name: "memory", Value: memory(m)}}
}

// folderFacts asks the engine in a folder.
func folderFacts(ctx context.Context, folder string) []cli.Fact {
	e := describe(ctx, folder)
	if e.problem != nil {
		return []cli.Fact{{Name: "engine start", Problem: hint.Line(e.problem)}}
	}
	m := machine.Now()
	list := []cli.Fact{
		{Name: "engine", Value: fmt.Sprintf("%s %s in %s", llama, e.Version, folder)},
		processor(m),
		{Name: "kernels", Value: e.Kernels + "; the runner's own are for the engine in this program only"},
		{Name: "memory", Value: memory(m)},
	}
	gpu := strings.Join(e.Devices, ", ")
	if gpu == "" {
		gpu = strings.Join(append([]string{"none that this engine can use"}, e.Missing...), "; ")
	}
	return append(list, cli.Fact{Name: "GPU", Value: gpu})
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

func memory(m machine.Resources) string {
	if m.MemoryTotal == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%s, %s available", render.Size(m.MemoryTotal), render.Size(m.MemoryAvailable))
}
