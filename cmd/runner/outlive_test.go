//go:build linux || darwin

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"runner/backend/llamacpp/enginefolder"
	"runner/testenv"
)

// blow is a way to end an engine's process, in a number of rounds.
type blow struct {
	name   string
	signal syscall.Signal
	rounds int

	answers, lost int
	fates         [fates]int // of the answers
	took          []time.Duration
}

// blows returns the ways in which engines are ended, each with so many rounds, or with so many in long tests.
func blows(rounds, long int) []*blow {
	stops := some(min(rounds, 3), long) // each takes seconds until the engine counts as hanging
	rounds = some(rounds, long)
	return []*blow{
		{name: "SIGKILL", signal: syscall.SIGKILL, rounds: rounds},
		{name: "SIGABRT", signal: syscall.SIGABRT, rounds: rounds},
		{name: "SIGSTOP", signal: syscall.SIGSTOP, rounds: stops},
	}
}

// undisturbed has, for each question of a crowd, the answers of engines that were left alone.
type undisturbed [][]said

// leaveAlone starts a server and lets a crowd ask it, until a round has no new answer. It ends the server.
func leaveAlone(t *testing.T, args ...string) undisturbed {
	t.Helper()
	u := make(undisturbed, crowdClients*crowdQuestions)
	if !t.Run("undisturbed", func(t *testing.T) {
		s := serve(t, args...)
		s.healthy()
		if own := s.engines(); slices.Contains(args, "off") && len(own) != 0 {
			t.Errorf("the engine has a process of its own, %d", own)
		}
		rounds := 0
		for fresh := true; fresh && rounds < 20; rounds++ {
			answers, failed := s.crowd()
			if failed > 0 {
				t.Fatalf("%d requests failed: %q", failed, answers)
			}
			fresh = false
			for i, a := range answers {
				if err := wellFormed(i, a); err != nil {
					t.Errorf("answer %d is\n%q\n%v", i, a, err)
				}
				if !slices.Contains(u[i], a) {
					u[i] = append(u[i], a)
					fresh = true
				}
			}
		}
		t.Logf("%d rounds have %d answers to %d questions", rounds, len(slices.Concat(u...)), len(u))
	}) {
		t.FailNow()
	}
	return u
}

// A fate says how an answer of a crowd compares with those of engines that were left alone.
type fate int

// An answer is equal to an undisturbed one, went on in another way after the crash, or had already differed before it.
const (
	equal fate = iota
	continued
	strayed
	fates
)

// A judge returns the fate of answer i of a crowd, and an error if the answer must not be what it is. before is what
// had come of it when the engine was ended.
type judge func(i int, answer, before said) (fate, error)

// same is the judge for engines of which the logits depend on the sequence alone: it allows undisturbed answers only.
func (u undisturbed) same(i int, answer, _ said) (fate, error) {
	if !slices.Contains(u[i], answer) {
		return strayed, fmt.Errorf("undisturbed it is\n%q", u[i])
	}
	return equal, nil
}

// judge returns the judge for the compiled-in engine on this machine.
func (u undisturbed) judge(t *testing.T) judge {
	t.Helper()
	if !repeats(t) {
		return u.alike
	}
	for i, answers := range u {
		if len(answers) != 1 {
			t.Fatalf("the answers of undisturbed rounds differ: answer %d is\n%q", i, answers)
		}
	}
	return u.same
}

// alike is the judge for engines of which the logits depend a little on what else is in a step. A few answers may then
// differ from the undisturbed ones, which outlive counts, but all must be well formed.
func (u undisturbed) alike(i int, answer, before said) (fate, error) {
	if slices.Contains(u[i], answer) {
		return equal, nil
	}
	if !slices.ContainsFunc(u[i], before.begins) {
		return strayed, wellFormed(i, answer)
	}
	return continued, wellFormed(i, answer)
}

// TestAnswersOutliveTheEngine ends the engine's process at random moments, while eight clients stream. Every answer is
// that of a server whose engine was left alone, and nothing is left over. Where logits depend on the batch, a few
// answers may go on in another way after a crash.
func TestAnswersOutliveTheEngine(t *testing.T) {
	judge := leaveAlone(t, "--isolate", "off", "--parallel", "8").judge(t)
	late := outlive(t, blows(10, 100), judge, "--isolate", "on", "--parallel", "8")
	if late != 0 {
		t.Errorf("%v engines that worked were taken for hanging", late)
	}
}

// TestAnswersOutliveAFoldersEngine is TestAnswersOutliveTheEngine for an engine in a folder. Its kernels round by what
// else is in the batch, as the compiled-in engine's do on other processors and on GPUs.
func TestAnswersOutliveAFoldersEngine(t *testing.T) {
	testenv.NeedLong(t, "TestAnswersOutliveTheEngine ends engines in the same way")
	args := []string{"--engine", testEngine(t), "--parallel", "8"}
	late := outlive(t, blows(1, 10), leaveAlone(t, args...).alike, args...)
	t.Logf("%v engines were slow for so long that they were taken for hanging", late) // on a busy machine
}

// outlive starts a server with one model, demo, and ends its engine's process at random moments, while a crowd streams.
// late is how many engines were taken for hanging although nobody stopped them.
func outlive(t *testing.T, all []*blow, judge judge, args ...string) (late float64) {
	t.Helper()
	last := 0
	t.Cleanup(func() { // after the end of the server
		if last != 0 {
			dies(t, last)
		}
	})
	s := serve(t, args...)
	s.healthy()
	usual := time.Hour
	for range 3 {
		began := time.Now()
		got, _ := s.crowd()
		usual = min(usual, time.Since(began))
		for i := range got {
			if _, err := judge(i, got[i], said{}); err != nil {
				t.Fatalf("without a crash, answer %d is\n%q\n%v", i, got[i], err)
			}
		}
	}
	before, listed := s.descriptors()
	for range 20 { // some connections of clients may still be closing
		time.Sleep(50 * time.Millisecond)
		if now, _ := s.descriptors(); len(now) < len(before) {
			before = now
		}
	}
	if !listed {
		t.Log("not checked: the server's open files, which this system does not list")
	}
	r := rand.New(rand.NewPCG(1, 2))
	rounds, stops := 0, 0
	for open := slices.Clone(all); len(open) > 0; {
		b := open[r.IntN(len(open))]
		if s.strike(b, time.Duration(r.Int64N(int64(usual))), judge) {
			rounds++
			if b.signal == syscall.SIGSTOP {
				stops++
			}
		}
		open = slices.DeleteFunc(open, func(b *blow) bool { return len(b.took) == b.rounds })
	}
	t.Logf("an undisturbed round takes %v\n%s", usual.Round(time.Millisecond), blowTable(all))
	for _, b := range all {
		// Of the 16 answers of one round, two differed now and then on a busy machine.
		if other := b.answers - b.fates[equal]; other > 2+b.answers/50 {
			t.Errorf("after %s %d of %d answers differ from undisturbed ones", b.name, other, b.answers)
		}
	}
	late = s.leftover(before, rounds, stops)
	last = s.engine()
	return late
}

// strike ends the engine's process some time after a crowd began to ask, and judges the answers. It returns false if
// all had been answered before.
func (s *serving) strike(b *blow, after time.Duration, judge judge) bool {
	s.t.Helper()
	pid := s.engine()
	began := time.Now()
	c, come := new(crowd), make(chan []said, 1)
	timer := time.AfterFunc(after, func() {
		come <- c.now()
		_ = syscall.Kill(pid, b.signal)
	})
	got, lost := c.ask(s)
	took := time.Since(began)
	s.answers() // this finds an engine that was ended after the last answer
	if timer.Stop() {
		return false
	}
	then := <-come
	b.took = append(b.took, took)
	b.lost += lost
	for i := range got {
		b.answers++
		fate, err := judge(i, got[i], then[i])
		if b.fates[fate]++; err != nil {
			s.t.Errorf("round %d, %s after %v: answer %d is\n%q\n%v", len(b.took), b.name, after, i, got[i], err)
		}
	}
	if s.t.Failed() {
		s.t.Fatalf("the server's log:\n%s", s.logged())
	}
	return true
}

// leftover checks what a server has after crashes, and what it counts and logs. before is what it had open. late is how
// many engines were taken for hanging although nobody stopped them.
func (s *serving) leftover(before []string, rounds, stops int) (late float64) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left, _ := s.descriptors()
		if len(left) <= len(before) {
			break
		}
		if time.Now().After(deadline) {
			s.t.Errorf("the server has open\n%q\nand before the crashes\n%q", left, before)
			break
		}
	}
	crashes, hangs := s.metric(`runner_engine_crashes_total{model="demo"}`),
		s.metric(`runner_engine_hangs_total{model="demo"}`)
	late = hangs - float64(stops)
	if late < 0 || crashes != float64(rounds)+late {
		s.t.Errorf("%v crashes and %v hangs were counted in %d rounds", crashes, hangs, rounds)
	}
	if n := s.metric(`runner_engine_failed_total{model="demo"}`); n != 0 {
		s.t.Errorf("%v sequences failed", n)
	}
	if n := s.metric(`runner_engine_memory_bytes{model="demo"}`); n < 1<<20 {
		s.t.Errorf("the engine's process has %v bytes", n)
	}
	if strings.Contains(s.logged(), "What is") {
		s.t.Errorf("the log quotes a prompt:\n%s", s.logged())
	}
	return late
}

// descriptors returns what a server has open, without the connections that this process keeps for later, and whether
// the system lists that.
func (s *serving) descriptors() (open []string, listed bool) {
	http.DefaultClient.CloseIdleConnections()
	return descriptors(s.cmd.Process.Pid)
}

// blowTable returns a table of the rounds.
func blowTable(all []*blow) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "signal\trounds\tanswers\tequal\tcontinued\tstrayed\tlost\tmedian round\tlongest\t")
	for _, b := range all {
		slices.Sort(b.took)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t\n", b.name, len(b.took), b.answers, b.fates[equal],
			b.fates[continued], b.fates[strayed], b.lost,
			b.took[len(b.took)/2].Round(time.Millisecond), b.took[len(b.took)-1].Round(time.Millisecond))
	}
	w.Flush()
	return text.String()
}

// testEngine returns the folder of an engine in shared libraries, which this program can use.
func testEngine(t *testing.T) string {
	t.Helper()
	path := testenv.EngineFolder(t)
	if err := enginefolder.Check(path); err != nil {
		t.Fatal(err)
	}
	return path
}
