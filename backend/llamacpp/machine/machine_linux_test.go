package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCPUQuota(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"none":        {map[string]string{"self": "0::/\n"}, 0},
		"v2 no limit": {map[string]string{"self": "0::/a/b\n", "cg/a/b/cpu.max": "max 100000\n"}, 0},
		"v2":          {map[string]string{"self": "0::/a/b\n", "cg/a/b/cpu.max": "150000 100000\n"}, 1.5},
		"v2 above": {map[string]string{"self": "0::/a/b\n", "cg/a/cpu.max": "50000 100000\n",
			"cg/a/b/cpu.max": "max 100000"}, 0.5},
		"v2 in container": {map[string]string{"self": "0::/../other\n", "cg/cpu.max": "200000 100000\n"}, 2},
		"v1": {map[string]string{"self": "4:cpu,cpuacct:/x\n", "cg/cpu,cpuacct/x/cpu.cfs_quota_us": "300000",
			"cg/cpu,cpuacct/x/cpu.cfs_period_us": "100000"}, 3},
		"v1 no limit": {map[string]string{"self": "4:cpu:/x\n", "cg/cpu/x/cpu.cfs_quota_us": "-1",
			"cg/cpu/x/cpu.cfs_period_us": "100000"}, 0},
		"rubbish": {map[string]string{"self": "x\n::::\n0::/a\n", "cg/a/cpu.max": "NaN inf -- \n"}, 0},
	} {
		root := tree(t, c.files)
		if got := cpuQuota(filepath.Join(root, "cg"), filepath.Join(root, "self")); got != c.want {
			t.Errorf("%s: %v processors, want %v", name, got, c.want)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	const gib = int64(1) << 30
	for name, c := range map[string]struct {
		files            map[string]string
		total, available int64
	}{
		"none": {map[string]string{"self": "0::/\n"}, 64 * gib, 32 * gib},
		"v2": {map[string]string{"self": "0::/a\n", "cg/a/memory.max": "4294967296\n", "cg/a/memory.current": "2147483648\n",
			"cg/a/memory.stat": "anon 5\ninactive_file 1073741824\n"}, 4 * gib, 3 * gib},
		"v2 no limit": {map[string]string{"self": "0::/a\n", "cg/a/memory.max": "max\n"}, 64 * gib, 32 * gib},
		"v2 over": {map[string]string{"self": "0::/a\n", "cg/a/memory.max": "1073741824",
			"cg/a/memory.current": "2147483648"}, gib, 0},
		"v1": {map[string]string{"self": "4:memory:/a\n", "cg/memory/a/memory.limit_in_bytes": "8589934592",
			"cg/memory/a/memory.usage_in_bytes": "0"}, 8 * gib, 8 * gib},
		"v1 no limit": {map[string]string{"self": "4:memory:/a\n",
			"cg/memory/a/memory.limit_in_bytes": "9223372036854771712"}, 64 * gib, 32 * gib},
	} {
		root := tree(t, c.files)
		total, available := 64*gib, 32*gib
		limitMemory(filepath.Join(root, "cg"), filepath.Join(root, "self"), &total, &available)
		if total != c.total || available != c.available {
			t.Errorf("%s: %d of %d bytes, want %d of %d", name, available, total, c.available, c.total)
		}
	}
}

func TestAddressSpaceLimit(t *testing.T) {
	const mib, infinity = 1 << 20, 1<<64 - 1
	status := filepath.Join(tree(t, map[string]string{
		"status": "Name:\tx\nVmPeak:\t  9000000 kB\nVmSize:\t 1024 kB\nVmData:\t 512 kB\n",
	}), "status")
	for _, c := range []struct {
		space, data uint64
		left        int64
		whole       bool
	}{
		{infinity, infinity, 0, false}, {10 * mib, infinity, 9 * mib, true}, {infinity, 2 * mib, 3 * mib / 2, false},
		{10 * mib, 2 * mib, 3 * mib / 2, false}, {2 * mib, 10 * mib, mib, true}, {mib / 2, infinity, 1, true},
	} {
		if left, whole := limitAddresses(status, c.space, c.data); left != c.left || whole != c.whole {
			t.Errorf("limits %d and %d: %d are left (%t), want %d (%t)", c.space, c.data, left, whole, c.left, c.whole)
		}
	}
}

func TestCoreOf(t *testing.T) {
	root := tree(t, map[string]string{
		"cpu0/topology/core_cpus_list": "0,2\n", "cpu2/topology/core_cpus_list": "0,2\n",
		"cpu1/topology/thread_siblings_list": "1,3\n",
	})
	if coreOf(root, 0) != coreOf(root, 2) || coreOf(root, 0) == coreOf(root, 1) || coreOf(root, 1) == coreOf(root, 5) {
		t.Errorf("cores %q %q %q %q", coreOf(root, 0), coreOf(root, 1), coreOf(root, 2), coreOf(root, 5))
	}
}

// tree makes a folder with these files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
