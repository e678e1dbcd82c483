package machine

import (
	"bufio"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cores counts the distinct physical cores in the affinity mask, within the control group's quota.
func cores() int {
	n := 0
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		n = runtime.NumCPU()
	} else {
		seen := map[string]bool{}
		for cpu := range 1024 {
			if set.IsSet(cpu) {
				seen[coreOf("/sys/devices/system/cpu", cpu)] = true
			}
		}
		n = len(seen)
	}
	if q := cpuQuota("/sys/fs/cgroup", "/proc/self/cgroup"); q > 0 {
		n = min(n, int(math.Ceil(q)))
	}
	return n
}

// coreOf identifies the physical core of a processor by the list of processors that share it.
func coreOf(sys string, cpu int) string {
	dir := filepath.Join(sys, "cpu"+strconv.Itoa(cpu), "topology")
	for _, name := range []string{"core_cpus_list", "thread_siblings_list"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil && len(strings.TrimSpace(string(b))) > 0 {
			return strings.TrimSpace(string(b))
		}
	}
	return strconv.Itoa(cpu)
}

// cpuQuota returns the number of processors that the control groups grant, or 0 for no limit.
func cpuQuota(root, self string) float64 {
	least := 0.0
	take := func(quota, period float64) {
		if quota > 0 && period > 0 && (least == 0 || quota/period < least) {
			least = quota / period
		}
	}
	groups(root, self, "cpu", func(dir string, v2 bool) {
		if v2 {
			if f := strings.Fields(read(filepath.Join(dir, "cpu.max"))); len(f) == 2 {
				take(number(f[0]), number(f[1]))
			}
			return
		}
		take(number(read(filepath.Join(dir, "cpu.cfs_quota_us"))), number(read(filepath.Join(dir, "cpu.cfs_period_us"))))
	})
	return least
}

// memory returns the machine's memory within the control group's limit, in bytes.
func memory() (total, available int64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, rest, _ := strings.Cut(s.Text(), ":")
		kib := int64(number(strings.TrimSuffix(strings.TrimSpace(rest), " kB")))
		switch name {
		case "MemTotal":
			total = kib << 10
		case "MemAvailable":
			available = kib << 10
		}
	}
	limitMemory("/sys/fs/cgroup", "/proc/self/cgroup", &total, &available)
	return total, available
}

// addresses returns what is left of the process's address space; 0 means no limit. It is whole if mapped files count.
func addresses() (left int64, whole bool) {
	var space, data unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &space) != nil || unix.Getrlimit(unix.RLIMIT_DATA, &data) != nil {
		return 0, false
	}
	return limitAddresses("/proc/self/status", space.Cur, data.Cur)
}

// limitAddresses is addresses with the limits of the whole address space and of its data part.
func limitAddresses(status string, space, data uint64) (left int64, whole bool) {
	for line := range strings.Lines(read(status)) {
		name, rest, _ := strings.Cut(line, ":")
		most := space
		switch name {
		case "VmSize":
		case "VmData":
			most = data
		default:
			continue
		}
		if most >= math.MaxInt64 { // RLIM_INFINITY is larger
			continue
		}
		used := int64(number(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))) << 10
		if now := max(int64(most)-used, 1); left == 0 || now < left {
			left, whole = now, name == "VmSize"
		}
	}
	return left, whole
}

// limitMemory lowers total and available to what the control groups leave. File pages that the kernel can drop
// count as available.
func limitMemory(root, self string, total, available *int64) {
	groups(root, self, "memory", func(dir string, v2 bool) {
		limit, usage, reclaim := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
		if v2 {
			limit, usage, reclaim = "memory.max", "memory.current", "inactive_file"
		}
		most := number(read(filepath.Join(dir, limit)))
		if most <= 0 || most >= float64(*total) { // "max" reads as 0; v1 has a huge number for no limit
			return
		}
		used := number(read(filepath.Join(dir, usage)))
		for line := range strings.Lines(read(filepath.Join(dir, "memory.stat"))) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == reclaim {
				used -= number(value)
			}
		}
		*total = int64(most)
		*available = min(*available, max(int64(most-used), 0))
	})
}

// groups calls visit for the control group of this process and each of its ancestors, in version 2's tree or in
// version 1's tree of one controller.
func groups(root, self, controller string, visit func(dir string, v2 bool)) {
	for line := range strings.Lines(read(self)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		base, v2 := root, f[0] == "0" && f[1] == ""
		if !v2 {
			if !contains(strings.Split(f[1], ","), controller) {
				continue
			}
			base = filepath.Join(root, f[1])
			if _, err := os.Stat(base); err != nil {
				base = filepath.Join(root, controller)
			}
		}
		// Inside a container the path may be the host's. The root is then the container's own group.
		for dir := filepath.Clean("/" + f[2]); ; dir = filepath.Dir(dir) {
			visit(filepath.Join(base, dir), v2)
			if dir == "/" {
				break
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number reads a decimal number; any other text is 0.
func number(s string) float64 {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}
