package machine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
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
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq":                "3000000\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq":                "2000000\n",
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count":    "3\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count":    "4\n",
		"sys/class/thermal/thermal_zone0/temp":                                "41000\n",
		"sys/class/thermal/thermal_zone1/temp":                                "67500\n",
		"sys/class/thermal/thermal_zone2/temp":                                "unknown\n",
		"sys/class/hwmon/hwmon0/name":                                         "nvme\n",
		"sys/class/hwmon/hwmon0/temp1_input":                                  "90000\n",
		"sys/class/hwmon/hwmon1/name":                                         "k10temp\n",
		"sys/class/hwmon/hwmon1/temp1_input":                                  "71250\n",
		"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "5\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count": "5\n",
		"sys/class/power_supply/BAT0/status":                                  "Discharging\n",
		"proc/loadavg":                                                        "1.25 1.00 0.50 2/300 4000\n",
		"proc/pressure/cpu": "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\n" +
			"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
		"proc/stat": "cpu  1569013 2369 167924 730624 7961 0 1676 1650 0 0\n" +
			"cpu0 748893 1249 80055 407686 1075 0 509 823 0 0\ncpu1 820120 1119 87869 322938 6885 0 1166 826 0 0\n",
	})
	want := State{Frequency: 2.5e9, Temperature: 71.25, Throttled: 12, Load: 1.25, Waiting: 2.5, Stolen: 8.25,
		Power: "battery"}
	if got := linuxState(root, true); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if want.Frequency = 0; !reflect.DeepEqual(linuxState(root, false), want) {
		t.Errorf("without the frequency: %+v", linuxState(root, false))
	}
	if got := linuxState(t.TempDir(), true); !reflect.DeepEqual(got, State{}) {
		t.Errorf("a system that tells nothing gives %+v", got)
	}
	for _, text := range []string{"", "cpu", "cpu 1 2 3 4 5 6 7\n", "cpu0 1 2 3 4 5 6 7 8\n",
		"cpu 1 2 3 4 5 6 7 x\n"} {
		if got := readStolen(text); got != 0 {
			t.Errorf("%q gives %v seconds", text, got)
		}
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

func TestTimeOfMacOS(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"   0:00.25\n": 250 * time.Millisecond, "12:34.50": 12*time.Minute + 34500*time.Millisecond,
		"1:02:03": time.Hour + 2*time.Minute + 3*time.Second, "2-01:00:00": 49 * time.Hour, "": 0, "PID": 0, "x-1:00": 0,
	} {
		if got := readTime(text); got != want {
			t.Errorf("the time is %v, want %v, in %q", got, want, text)
		}
	}
}

// TestSettle: in a time that is not real, a process that looks for work for 330 ms is waited for, and one that never
// stops only as long as the limit says.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name        string
		busy, limit time.Duration
		want        bool
		least, most time.Duration
	}{
		{"idle", 0, time.Second, true, look, look},
		{"looks for work", 330 * time.Millisecond, time.Second, true, 330 * time.Millisecond, 330*time.Millisecond + 2*look},
		{"never stops", time.Hour, time.Second, false, time.Second, time.Second + look},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			used := func(process int) time.Duration {
				if process != 7 {
					return time.Minute // an idle one beside it
				}
				return min(time.Since(began), c.busy)
			}
			got := settle(t.Context(), []int{0, 7}, c.limit, used)
			if took := time.Since(began); got != c.want || took < c.least || took > c.most {
				t.Errorf("%s: %v after %v, want %v after %v to %v", c.name, got, took, c.want, c.least, c.most)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if settle(ctx, []int{1}, time.Hour, func(int) time.Duration { return time.Duration(time.Now().UnixNano()) }) {
			t.Error("a wait that was cancelled found a busy process idle")
		}
	})
}

// TestUsed: the system tells how long this process and another one used processors.
func TestUsed(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("nothing is read on this system")
	}
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	}()
	for end := time.Now().Add(time.Minute); Used(busy.Process.Pid) < 50*time.Millisecond; {
		if time.Now().After(end) {
			t.Fatalf("a busy process used processors for %v in a minute", Used(busy.Process.Pid))
		}
	}
	if own := Used(0); own < 10*time.Millisecond || own > time.Hour {
		t.Errorf("this process used processors for %v", own)
	}
	for end := time.Now().Add(time.Minute); Settle(t.Context(), []int{busy.Process.Pid}, 2*look); {
		if time.Now().After(end) { // on a busy machine it may get no processor once
			t.Fatal("a busy process is idle")
		}
	}
	_ = busy.Process.Kill()
	_ = busy.Wait()
	if !Settle(t.Context(), []int{busy.Process.Pid}, time.Minute) {
		t.Error("a process that ended is busy")
	}
}

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after State
		want          int
	}{
		{"nothing is known", State{}, State{}, 0},
		{"small changes", State{Clock: 3e9, Waiting: 1, Stolen: 1},
			State{Clock: 2.8e9, Waiting: 1.5, Stolen: 1.5, Load: 2}, 0},
		{"a lower clock", State{Clock: 3e9}, State{Clock: 2e9}, 1},
		{"idle processors", State{Frequency: 3e9}, State{Frequency: 1e9}, 0},
		{"heat", State{Throttled: 1}, State{Throttled: 5}, 1},
		{"a limit", State{Limit: 100}, State{Limit: 60}, 1},
		{"other work", State{Waiting: 1}, State{Waiting: 9}, 1},
		{"a moment of other work", State{Waiting: 1}, State{Waiting: 1.005}, 0},
		{"other machines", State{Stolen: 1}, State{Stolen: 3}, 1},
		{"a cable", State{Power: "mains"}, State{Power: "battery"}, 1},
		{"unknown power", State{}, State{Power: "battery"}, 0},
		{"an unknown limit", State{}, State{Limit: 60}, 0},
	} {
		seconds := 10.0
		if c.name == "a moment of other work" {
			seconds = 0.01
		}
		if got := Changes(c.before, c.after, seconds); len(got) != c.want {
			t.Errorf("%s: %q, want %d lines", c.name, got, c.want)
		}
		// A run is compared with the clock of others, and not with that of the idle processor before it.
		waiting := c.before
		waiting.Clock = 1e9
		if got := ChangesOfRun(waiting, c.after, seconds, c.before.Clock); len(got) != c.want {
			t.Errorf("%s: a run has %q, want %d lines", c.name, got, c.want)
		}
	}
}

// TestFastest: a slice that was interrupted does not lower the clock. The measuring ends after its time, but not before
// there are enough slices.
func TestFastest(t *testing.T) {
	for limit, want := range map[time.Duration]int{time.Millisecond: enough, 20 * time.Millisecond: 100} {
		var now time.Time
		slices := 0
		clock := fastestOf(limit, func() time.Time { return now }, func(cycles int) {
			took := time.Duration(cycles / 2) // at 2 GHz
			if slices++; slices%2 == 1 {
				took += 200 * time.Microsecond // another program
			}
			now = now.Add(took)
		})
		if clock != 2e9 || slices != want {
			t.Errorf("the clock is %v after %d slices, want 2e9 after %d", clock, slices, want)
		}
	}
}

// TestClock: the clock of this machine is one that processors have. Emulators and race detectors are slower.
func TestClock(t *testing.T) {
	for _, s := range []State{Now(), AfterWork()} {
		if s.Clock < 1e6 || s.Clock > 10e9 {
			t.Errorf("the clock is %v Hz", s.Clock)
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
