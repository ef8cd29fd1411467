package gate

import (
	"math"
	"strings"
	"testing"
)

// around returns n figures near v that differ by up to spread, in an order that is not sorted.
func around(v, spread float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v * (1 + spread*(float64((i*7)%n)/float64(n)-0.5))
	}
	return out
}

func constant(v float64, n int) []float64 { return around(v, 0, n) }

func TestJudge(t *testing.T) {
	tests := []struct {
		name   string
		row    Row
		failed bool
	}{
		{"the same figures", Row{Old: around(100, 0.1, 8), New: around(100, 0.1, 8)}, false},
		{"2 % slower", Row{Old: constant(100, 8), New: constant(102, 8)}, false},
		{"4 % slower", Row{Old: constant(100, 8), New: constant(104, 8)}, true},
		{"4 % slower in each pair, while the machine varies by 40 %", Row{Old: around(100, 0.4, 8), New: around(104, 0.4, 8)}, true},
		{"half as slow", Row{Old: constant(100, 8), New: constant(50, 8)}, false},
		{"half the rate", Row{HigherBest: true, Old: constant(100, 8), New: constant(50, 8)}, true},
		{"twice the rate", Row{HigherBest: true, Old: constant(100, 8), New: constant(200, 8)}, false},
		{"slower in the median, but the interval begins below", Row{Old: constant(100, 6), New: []float64{90, 104, 104, 104, 104, 110}}, false},
		{"no allocation on either side", Row{Old: constant(0, 6), New: constant(0, 6)}, false},
		{"the first allocation", Row{Old: constant(0, 6), New: constant(1, 6)}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			first := test.row.Old[0]
			v, err := Judge(test.row, 0.03)
			if err != nil {
				t.Fatal(err)
			}
			if v.Failed != test.failed {
				t.Errorf("failed: got %v, want %v: %+v", v.Failed, test.failed, v)
			}
			if v.Low > v.Ratio || v.Ratio > v.High || v.Least > v.Low || v.Most < v.High {
				t.Errorf("got %+v, want least <= low <= ratio <= high <= most", v)
			}
			if test.row.Old[0] != first {
				t.Error("the row's figures were sorted, so that rounds are not pairs any more")
			}
		})
	}
}

// TestMinRounds holds that MinRounds is the least number with an interval: with fewer, no row could ever fail.
func TestMinRounds(t *testing.T) {
	if s := summary(constant(1, MinRounds)); math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		t.Errorf("%d rounds: got the interval %v to %v, want a finite one", MinRounds, s.Lo, s.Hi)
	}
	if s := summary(constant(1, MinRounds-1)); !math.IsInf(s.Lo, 0) {
		t.Errorf("%d rounds: got an interval from %v on, want an infinite one", MinRounds-1, s.Lo)
	}
	for _, r := range []Row{
		{Name: "create", Old: constant(1, MinRounds-1), New: constant(1, MinRounds-1)},
		{Name: "create", Old: constant(1, MinRounds), New: constant(1, MinRounds+1)},
	} {
		if _, err := Judge(r, 0.03); err == nil {
			t.Errorf("%d and %d figures: got no error, want one", len(r.Old), len(r.New))
		}
	}
}

func TestTable(t *testing.T) {
	text, compared, failed, err := Table([]Row{
		{Name: "get", Unit: "/s", HigherBest: true, Old: constant(40_000, 6), New: constant(20_000, 6)},
		{Name: "compile", Unit: "µs", Old: constant(100, 6), New: constant(100, 6)},
		{Name: "apply", Unit: "/s", Old: constant(100, 6), New: []float64{90, 100, 101, 102, 103, 120}},
		{Name: "parse", Unit: "ns", New: constant(100, 6)},
		{Name: "print", Unit: "ns", Old: constant(100, 6)},
	}, 0.03)
	if err != nil {
		t.Fatal(err)
	}
	if compared != 3 || failed != 1 {
		t.Errorf("got %d rows compared and %d failed, want 3 and 1", compared, failed)
	}
	for _, want := range []string{
		"| get | 40000 | 20000 /s | **2.000** | 2.000–2.000 |", "**FAIL** |\n| compile ", "| ok |\n", "| ok, not certain |\n",
		"parse: the old side does not have it\n", "print: the new side does not have it\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
}

func TestReadBenchmarks(t *testing.T) {
	got, err := ReadBenchmarks(strings.NewReader(`goos: linux
cpu: AMD EPYC
BenchmarkHTTPRoute/all-2         	  172354	      6938 ns/op	 183.62 MB/s	      16 B/op	       5 allocs/op
BenchmarkParse                   	 1000000	      1049 ns/op
BenchmarkCompile/a-b
PASS
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name, unit string
		figure     float64
	}{
		{"BenchmarkHTTPRoute/all", "ns/op", 6938}, {"BenchmarkHTTPRoute/all", "allocs/op", 5}, {"BenchmarkParse", "ns/op", 1049},
	} {
		if f, ok := got[want.name][want.unit]; !ok || f != want.figure {
			t.Errorf("%s, %s: got %v, want %v", want.name, want.unit, f, want.figure)
		}
	}
	if len(got) != 2 {
		t.Errorf("got %d benchmarks, want 2: %v", len(got), got)
	}
	if _, err := ReadBenchmarks(strings.NewReader("BenchmarkParse 10 1049 ns/op 7\n")); err == nil {
		t.Error("a figure without a unit: got no error")
	}
}
