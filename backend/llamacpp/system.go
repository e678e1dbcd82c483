package llamacpp

// #include "shim.h"
import "C"

// Device is a device other than the CPU on which the engine can compute.
type Device struct {
	// Name is the engine's name, for instance "CUDA0". Description is for people to read.
	Name, Description string
	// MemoryFree and MemoryTotal are in bytes.
	MemoryFree, MemoryTotal int64
}

// Feature is a processor feature that the engine was compiled for, or a library that it was built with.
type Feature struct{ Backend, Name, Value string }

// System is what the engine can use.
type System struct {
	Machine Machine
	Devices []Device
	// Libraries are the GPU libraries found with the program.
	Libraries []Library
	Features  []Feature
	// Kernels names the instructions that this package's kernels use. It is empty where only the engine's kernels
	// run.
	Kernels string
}

// SystemInfo returns what the engine can use, and starts it if necessary. It may be called from any goroutine.
func SystemInfo() (System, error) {
	if err := start(); err != nil {
		return System{}, err
	}
	s := System{Machine: ThisMachine(), Devices: devices(), Libraries: libraries, Kernels: ownKernels}
	for i := range C.ggml_backend_reg_count() {
		reg := C.ggml_backend_reg_get(i)
		for j := C.size_t(0); ; j++ {
			f := C.shim_feature(reg, j)
			if f.name == nil {
				break
			}
			s.Features = append(s.Features, Feature{C.GoString(C.ggml_backend_reg_name(reg)), C.GoString(f.name),
				C.GoString(f.value)})
		}
	}
	return s, nil
}

// devices lists the GPUs. The engine has been started.
func devices() []Device {
	var list []Device
	for i := range C.ggml_backend_dev_count() {
		d := C.ggml_backend_dev_get(i)
		if kind := C.ggml_backend_dev_type(d); kind != C.GGML_BACKEND_DEVICE_TYPE_GPU &&
			kind != C.GGML_BACKEND_DEVICE_TYPE_IGPU {
			continue
		}
		var free, total C.size_t
		C.ggml_backend_dev_memory(d, &free, &total)
		list = append(list, Device{C.GoString(C.ggml_backend_dev_name(d)), C.GoString(C.ggml_backend_dev_description(d)),
			int64(free), int64(total)})
	}
	return list
}
