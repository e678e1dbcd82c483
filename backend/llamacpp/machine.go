package llamacpp

// Machine describes the resources that this process can use.
type Machine struct {
	// Cores is how many physical cores the process may use: the distinct cores among its allowed processors,
	// limited by the CPU quota of its control group. At least 1.
	Cores int
	// MemoryTotal is the memory, in bytes, that the process could ever get; MemoryAvailable is what it can get now
	// without swapping. Each is the smaller of the machine's and the control group's. 0 if unknown.
	MemoryTotal, MemoryAvailable int64
	// Addresses is how much more memory the process may map within its resource limits; 0 means no limit.
	// MemoryAvailable is never more than that.
	Addresses int64
}

// ThisMachine returns what is available now.
func ThisMachine() Machine {
	total, available := memory()
	m := Machine{Cores: max(cores(), 1), MemoryTotal: total, MemoryAvailable: available}
	if limit, left := addresses(); limit > 0 {
		m.Addresses = max(left, 1)
		m.MemoryTotal, m.MemoryAvailable = min(total, limit), min(available, m.Addresses)
	}
	return m
}
