package machine

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
)

// write makes the files of a system.
func write(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLinuxState(t *testing.T) {
	root := write(t, map[string]string{
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq":             "3000000\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq":             "2000000\n",
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "4\n",
		"sys/class/thermal/thermal_zone0/temp":                             "41000\n",
		"sys/class/thermal/thermal_zone1/temp":                             "67500\n",
		"sys/class/thermal/thermal_zone2/temp":                             "unknown\n",
		"sys/class/power_supply/BAT0/status":                               "Discharging\n",
		"proc/loadavg":                                                     "1.25 1.00 0.50 2/300 4000\n",
		"proc/pressure/cpu": "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\n" +
			"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
	})
	want := State{Frequency: 2.5e9, Temperature: 67.5, Throttled: 7, Load: 1.25, Waiting: 2.5, Power: "battery"}
	if got := linuxState(root); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := linuxState(t.TempDir()); got != (State{}) {
		t.Errorf("a system that tells nothing gives %+v", got)
	}
	virtual := write(t, map[string]string{"proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU\n" +
		"cpu MHz\t\t: 2000.000\n\nprocessor\t: 1\nmodel name\t: Some CPU\ncpu MHz\t\t: 3000.000\n"})
	if got := linuxState(virtual).Frequency; got != 2.5e9 {
		t.Errorf("the frequency of a virtual machine is %v, want 2.5e9", got)
	}
}

func TestPeakOfLinux(t *testing.T) {
	root := write(t, map[string]string{"proc/7/status": "Name:\trunner\nVmPeak:\t  900 kB\nVmHWM:\t     512 kB\n"})
	if got := peak(root, "7"); got != 512<<10 {
		t.Errorf("the peak is %d, want %d", got, 512<<10)
	}
	if got := peak(root, "8"); got != 0 {
		t.Errorf("the peak of no process is %d", got)
	}
}

// TestMacOS reads outputs in the form of Apple's manual pages.
func TestMacOS(t *testing.T) {
	hot := "Note: No thermal warning level has been recorded\n2026-11-20 10:00:00 +0100 CPU Power notify\n" +
		"\tCPU_Scheduler_Limit \t= 100\n\tCPU_Available_CPUs \t= 10\n\tCPU_Speed_Limit \t= 62\n"
	cool := "Note: No thermal warning level has been recorded\nNote: No performance warning level has been recorded\n" +
		"Note: No CPU power status has been recorded\n"
	for text, want := range map[string]int{hot: 62, cool: 100, "": 0} {
		if got := readSpeedLimit(text); got != want {
			t.Errorf("the limit is %d, want %d, in %q", got, want, text)
		}
	}
	for text, want := range map[string]string{
		"Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t80%; discharging; 5:00 remaining\n": "battery",
		"Now drawing from 'AC Power'\n": "mains", "": "",
	} {
		if got := readPower(text); got != want {
			t.Errorf("the power is %q, want %q, in %q", got, want, text)
		}
	}
	if got := readGPUCores("+-o AGXAcceleratorG16X  <class AGXAcceleratorG16X>\n    {\n" +
		"      \"gpu-core-count\" = 40\n      \"model\" = \"Apple M4 Max\"\n    }\n"); got != 40 {
		t.Errorf("%d cores of the GPU, want 40", got)
	}
	if got := readPowermetrics("**** Processor usage ****\n\nE-Cluster Online: 100%\n" +
		"E-Cluster HW active frequency: 1000 MHz\nE-Cluster HW active residency:  20.00%\n" +
		"P0-Cluster HW active frequency: 4000 MHz\nP1-Cluster HW active frequency: 0 MHz\n"); got != 2.5e9 {
		t.Errorf("the frequency is %v, want 2.5e9", got)
	}
}

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after State
		want          int
	}{
		{"nothing is known", State{}, State{}, 0},
		{"small changes", State{Frequency: 3e9, Waiting: 1}, State{Frequency: 2.9e9, Waiting: 1.5, Load: 2}, 0},
		{"a lower clock", State{Frequency: 3e9}, State{Frequency: 2e9}, 1},
		{"heat", State{Throttled: 1}, State{Throttled: 5}, 1},
		{"a limit", State{Limit: 100}, State{Limit: 60}, 1},
		{"other work", State{Waiting: 1}, State{Waiting: 9}, 1},
		{"a cable", State{Power: "mains"}, State{Power: "battery"}, 1},
	} {
		if got := Changes(c.before, c.after, 10); len(got) != c.want {
			t.Errorf("%s: %q, want %d lines", c.name, got, c.want)
		}
	}
}

// TestThisMachine: the system tests run on tells its processor, and the memory of this process.
func TestThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("nothing is read on this system")
	}
	if f := Read(); f.Processor == "" || f.Cores == 0 {
		t.Errorf("this machine is %+v", f)
	}
	if got := Peak(0); got < 1<<20 {
		t.Errorf("this process had at most %d bytes in use", got)
	}
}
