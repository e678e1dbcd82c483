package llamacpp

// Machine is what the computer offers to this process.
type Machine struct {
	// Cores is how many physical cores the process may use: distinct cores among the processors that it may run on, no
	// more than the CPU time that its control group grants. At least 1.
	Cores int
	// MemoryTotal and MemoryAvailable are in bytes: what the process could ever get, and what it can get now without
	// swapping; the smaller of the machine's and the control group's. 0 when unknown.
	MemoryTotal, MemoryAvailable int64
	// Addresses is how much more memory the process may map within its resource limits; 0 is no limit.
	// MemoryAvailable is no more than that.
	Addresses int64
}

// ThisMachine reports what is available now.
func ThisMachine() Machine {
	total, available := memory()
	m := Machine{Cores: max(cores(), 1), MemoryTotal: total, MemoryAvailable: available}
	if limit, left := addresses(); limit > 0 {
		m.Addresses = max(left, 1)
		m.MemoryTotal, m.MemoryAvailable = min(total, limit), min(available, m.Addresses)
	}
	return m
}
