package llamacpp

// #include "shim.h"
import "C"

import (
	"runner/backend/llamacpp/machine"
	"runner/backend/llamacpp/plan"
)

// Feature is a processor feature that the engine was compiled for, or a library that it was built with.
type Feature struct{ Backend, Name, Value string }

// System is what the engine can use.
type System struct {
	Machine machine.Resources
	Devices []plan.Device
	// Libraries are the device libraries found with the program or in the engine's folder.
	Libraries []Library
	Features  []Feature
	// Kernels names the instructions that the runner's own kernels use. It is empty where only the engine's run.
	Kernels string
}

// System returns what the engine can use.
func (e *Engine) System() System {
	s := System{Machine: machine.Now(), Devices: e.devices(), Libraries: e.libraries, Kernels: e.facts.Kernels}
	for i := range C.shim_registries(e.c) {
		for j := C.size_t(0); ; j++ {
			f := C.shim_feature(e.c, i, j)
			if f.name == nil {
				break
			}
			s.Features = append(s.Features, Feature{C.GoString(C.shim_registry(e.c, i)), C.GoString(f.name),
				C.GoString(f.value)})
		}
	}
	return s
}

// devices lists the GPUs.
func (e *Engine) devices() []plan.Device {
	var list []plan.Device
	for i := C.size_t(0); ; i++ {
		d := C.shim_device_at(e.c, i)
		if d.name == nil {
			return list
		}
		if d._type == C.GGML_BACKEND_DEVICE_TYPE_GPU || d._type == C.GGML_BACKEND_DEVICE_TYPE_IGPU {
			list = append(list, plan.Device{Name: C.GoString(d.name), Description: C.GoString(d.description),
				MemoryFree: int64(d.free), MemoryTotal: int64(d.total)})
		}
	}
}
