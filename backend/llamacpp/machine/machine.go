// Package machine measures what this process may use of its machine: the physical cores and the memory, within the
// limits of its control group and its own.
package machine

// Resources are what this process can use.
type Resources struct {
	// Cores is how many physical cores the process may use: the distinct cores among its allowed processors,
	// limited by the CPU quota of its control group. At least 1.
	Cores int
	// MemoryTotal is the memory, in bytes, that processes could ever get; MemoryAvailable is what they can get now
	// without swapping. Each is the smaller of the machine's and the control group's. 0 if unknown.
	MemoryTotal, MemoryAvailable int64
	// Addresses is how much more memory the process may map within its resource limits; 0 means no limit.
	// MemoryAvailable is never more than that. Whole means that mapped files count, as with ulimit -v.
	Addresses int64
	Whole     bool
}

// laterAddresses are kept for stacks of threads and for Go's memory, which grows by 64 MiB. Both reserve more than they
// use.
const laterAddresses = 96 << 20

// Now returns what is available now.
func Now() Resources { return Measure().Limited() }

// Measure is Now with the memory of the machine and its control group, whatever this process may map.
func Measure() Resources {
	m := Resources{Cores: max(cores(), 1)}
	m.MemoryTotal, m.MemoryAvailable = memory()
	if m.Addresses, m.Whole = addresses(); m.Whole {
		m.Addresses = max(m.Addresses-laterAddresses, 1)
	}
	return m
}

// Without returns the machine without memory that is promised to others and that the system still counts as free.
func (m Resources) Without(untouched int64) Resources {
	if m.MemoryAvailable > 0 {
		m.MemoryAvailable = max(m.MemoryAvailable-untouched, 1)
	}
	return m
}

// Limited returns the machine within the limits of this process.
func (m Resources) Limited() Resources {
	if m.Addresses > 0 {
		m.MemoryAvailable = min(m.MemoryAvailable, m.Addresses)
	}
	return m
}
